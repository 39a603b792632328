/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The command lines of all benchmarks, as tables of flags. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The value of a number that is not given on the command line. The user cannot give this value. */
#define TPS_FLAGS_NOT_GIVEN G_MININT
/* The lower end of a range of numbers above 0. */
#define TPS_FLAGS_ABOVE_0 G_MINDOUBLE

/* A flag. Its table ends with an entry without a name. All strings are static. */
typedef struct
{
  const gchar *name;     /* "batch-size" */
  GOptionArg type;       /* INT, INT64, DOUBLE, NONE, STRING or FILENAME */
  gsize offset;          /* of its field */
  const gchar *help;     /* NULL = for child processes; neither shown nor described */
  const gchar *argument; /* "N"; NULL for NONE */
  gdouble number;        /* the default of a number, which is valid outside the range, too */
  gdouble min, max;      /* its range; `max` 0 = any integer, or any DOUBLE from `min` on */
  const gchar *text;     /* the default of a string; NULL = none */
  const gchar *words;    /* the values of a string, such as "unix tcp"; NULL = any */
  gboolean is_silent;    /* tps_command_line_describe() omits the flag */
  gchar letter;          /* of the short form; 0 = none */
} TpsFlag;

/* A command line: tables, and the offsets of the structs that have their fields. */
typedef struct
{
  const gchar *name;    /* of the benchmark: "lookup" */
  const gchar *summary; /* for --help */
  struct
  {
    const TpsFlag *flags;
    gsize offset;
  } groups[6]; /* in the order of --help; the rest is empty */
} TpsCommandLine;

/* The flags of all benchmarks: rounds or passes, and outputs. */
typedef struct
{
  gchar *json, *peer;
  gint repeats;
  gboolean smoke;
} TpsRunFlags;

/* The table of TpsRunFlags, without --peer, whose values differ. */
extern const TpsFlag tps_run_flags[];

/* Sets the defaults in `options`, parses `argv`, resolves relative paths against the working
 * directory of the user (see tps_flags_resolve_path()), and checks ranges and words. Names of flags
 * may contain dashes or underscores; arguments that are not flags are refused. `given` receives the
 * command line with dashes, owned by the caller; NULL = not needed. --help and --version print
 * their text and exit the process. Errors: INVALID_ARGUMENT. */
gboolean tps_command_line_parse (const TpsCommandLine *line, gpointer options, gint argc,
                                 gchar **argv, gchar ***given, GError **error);
/* Frees the strings of `options`. */
void tps_command_line_clear (const TpsCommandLine *line, gpointer options);

/* Returns a line "name=value" for each flag ("" if not given). The caller owns the result. */
GPtrArray *tps_command_line_describe (const TpsCommandLine *line, gconstpointer options);

/* -- for checks that no table can express -- */

/* Sets the error "--flag=value: expected …" (INVALID_ARGUMENT). Returns FALSE. */
gboolean tps_flags_refuse (const gchar *flag, const gchar *value, const gchar *expected,
                           GError **error);
/* Returns TRUE if the value is in the range. Errors: as above. */
gboolean tps_flags_check_number (const gchar *flag, gint64 value, gint64 min, gint64 max,
                                 GError **error);

/* Set `*value` if it has not been given. Texts are copied. */
void tps_flags_default_to (gchar **value, const gchar *text);
void tps_flags_default_number (gint *value, gint number);

/* Resolves a relative path against the user's working directory, which `bazel run` passes in the
 * environment. `*path` is replaced; NULL stays. */
void tps_flags_resolve_path (gchar **path);

G_END_DECLS
