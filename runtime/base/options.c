/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/options.h"

#include <math.h>
#include <string.h>

#include "runtime/base/error.h"

#define NS_PER_S 1e9
#define MAX_MIB ((gdouble) (G_MAXINT64 >> 20))
#define MAX_SECONDS 9e9 /* as nanoseconds, they fit into 64 bits */

/* One value from the command line or a file. */
typedef struct
{
  const TpsOption *option;
  gchar *label; /* the name in errors: "--ntrainer", "FILE: ntrainer" */
  gchar *text;
  gboolean is_from_file;
} Argument;

struct TpsArguments
{
  const TpsOption *options;
  GPtrArray *list; /* of Argument */
};

#define HELP_COLUMNS 100
#define MAX_FLAG_COLUMNS 28

static void
argument_free (gpointer data)
{
  Argument *argument = data;

  g_free (argument->label);
  g_free (argument->text);
  g_free (argument);
}

TpsArguments *
tps_arguments_new (const TpsOption *options)
{
  TpsArguments *arguments = g_new0 (TpsArguments, 1);

  arguments->options = options;
  arguments->list = g_ptr_array_new_with_free_func (argument_free);
  return arguments;
}

void
tps_arguments_free (TpsArguments *arguments)
{
  g_ptr_array_unref (arguments->list);
  g_free (arguments);
}

/* Returns TRUE if the given name is `name`, with "_" or "-" between the words. */
static gboolean
is_name (const gchar *name, const gchar *given, gsize n_bytes)
{
  for (gsize i = 0; i < n_bytes; i++)
    if (name[i] == '\0' || name[i] != (given[i] == '_' ? '-' : given[i]))
      return FALSE;
  return name[n_bytes] == '\0';
}

static const TpsOption *
find_option (const TpsArguments *arguments, const gchar *name, gsize n_bytes)
{
  for (const TpsOption *option = arguments->options; option->name != NULL; option++)
    if (is_name (option->name, name, n_bytes))
      return option;
  return NULL;
}

/* Takes ownership of `label`. */
static void
add_argument (TpsArguments *arguments, const TpsOption *option, gchar *label, const gchar *text,
              gboolean is_from_file)
{
  Argument *argument = g_new0 (Argument, 1);

  argument->option = option;
  argument->label = label;
  argument->text = g_strdup (text);
  argument->is_from_file = is_from_file;
  g_ptr_array_add (arguments->list, argument);
}

/* Adds the option at `*at`, and moves `*at` to the last argument that belongs to it. */
static gboolean
add_flag (TpsArguments *arguments, const gchar *const **at, GError **error)
{
  const gchar *flag = g_str_equal (**at, "-h") ? "--help" : **at;
  const gchar *equals = strchr (flag, '=');
  const gchar *value = equals != NULL ? equals + 1 : NULL;
  const TpsOption *option;

  if (!g_str_has_prefix (flag, "--"))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "unexpected argument \"%s\" (see --help)",
                     flag);
  option = find_option (arguments, flag + 2,
                        equals != NULL ? (gsize) (equals - flag) - 2 : strlen (flag + 2));
  if (option == NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "unknown option \"%s\" (see --help)", flag);
  if (value == NULL && option->type == TPS_OPTION_FLAG)
    value = "true";
  if (value == NULL)
    value = *++*at;
  if (value == NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "no value after \"%s\" (see --help)", flag);
  add_argument (arguments, option, g_strconcat ("--", option->name, NULL), value, FALSE);
  return TRUE;
}

gboolean
tps_arguments_add_line (TpsArguments *arguments, const gchar *const *argv, GError **error)
{
  if (*argv != NULL)
    argv++;
  for (; *argv != NULL; argv++)
    if (!add_flag (arguments, &argv, error))
      return FALSE;
  return TRUE;
}

/* Returns the last argument of an option, which decides its value; NULL if there is none. */
static const Argument *
find_last (const TpsArguments *arguments, const TpsOption *option)
{
  for (guint i = arguments->list->len; i > 0; i--)
    {
      const Argument *argument = arguments->list->pdata[i - 1];

      if (argument->option == option)
        return argument;
    }
  return NULL;
}

gboolean
tps_arguments_add (TpsArguments *arguments, const gchar *source, const gchar *name,
                   const gchar *value, GError **error)
{
  const TpsOption *option = find_option (arguments, name, strlen (name));
  const Argument *last = option != NULL ? find_last (arguments, option) : NULL;

  if (option == NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s: unknown option \"%s\"", source, name);
  /* The command line takes precedence over files. */
  if (last == NULL || last->is_from_file)
    add_argument (arguments, option, g_strdup_printf ("%s: %s", source, name), value, TRUE);
  return TRUE;
}

const gchar *
tps_arguments_get (const TpsArguments *arguments, const gchar *name)
{
  const TpsOption *option = find_option (arguments, name, strlen (name));
  const Argument *last = option != NULL ? find_last (arguments, option) : NULL;

  return last != NULL ? last->text : NULL;
}

GPtrArray *
tps_arguments_list (const TpsArguments *arguments, const TpsOption *option, gboolean *is_from_file)
{
  GPtrArray *texts = g_ptr_array_new ();

  *is_from_file = FALSE;
  for (guint i = 0; i < arguments->list->len; i++)
    {
      const Argument *argument = arguments->list->pdata[i];

      if (argument->option != option)
        continue;
      g_ptr_array_add (texts, argument->text);
      *is_from_file = argument->is_from_file;
    }
  return texts;
}

/* Parses a finite number. Refuses leading white space, which g_ascii_strtod() would skip. */
static gboolean
parse_real (const gchar *text, gdouble *number)
{
  gchar *end;

  *number = g_ascii_strtod (text, &end);
  return end != text && *end == '\0' && !g_ascii_isspace (*text) && isfinite (*number);
}

static gdouble
get_max (const TpsOption *option)
{
  if (option->max != 0)
    return option->max;
  if (option->type == TPS_OPTION_UINT)
    return G_MAXINT32;
  if (option->type == TPS_OPTION_SECONDS)
    return MAX_SECONDS;
  return option->type == TPS_OPTION_MIB ? MAX_MIB : G_MAXDOUBLE;
}

static gboolean
is_in_range (const TpsOption *option, gdouble number)
{
  return number >= option->min && number <= get_max (option);
}

static gboolean
set_whole (const TpsOption *option, const gchar *text, gpointer field)
{
  gint64 number;

  if (!g_ascii_string_to_signed (text, 10, G_MININT64, G_MAXINT64, &number, NULL)
      || !is_in_range (option, (gdouble) number))
    return FALSE;
  if (option->type == TPS_OPTION_UINT)
    *(guint *) field = (guint) number;
  else if (option->type == TPS_OPTION_MIB)
    *(gsize *) field = (gsize) number << 20;
  else
    *(gint64 *) field = number;
  return TRUE;
}

static gboolean
set_real (const TpsOption *option, const gchar *text, gpointer field)
{
  gdouble number;

  if (!parse_real (text, &number) || !is_in_range (option, number))
    return FALSE;
  if (option->type == TPS_OPTION_SECONDS)
    *(gint64 *) field = (gint64) ceil (number * NS_PER_S);
  else
    *(gdouble *) field = number;
  return TRUE;
}

/* Appends a copy of `text` to a NULL-terminated array; `*texts` may be NULL. */
static void
append_text (GStrv *texts, const gchar *text)
{
  guint n = *texts != NULL ? g_strv_length (*texts) : 0;

  *texts = g_renew (gchar *, *texts, n + 2);
  (*texts)[n] = g_strdup (text);
  (*texts)[n + 1] = NULL;
}

static gboolean
set_text (const TpsOption *option, const gchar *text, gpointer field, GError **error)
{
  if (option->check != NULL && !option->check (text, error))
    return FALSE;
  if (option->type == TPS_OPTION_TEXTS)
    append_text (field, text);
  else
    {
      g_free (*(gchar **) field);
      *(gchar **) field = g_strdup (text);
    }
  return TRUE;
}

/* Parses `text` and stores the value in `field`, whose type depends on the option. If this fails,
 * `error` is set only by the check of the option. */
static gboolean
set_value (const TpsOption *option, const gchar *text, gpointer field, GError **error)
{
  switch (option->type)
    {
    case TPS_OPTION_FLAG:
      *(gboolean *) field = g_str_equal (text, "true");
      return *(gboolean *) field || g_str_equal (text, "false");
    case TPS_OPTION_UINT:
    case TPS_OPTION_INT:
    case TPS_OPTION_MIB:
      return set_whole (option, text, field);
    case TPS_OPTION_REAL:
    case TPS_OPTION_SECONDS:
      return set_real (option, text, field);
    case TPS_OPTION_TEXT:
    case TPS_OPTION_TEXTS:
      return set_text (option, text, field, error);
    case TPS_OPTION_OTHER:
      return option->parse (text, field);
    }
  return FALSE;
}

static gboolean
refuse (const Argument *argument, const gchar *expected, GError **error)
{
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s=%s: expected %s", argument->label,
                   argument->text, expected);
}

static gboolean
is_number (const TpsOption *option)
{
  switch (option->type)
    {
    case TPS_OPTION_UINT:
    case TPS_OPTION_INT:
    case TPS_OPTION_REAL:
    case TPS_OPTION_MIB:
    case TPS_OPTION_SECONDS:
      return TRUE;
    default:
      return FALSE;
    }
}

static gchar *
to_expected (const TpsOption *option)
{
  if (option->expected != NULL)
    return g_strdup (option->expected);
  if (option->type == TPS_OPTION_FLAG)
    return g_strdup ("true or false");
  if (!is_number (option))
    return g_strdup ("a valid value");
  if (option->max != 0)
    return g_strdup_printf ("%.15g to %.15g", option->min, option->max);
  return g_strdup_printf ("%.15g or more", option->min);
}

static gboolean
apply_argument (const Argument *argument, gpointer values, GError **error)
{
  const TpsOption *option = argument->option;
  g_autoptr (GError) reason = NULL;
  g_autofree gchar *expected = NULL;

  if (set_value (option, argument->text, (guint8 *) values + option->offset, &reason))
    return TRUE;
  if (reason != NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s: %s", argument->label, reason->message);
  expected = to_expected (option);
  return refuse (argument, expected, error);
}

gboolean
tps_arguments_apply (const TpsArguments *arguments, gpointer values, GError **error)
{
  for (guint i = 0; i < arguments->list->len; i++)
    if (!apply_argument (arguments->list->pdata[i], values, error))
      return FALSE;
  for (const TpsOption *option = arguments->options; option->name != NULL; option++)
    if (option->initial != NULL && find_last (arguments, option) == NULL
        && !set_value (option, option->initial, (guint8 *) values + option->offset, error))
      g_error ("option %s: its default \"%s\" is not a valid value", option->name, option->initial);
  return TRUE;
}

void
tps_options_clear (const TpsOption *options, gpointer values)
{
  for (; options->name != NULL; options++)
    {
      gpointer field = (guint8 *) values + options->offset;

      if (options->type == TPS_OPTION_TEXT)
        g_clear_pointer ((gchar **) field, g_free);
      else if (options->type == TPS_OPTION_TEXTS)
        g_clear_pointer ((GStrv *) field, g_strfreev);
    }
}

gboolean
tps_arguments_refuse (const TpsArguments *arguments, const gchar *name, const gchar *expected,
                      GError **error)
{
  const Argument *last = find_last (arguments, find_option (arguments, name, strlen (name)));

  if (last != NULL)
    return refuse (last, expected, error);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "--%s: expected %s", name, expected);
}

/* Returns the default of an option as text; NULL if there is none. */
static const gchar *
get_default (const TpsOption *option)
{
  return option->meaning != NULL ? option->meaning : option->initial;
}

static gchar *
to_flag (const TpsOption *option)
{
  return option->unit != NULL ? g_strdup_printf ("--%s=%s", option->name, option->unit)
                              : g_strconcat ("--", option->name, NULL);
}

/* Appends `text`, broken between words, and a newline. `out` must end at column `indent`, at which
 * further lines also begin. */
static void
append_wrapped (GString *out, const gchar *text, guint indent)
{
  g_auto (GStrv) words = g_strsplit (text, " ", -1);
  gsize column = indent;

  for (guint i = 0; words[i] != NULL; i++)
    {
      gsize n = strlen (words[i]);

      if (i > 0 && column + 1 + n > HELP_COLUMNS)
        {
          g_string_append_printf (out, "\n%*s", (gint) indent, "");
          column = indent;
        }
      else if (i > 0)
        {
          g_string_append_c (out, ' ');
          column++;
        }
      g_string_append (out, words[i]);
      column += n;
    }
  g_string_append_c (out, '\n');
}

/* Returns the width of the column of flags. A longer flag has a line of its own. */
static guint
count_flag_columns (const TpsOption *options)
{
  gsize columns = 0;

  for (; options->name != NULL; options++)
    {
      g_autofree gchar *flag = to_flag (options);

      columns = MAX (columns, strlen (flag));
    }
  return (guint) MIN (columns, MAX_FLAG_COLUMNS);
}

/* Returns "DESCRIPTION: VALUES (DEFAULT)". The caller owns the text. */
static gchar *
to_description (const TpsOption *option)
{
  GString *text = g_string_new (option->help);
  const gchar *initial = get_default (option);

  if (option->expected != NULL)
    g_string_append_printf (text, ": %s", option->expected);
  if (initial != NULL)
    g_string_append_printf (text, " (%s)", initial);
  return g_string_free (text, FALSE);
}

gchar *
tps_options_to_help (const TpsOption *options)
{
  guint n_columns = count_flag_columns (options);
  GString *out = g_string_new (NULL);

  for (; options->name != NULL; options++)
    {
      g_autofree gchar *flag = to_flag (options);
      g_autofree gchar *text = to_description (options);

      g_string_append_printf (out, "  %-*s  ", (gint) n_columns, flag);
      if (strlen (flag) > n_columns)
        g_string_append_printf (out, "\n%*s", (gint) n_columns + 4, "");
      append_wrapped (out, text, n_columns + 4);
    }
  return g_string_free (out, FALSE);
}

static void
append_cell (GString *out, const gchar *text)
{
  for (; *text != '\0'; text++)
    {
      if (*text == '|')
        g_string_append_c (out, '\\');
      g_string_append_c (out, *text);
    }
}

gchar *
tps_options_to_markdown (const TpsOption *options)
{
  GString *out = g_string_new ("| option | default | values | |\n| --- | --- | --- | --- |\n");

  for (; options->name != NULL; options++)
    {
      g_autofree gchar *flag = to_flag (options);
      g_autofree gchar *expected = to_expected (options);
      const gchar *initial = get_default (options);

      g_string_append_printf (out, "| `%s` | ", flag);
      append_cell (out, initial != NULL ? initial : "");
      g_string_append (out, " | ");
      if (options->expected != NULL || is_number (options))
        append_cell (out, expected);
      g_string_append (out, " | ");
      append_cell (out, options->help);
      g_string_append (out, " |\n");
    }
  return g_string_free (out, FALSE);
}
