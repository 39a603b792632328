/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/process/runfiles.h"

#include <glib/gstdio.h>
#include <string.h>

#include "runtime/base/error.h"

gchar *
tps_bench_find_program (void)
{
  g_autoptr (GError) local = NULL;
  gchar *path = g_file_read_link ("/proc/self/exe", &local);

  if (path == NULL)
    g_error ("cannot read /proc/self/exe: %s", local->message);
  return path;
}

gchar *
tps_bench_find_file (const gchar *name, GError **error)
{
  g_autofree gchar *program = tps_bench_find_program ();
  g_autofree gchar *runfiles = g_strconcat (program, ".runfiles/thriftps", NULL);
  g_autofree gchar *folder = g_path_get_dirname (program);
  const gchar *said = g_getenv ("RUNFILES_DIR");
  const gchar *const roots[] = { runfiles, folder, ".", NULL };

  if (said != NULL)
    {
      g_autofree gchar *path = g_build_filename (said, "thriftps", name, NULL);

      if (g_file_test (path, G_FILE_TEST_EXISTS))
        return g_steal_pointer (&path);
    }
  for (guint i = 0; roots[i] != NULL; i++)
    {
      g_autofree gchar *path = g_build_filename (roots[i], name, NULL);

      if (g_file_test (path, G_FILE_TEST_EXISTS))
        return g_steal_pointer (&path);
    }
  g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "%s is neither in %s nor next to the program",
               name, runfiles);
  return NULL;
}

gchar **
tps_argv_format (const gchar *format, ...)
{
  g_autoptr (GStrvBuilder) argv = g_strv_builder_new ();
  g_autofree gchar *text = NULL;
  g_auto (GStrv) lines = NULL;
  va_list arguments;

  va_start (arguments, format);
  text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  lines = g_strsplit (text, "\n", -1);
  for (gchar **line = lines; *line != NULL; line++)
    if (**line != '\0')
      g_strv_builder_add (argv, *line);
  return g_strv_builder_end (argv);
}

/* Removes a folder recursively. Symbolic links are removed, not followed. */
static void
remove_folder (const gchar *path)
{
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  const gchar *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree gchar *entry = g_build_filename (path, name, NULL);

      if (g_unlink (entry) != 0)
        remove_folder (entry);
    }
  g_rmdir (path);
}

void
tps_bench_remove_folder (gchar *path)
{
  remove_folder (path);
  g_free (path);
}

#define DEBIANS "/usr/bin/python3"

static gpointer
find (gpointer unused)
{
  const gchar *named = g_getenv ("THRIFTPS_PYTHON");
  gchar *installed;

  if (named != NULL)
    return g_strdup (named);
  installed = g_build_filename (g_get_user_cache_dir (), "thriftps-peers", "bin", "python", NULL);
  if (g_file_test (installed, G_FILE_TEST_IS_EXECUTABLE))
    return installed;
  g_free (installed);
  return g_strdup (DEBIANS);
}

const gchar *
tps_bench_find_python (void)
{
  static GOnce once = G_ONCE_INIT;

  return g_once (&once, find, NULL);
}

const gchar *
tps_bench_describe_python (void)
{
  if (strcmp (tps_bench_find_python (), DEBIANS) != 0)
    return "";
  return "The peer is Debian's PyTorch, which is old; bench/peers/install installs a new one.\n";
}
