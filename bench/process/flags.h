/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the command lines of all benchmarks have in common. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  TPS_BENCH_RUN,  /* go on */
  TPS_BENCH_DONE, /* everything was printed: --help, --list, --version */
  TPS_BENCH_BAD,  /* a bad flag; `error` says which */
} TpsBenchVerdict;

/* What --help says of exit codes. */
#define TPS_FLAGS_EXIT_STATUS \
  "Exit status: 0 done, 1 a role or a pass failed, 2 a bad flag, 130 interrupted."

/* The value of a number that was not given on the command line: every other one was. */
#define TPS_FLAGS_NOT_GIVEN G_MININT

/* Parses `argv`, dashes and underscores in names alike; no other arguments are allowed. `given`
 * gets the command line as it was given, with dashes; owned. Like GOption itself, --help prints the
 * help and ends the process. Errors: TPS_ERROR_INVALID_ARGUMENT. */
gboolean tps_flags_parse (GOptionContext *context, gint argc, gchar **argv, gchar ***given,
                          GError **error);

/* Errors of a flag: "--flag=value: expected …". All return FALSE, or whether the value is fine. */
gboolean tps_flags_refuse (const gchar *flag, const gchar *value, const gchar *expected,
                           GError **error);
gboolean tps_flags_check_number (const gchar *flag, gint64 value, gint64 min, gint64 max,
                                 GError **error);
/* A finite number above 0, or 0 as well. */
gboolean tps_flags_check_factor (const gchar *flag, gdouble value, gboolean may_be_zero,
                                 GError **error);
/* `words` ends with NULL. */
gboolean tps_flags_check_word (const gchar *flag, const gchar *value, const gchar *const *words,
                               GError **error);

void tps_flags_default_to (gchar **value, const gchar *text);

/* `bazel run` starts programs in a folder of its own and says where the user stood: relative paths
 * are meant from there. */
void tps_flags_resolve_path (gchar **path);

/* Lines "name=value" for reports. */
void tps_flags_add_text (GPtrArray *lines, const gchar *name, const gchar *value);
void tps_flags_add_number (GPtrArray *lines, const gchar *name, gdouble value);

/* How often, against whom, and where the report goes. */
typedef struct
{
  gchar *json;
  gchar *csv;
  gchar *peer;
  gint repeats; /* TPS_FLAGS_NOT_GIVEN: 1, and 5 with a peer */
  gboolean smoke;
  gboolean version;
} TpsRunFlags;

/* `peers`: the text of --help for --peer; NULL: a benchmark without passes, which has neither
 * --peer nor --csv. */
void tps_run_flags_add (GOptionContext *context, TpsRunFlags *flags, const gchar *peers);

/* Defaults, paths, checks. `peers` ends with NULL: what --peer may be. */
gboolean tps_run_flags_finish (TpsRunFlags *flags, const gchar *const *peers, GError **error);
void tps_run_flags_clear (TpsRunFlags *flags);

G_END_DECLS
