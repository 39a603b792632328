/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/process/flags.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"

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

gboolean
tps_flags_parse (GOptionContext *context, gint argc, gchar **argv, gchar ***given, GError **error)
{
  g_auto (GStrv) arguments = with_dashes (argc, argv);
  g_auto (GStrv) rest = g_strdupv (arguments);
  g_autoptr (GError) local = NULL;
  gboolean help = FALSE;
  const GOptionEntry entries[] = {
    { "help", 'h', 0, G_OPTION_ARG_NONE, &help, "print this text", NULL },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };

  g_option_context_add_main_entries (context, entries, NULL);
  g_option_context_set_help_enabled (context, FALSE);
  if (!g_option_context_parse_strv (context, &rest, &local))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s (see --help)", local->message);
      return FALSE;
    }
  if (help)
    {
      print_help (context);
      exit (fflush (stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
  if (g_strv_length (rest) > 1)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "unexpected argument \"%s\" (see --help)", rest[1]);
      return FALSE;
    }
  *given = g_steal_pointer (&arguments);
  return TRUE;
}

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

gboolean
tps_flags_check_factor (const gchar *flag, gdouble value, gboolean may_be_zero, GError **error)
{
  g_autofree gchar *text = NULL;

  if (isfinite (value) && (value > 0 || (may_be_zero && value == 0)))
    return TRUE;
  text = g_strdup_printf ("%g", value);
  return tps_flags_refuse (
      flag, text, may_be_zero ? "a finite number from 0 up" : "a finite number above 0", error);
}

gboolean
tps_flags_check_word (const gchar *flag, const gchar *value, const gchar *const *words,
                      GError **error)
{
  g_autofree gchar *expected = NULL;

  if (value != NULL && g_strv_contains (words, value))
    return TRUE;
  expected = g_strjoinv (" or ", (gchar **) (gsize) words);
  return tps_flags_refuse (flag, value, expected, error);
}

void
tps_flags_default_to (gchar **value, const gchar *text)
{
  if (*value == NULL)
    *value = g_strdup (text);
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

void
tps_flags_add_text (GPtrArray *lines, const gchar *name, const gchar *value)
{
  g_ptr_array_add (lines, g_strdup_printf ("%s=%s", name, value != NULL ? value : ""));
}

void
tps_flags_add_number (GPtrArray *lines, const gchar *name, gdouble value)
{
  g_ptr_array_add (lines, g_strdup_printf ("%s=%.15g", name, value));
}

void
tps_run_flags_add (GOptionContext *context, TpsRunFlags *flags, const gchar *peers)
{
  const GOptionEntry entries[] = {
    { "json", 0, 0, G_OPTION_ARG_FILENAME, &flags->json, "write everything, raw samples included",
      "FILE" },
    { "repeats", 0, 0, G_OPTION_ARG_INT, &flags->repeats,
      peers != NULL ? "measured passes (1; 5 with --peer)" : "measured rounds (5)", "N" },
    { "smoke", 0, 0, G_OPTION_ARG_NONE, &flags->smoke, "a short run of a few seconds", NULL },
    { "version", 0, 0, G_OPTION_ARG_NONE, &flags->version, "print the version", NULL },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };
  const GOptionEntry of_passes[] = {
    { "peer", 0, 0, G_OPTION_ARG_STRING, &flags->peer, peers, "NAME" },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };

  flags->repeats = TPS_FLAGS_NOT_GIVEN;
  g_option_context_add_main_entries (context, entries, NULL);
  if (peers != NULL)
    g_option_context_add_main_entries (context, of_passes, NULL);
}

gboolean
tps_run_flags_finish (TpsRunFlags *flags, const gchar *const *peers, GError **error)
{
  if (flags->repeats == TPS_FLAGS_NOT_GIVEN)
    flags->repeats = flags->peer != NULL ? 5 : 1;
  tps_flags_resolve_path (&flags->json);
  return tps_flags_check_number ("repeats", flags->repeats, 1, 1000, error)
         && (flags->peer == NULL || tps_flags_check_word ("peer", flags->peer, peers, error));
}

void
tps_run_flags_clear (TpsRunFlags *flags)
{
  g_clear_pointer (&flags->json, g_free);
  g_clear_pointer (&flags->peer, g_free);
}
