/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The common part of the command lines of all benchmarks. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The result of parsing a command line. */
typedef enum
{
  TPS_BENCH_RUN,  /* the program must continue */
  TPS_BENCH_DONE, /* --help, --list or --version has been printed */
  TPS_BENCH_BAD,  /* a bad flag; `error` names it */
} TpsBenchVerdict;

/* The text of --help about the exit status. */
#define TPS_FLAGS_EXIT_STATUS \
  "Exit status: 0 done, 1 a role or a pass failed, 2 a bad flag, 130 interrupted."

/* The value of a number that is not given on the command line. The user cannot give this value. */
#define TPS_FLAGS_NOT_GIVEN G_MININT

/* Parses `argv`. Names of flags may contain dashes or underscores; arguments that are not flags are
 * refused. `given` receives the command line with dashes, owned by the caller. --help prints the
 * help and exits the process. Errors: INVALID_ARGUMENT. */
gboolean tps_flags_parse (GOptionContext *context, gint argc, gchar **argv, gchar ***given,
                          GError **error);

/* Sets the error "--flag=value: expected …" (INVALID_ARGUMENT). tps_flags_refuse() returns FALSE.
 * The checks return TRUE if the value is valid. */
gboolean tps_flags_refuse (const gchar *flag, const gchar *value, const gchar *expected,
                           GError **error);
gboolean tps_flags_check_number (const gchar *flag, gint64 value, gint64 min, gint64 max,
                                 GError **error);
/* Requires a finite value above 0; `may_be_zero` also allows 0. */
gboolean tps_flags_check_factor (const gchar *flag, gdouble value, gboolean may_be_zero,
                                 GError **error);
/* Requires one of `words`, which end with NULL. */
gboolean tps_flags_check_word (const gchar *flag, const gchar *value, const gchar *const *words,
                               GError **error);

/* Sets `*value` to a copy of `text` if it is NULL. */
void tps_flags_default_to (gchar **value, const gchar *text);

/* Resolves a relative path against the working directory of the user. `bazel run` passes this
 * directory in the environment, because it starts programs in another folder. `*path` is replaced;
 * NULL stays. */
void tps_flags_resolve_path (gchar **path);

/* Add a line "name=value" to `lines`, for reports. A `value` of NULL is written as "". */
void tps_flags_add_text (GPtrArray *lines, const gchar *name, const gchar *value);
void tps_flags_add_number (GPtrArray *lines, const gchar *name, gdouble value);

/* The flags of all benchmarks: the number of passes, the peer, and the outputs. Strings are
 * owned. */
typedef struct
{
  gchar *json;
  gchar *peer;
  gint repeats; /* TPS_FLAGS_NOT_GIVEN = 1, or 5 with a peer */
  gboolean smoke;
  gboolean version;
} TpsRunFlags;

/* Adds the flags to `context`. `peers` is the help text of --peer. With NULL, the benchmark has no
 * passes, no --peer. `flags` must outlive the parsing. */
void tps_run_flags_add (GOptionContext *context, TpsRunFlags *flags, const gchar *peers);

/* Sets defaults, resolves paths and checks the values. `peers` lists the valid values of --peer and
 * ends with NULL. Errors: INVALID_ARGUMENT. */
gboolean tps_run_flags_finish (TpsRunFlags *flags, const gchar *const *peers, GError **error);
/* Frees the strings. */
void tps_run_flags_clear (TpsRunFlags *flags);

G_END_DECLS
