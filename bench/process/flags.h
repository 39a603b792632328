/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The common part of the command lines of all benchmarks. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  TPS_BENCH_RUN,  /* the program must run */
  TPS_BENCH_DONE, /* done: --help, --list or --version was printed */
  TPS_BENCH_BAD,  /* a bad flag; `error` names it */
} TpsBenchVerdict;

/* The text of --help about exit codes. */
#define TPS_FLAGS_EXIT_STATUS \
  "Exit status: 0 done, 1 a role or a pass failed, 2 a bad flag, 130 interrupted."

/* The value of a number that is not set on the command line; it cannot be given there. */
#define TPS_FLAGS_NOT_GIVEN G_MININT

/* Parses `argv`, with dashes or underscores in names; other arguments are refused. `given` receives
 * the command line with dashes, owned by the caller. Like GOption itself, --help prints the help
 * and ends the process. Errors: TPS_ERROR_INVALID_ARGUMENT. */
gboolean tps_flags_parse (GOptionContext *context, gint argc, gchar **argv, gchar ***given,
                          GError **error);

/* Errors of a flag: "--flag=value: expected …". tps_flags_refuse() returns FALSE; the checks return
 * TRUE if the value is valid. */
gboolean tps_flags_refuse (const gchar *flag, const gchar *value, const gchar *expected,
                           GError **error);
gboolean tps_flags_check_number (const gchar *flag, gint64 value, gint64 min, gint64 max,
                                 GError **error);
/* The value must be finite and above 0, or at least 0 if `may_be_zero`. */
gboolean tps_flags_check_factor (const gchar *flag, gdouble value, gboolean may_be_zero,
                                 GError **error);
/* The value must be one of `words`, which is NULL-terminated. */
gboolean tps_flags_check_word (const gchar *flag, const gchar *value, const gchar *const *words,
                               GError **error);

void tps_flags_default_to (gchar **value, const gchar *text);

/* `bazel run` starts programs in another folder and passes the user's working directory, against
 * which this resolves relative paths. */
void tps_flags_resolve_path (gchar **path);

/* Adds a line "name=value" for reports. */
void tps_flags_add_text (GPtrArray *lines, const gchar *name, const gchar *value);
void tps_flags_add_number (GPtrArray *lines, const gchar *name, gdouble value);

/* The number of passes, the peer, and the outputs. */
typedef struct
{
  gchar *json;
  gchar *csv;
  gchar *peer;
  gint repeats; /* TPS_FLAGS_NOT_GIVEN: 1, or 5 with a peer */
  gboolean smoke;
  gboolean version;
} TpsRunFlags;

/* Adds the flags. `peers` is the text of --help for --peer; NULL means a benchmark without passes,
 * --peer and --csv. */
void tps_run_flags_add (GOptionContext *context, TpsRunFlags *flags, const gchar *peers);

/* Sets defaults, resolves paths and checks the values. `peers` lists the values of --peer,
 * NULL-terminated. */
gboolean tps_run_flags_finish (TpsRunFlags *flags, const gchar *const *peers, GError **error);
void tps_run_flags_clear (TpsRunFlags *flags);

G_END_DECLS
