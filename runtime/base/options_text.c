/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "runtime/base/options.h"

#define HELP_COLUMNS 100
#define MAX_FLAG_COLUMNS 28

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

gchar *
tps_option_to_expected (const TpsOption *option)
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

/* ---- help ----------------------------------------------------------------------------------- */

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

/* ---- table for the manual ------------------------------------------------------------------- */

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
      g_autofree gchar *expected = tps_option_to_expected (options);
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
