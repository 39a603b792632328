/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The options of a program as one table: each row makes a flag, a key of the configuration file, a
 * line of --help, and a row of the table in the manual.
 *
 *   arguments = tps_arguments_new (options);
 *   tps_arguments_add_line (arguments, argv, &error)           the command line; it has precedence
 *   tps_arguments_add (arguments, path, key, value, &error)    each value of a file
 *   tps_arguments_apply (arguments, &flags, &error)            checks, and fills in defaults
 *   tps_options_clear (options, &flags)
 *
 * Flags are --NAME=VALUE or --NAME VALUE; dashes and underscores in names are equivalent. A
 * TPS_OPTION_FLAG takes a value only after "=". The last of several values counts, except for
 * TPS_OPTION_TEXTS. Errors are INVALID_ARGUMENT, with one line that names the option, its value and
 * the expected values. Thread: one at a time. */

#pragma once

#include <glib.h>
#include <stddef.h>

/* The type of the text, and of the field at `offset`. */
typedef enum
{
  TPS_OPTION_FLAG = 1, /* gboolean; a flag without a value means TRUE */
  TPS_OPTION_UINT,     /* guint */
  TPS_OPTION_INT,      /* gint64 */
  TPS_OPTION_REAL,     /* gdouble */
  TPS_OPTION_MIB,      /* whole MiB; the field is a gsize of bytes */
  TPS_OPTION_SECONDS, /* seconds with fractions; the field is a gint64 of nanoseconds, rounded up */
  TPS_OPTION_TEXT,    /* gchar *, which the struct owns */
  TPS_OPTION_TEXTS,   /* GStrv, which the struct owns; may be repeated */
  TPS_OPTION_OTHER,   /* any field that `parse` fills in; it must own no memory */
} TpsOptionType;

typedef struct
{
  const gchar *name; /* with dashes */
  TpsOptionType type;
  gsize offset;
  /* "MIB", "N", "ADDRESS": the placeholder of the value in help; NULL for TPS_OPTION_FLAG. */
  const gchar *unit;
  const gchar *initial; /* the default in the syntax of a value; NULL = the field is zero */
  /* The default in words, for help: "a quarter of the memory"; NULL = `initial`. */
  const gchar *meaning;
  /* Numbers must be in [min, max]; max 0 = only the limit of the type (2^31 - 1 for
   * TPS_OPTION_UINT). */
  gdouble min, max;
  /* For TPS_OPTION_TEXT and _TEXTS, optional: returns TRUE if a value is valid. If it returns FALSE
   * without an error, the message has `expected`. */
  gboolean (*check) (const gchar *text, GError **error);
  /* For TPS_OPTION_OTHER: fills in the field; returns FALSE for an invalid value. */
  gboolean (*parse) (const gchar *text, gpointer field);
  const gchar *expected; /* the expected values in messages: "1 to 256"; NULL = from min and max */
  const gchar *help;
  gboolean is_secret; /* its values must not be shown */
} TpsOption;

typedef struct TpsArguments TpsArguments;

/* Creates an empty list, owned by the caller. `options`, borrowed, must end with a NULL name. */
TpsArguments *tps_arguments_new (const TpsOption *options);
void tps_arguments_free (TpsArguments *arguments);

/* Adds the flags of a command line, whose first element is the program, and which ends with NULL.
 * Refuses unknown flags, missing values, and arguments that are not flags. `-h` is --help. */
gboolean tps_arguments_add_line (TpsArguments *arguments, const gchar *const *argv, GError **error);

/* Adds one value of a file, unless the command line, which must already have been added, also has
 * the option. `source` names the file in errors. */
gboolean tps_arguments_add (TpsArguments *arguments, const gchar *source, const gchar *name,
                            const gchar *value, GError **error);

/* Returns the last value so far, borrowed; NULL if there is none. */
const gchar *tps_arguments_get (const TpsArguments *arguments, const gchar *name);

/* Returns all values so far, in order, as an array of borrowed texts (g_ptr_array_unref()). Sets
 * `is_from_file` to TRUE if the last value came from a file. */
GPtrArray *tps_arguments_list (const TpsArguments *arguments, const TpsOption *option,
                               gboolean *is_from_file);

/* Checks all values and fills in `values`, which must be zero on entry, with values or defaults.
 * The caller must call tps_options_clear(), even after an error. */
gboolean tps_arguments_apply (const TpsArguments *arguments, gpointer values, GError **error);

/* Frees TPS_OPTION_TEXT and _TEXTS and sets them to NULL. */
void tps_options_clear (const TpsOption *options, gpointer values);

/* Sets the error for a value that conflicts with other options: "--NAME=VALUE: expected ...".
 * Always returns FALSE. */
gboolean tps_arguments_refuse (const TpsArguments *arguments, const gchar *name,
                               const gchar *expected, GError **error);

/* ---- text; the caller owns it ---------------------------------------------------------------- */

/* Returns lines for --help, of at most 100 columns; in ASCII if the table is. */
gchar *tps_options_to_help (const TpsOption *options);

/* Returns a Markdown table: option, default, values, description. */
gchar *tps_options_to_markdown (const TpsOption *options);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsArguments, tps_arguments_free)
