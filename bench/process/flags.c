/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/process/flags.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/error.h"

const TpsFlag tps_run_flags[] = {
  { "json", G_OPTION_ARG_FILENAME, G_STRUCT_OFFSET (TpsRunFlags, json),
    "write everything, raw samples included", "FILE", .is_silent = TRUE },
  { "repeats", G_OPTION_ARG_INT, G_STRUCT_OFFSET (TpsRunFlags, repeats),
    "measured rounds (5), or passes of trainers (1; 5 with --peer)", "N", TPS_FLAGS_NOT_GIVEN, 1,
    1000 },
  { "smoke", G_OPTION_ARG_NONE, G_STRUCT_OFFSET (TpsRunFlags, smoke),
    "a short run of a few seconds" },
  { NULL },
};

/* -- tables -- */

/* Calls `visit` for each flag and its field, until it returns FALSE. */
static gboolean
for_each (const TpsCommandLine *line, gpointer options,
          gboolean (*visit) (const TpsFlag *flag, gpointer field, gpointer user_data),
          gpointer user_data)
{
  for (guint i = 0; i < G_N_ELEMENTS (line->groups) && line->groups[i].flags != NULL; i++)
    for (const TpsFlag *flag = line->groups[i].flags; flag->name != NULL; flag++)
      if (!visit (flag, (gchar *) options + line->groups[i].offset + flag->offset, user_data))
        return FALSE;
  return TRUE;
}

static gboolean
is_text (const TpsFlag *flag)
{
  return flag->type == G_OPTION_ARG_STRING || flag->type == G_OPTION_ARG_FILENAME;
}

static gint64
get_integer (const TpsFlag *flag, gconstpointer field)
{
  return flag->type == G_OPTION_ARG_INT64 ? *(const gint64 *) field : *(const gint *) field;
}

static gboolean
add_entry (const TpsFlag *flag, gpointer field, gpointer entries)
{
  GOptionEntry entry = { .long_name = flag->name,
                         .short_name = flag->letter,
                         .flags = flag->help == NULL ? G_OPTION_FLAG_HIDDEN : 0,
                         .arg = flag->type,
                         .arg_data = field,
                         .description = flag->help,
                         .arg_description = flag->argument };

  if (is_text (flag))
    *(gchar **) field = NULL;
  else if (flag->type == G_OPTION_ARG_INT64)
    *(gint64 *) field = (gint64) flag->number;
  else if (flag->type == G_OPTION_ARG_DOUBLE)
    *(gdouble *) field = flag->number;
  else
    *(gint *) field = (gint) flag->number;
  g_array_append_val ((GArray *) entries, entry);
  return TRUE;
}

static gboolean
check_text (const TpsFlag *flag, gchar **field, GError **error)
{
  g_auto (GStrv) words = NULL;
  g_autofree gchar *expected = NULL;

  if (flag->type == G_OPTION_ARG_FILENAME)
    tps_flags_resolve_path (field);
  if (flag->text != NULL)
    tps_flags_default_to (field, flag->text);
  if (flag->words == NULL || *field == NULL)
    return TRUE;
  words = g_strsplit (flag->words, " ", -1);
  if (g_strv_contains ((const gchar *const *) words, *field))
    return TRUE;
  expected = g_strjoinv (" or ", words);
  return tps_flags_refuse (flag->name, *field, expected, error);
}

static gboolean
check_double (const TpsFlag *flag, gdouble value, GError **error)
{
  g_autofree gchar *text = g_strdup_printf ("%g", value);
  g_autofree gchar *expected = NULL;

  if (value <= flag->number && value >= flag->number)
    return TRUE;
  if (!isfinite (value) || value < flag->min)
    return tps_flags_refuse (
        flag->name, text, flag->min > 0 ? "a finite number above 0" : "a finite number from 0 up",
        error);
  if (flag->max == 0 || value <= flag->max)
    return TRUE;
  expected = g_strdup_printf ("at most %g", flag->max);
  return tps_flags_refuse (flag->name, text, expected, error);
}

static gboolean
check_flag (const TpsFlag *flag, gpointer field, gpointer error)
{
  if (is_text (flag))
    return check_text (flag, field, error);
  if (flag->type == G_OPTION_ARG_DOUBLE)
    return check_double (flag, *(const gdouble *) field, error);
  return flag->max <= 0 || get_integer (flag, field) == (gint64) flag->number
         || tps_flags_check_number (flag->name, get_integer (flag, field), (gint64) flag->min,
                                    (gint64) flag->max, error);
}

/* -- the command line -- */

/* Changes "--batch_size=4" to "--batch-size=4". Values keep their underscores. */
static gchar **
with_dashes (gint argc, gchar **argv)
{
  gchar **copy = g_new0 (gchar *, (gsize) argc + 1);

  for (gint i = 0; i < argc; i++)
    {
      copy[i] = g_strdup (argv[i]);
      if (i > 0 && g_str_has_prefix (copy[i], "--"))
        for (gchar *at = copy[i] + 2; *at != '\0' && *at != '='; at++)
          if (*at == '_')
            *at = '-';
    }
  return copy;
}

/* Replaces the ellipsis of GOption's help, which is unreadable in locales without UTF-8. */
static void
print_help (GOptionContext *context)
{
  g_autofree gchar *help = g_option_context_get_help (context, TRUE, NULL);
  g_auto (GStrv) parts = g_strsplit (help, "[OPTION\u2026]", 2);
  g_autofree gchar *ascii = g_strjoinv ("[OPTION...]", parts);

  printf ("%s", ascii);
}

static gboolean
parse (const TpsCommandLine *line, gpointer options, gchar **arguments, GError **error)
{
  gboolean help = FALSE, version = FALSE;
  const GOptionEntry last[] = {
    { "version", 0, 0, G_OPTION_ARG_NONE, &version, "print the version", NULL },
    { "help", 'h', 0, G_OPTION_ARG_NONE, &help, "print this text", NULL },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  g_autoptr (GArray) entries = g_array_new (TRUE, TRUE, sizeof (GOptionEntry));
  g_auto (GStrv) rest = g_strdupv (arguments);
  g_autoptr (GError) local = NULL;

  for_each (line, options, add_entry, entries);
  g_array_append_vals (entries, last, G_N_ELEMENTS (last));
  g_option_context_add_main_entries (context, (GOptionEntry *) (gpointer) entries->data, NULL);
  g_option_context_set_summary (context, line->summary);
  g_option_context_set_description (
      context, "Exit status: 0 done, 1 a role or a pass failed, 2 a bad flag, 130 interrupted.");
  g_option_context_set_help_enabled (context, FALSE);
  if (!g_option_context_parse_strv (context, &rest, &local))
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s (see --help)", local->message);
  else if (g_strv_length (rest) > 1 && !help)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "unexpected argument \"%s\" (see --help)", rest[1]);
  else if (!help && !version)
    return TRUE;
  else
    {
      if (help)
        print_help (context);
      else
        printf ("%s (ThriftPS) %s\n", line->name, TPS_VERSION);
      exit (fflush (stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
  return FALSE;
}

gboolean
tps_command_line_parse (const TpsCommandLine *line, gpointer options, gint argc, gchar **argv,
                        gchar ***given, GError **error)
{
  g_auto (GStrv) arguments = with_dashes (argc, argv);

  if (!parse (line, options, arguments, error) || !for_each (line, options, check_flag, error))
    return FALSE;
  if (given != NULL)
    *given = g_steal_pointer (&arguments);
  return TRUE;
}

static gboolean
clear_flag (const TpsFlag *flag, gpointer field, G_GNUC_UNUSED gpointer user_data)
{
  if (is_text (flag))
    g_clear_pointer ((gchar **) field, g_free);
  return TRUE;
}

void
tps_command_line_clear (const TpsCommandLine *line, gpointer options)
{
  for_each (line, options, clear_flag, NULL);
}

static gboolean
describe_flag (const TpsFlag *flag, gpointer field, gpointer lines)
{
  g_autofree gchar *number = NULL;
  const gchar *value = "";

  if (flag->help == NULL || flag->is_silent)
    return TRUE;
  if (flag->type == G_OPTION_ARG_NONE)
    value = *(const gboolean *) field ? "true" : "false";
  else if (is_text (flag))
    value = *(gchar **) field != NULL ? *(gchar **) field : "";
  else if (flag->type == G_OPTION_ARG_DOUBLE)
    value = number = g_strdup_printf ("%.15g", *(const gdouble *) field);
  else if (get_integer (flag, field) > TPS_FLAGS_NOT_GIVEN)
    value = number = g_strdup_printf ("%" G_GINT64_FORMAT, get_integer (flag, field));
  g_ptr_array_add (lines, g_strdup_printf ("%s=%s", flag->name, value));
  return TRUE;
}

GPtrArray *
tps_command_line_describe (const TpsCommandLine *line, gconstpointer options)
{
  GPtrArray *lines = g_ptr_array_new_with_free_func (g_free);

  for_each (line, (gpointer) (gsize) options, describe_flag, lines);
  return lines;
}

/* -- checks and defaults -- */

gboolean
tps_flags_refuse (const gchar *flag, const gchar *value, const gchar *expected, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "--%s=%s: expected %s", flag, value,
               expected);
  return FALSE;
}

gboolean
tps_flags_check_number (const gchar *flag, gint64 value, gint64 min, gint64 max, GError **error)
{
  if (value >= min && value <= max)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "--%s=%" G_GINT64_FORMAT ": expected %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT,
               flag, value, min, max);
  return FALSE;
}

void
tps_flags_default_to (gchar **value, const gchar *text)
{
  if (*value == NULL)
    *value = g_strdup (text);
}

void
tps_flags_default_number (gint *value, gint number)
{
  if (*value == TPS_FLAGS_NOT_GIVEN)
    *value = number;
}

void
tps_flags_resolve_path (gchar **path)
{
  const gchar *stood_in = g_getenv ("BUILD_WORKING_DIRECTORY");
  gchar *resolved;

  if (*path == NULL || stood_in == NULL || g_path_is_absolute (*path))
    return;
  resolved = g_build_filename (stood_in, *path, NULL);
  g_free (*path);
  *path = resolved;
}
