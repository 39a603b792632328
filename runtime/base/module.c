/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/module.h"

#include <dlfcn.h>
#include <string.h>

/* The folders of modules, relative to the folder of the program or library. */
static const gchar *const places[] = { ".", "thriftps", "../thriftps", "../lib/thriftps" };

static void
add_places (GPtrArray *paths, const gchar *object, const gchar *file_name)
{
  g_autofree gchar *folder = g_path_get_dirname (object);

  for (guint i = 0; i < G_N_ELEMENTS (places); i++)
    {
      g_autofree gchar *path = g_build_filename (folder, places[i], file_name, NULL);

      if (g_file_test (path, G_FILE_TEST_EXISTS))
        g_ptr_array_add (paths, g_steal_pointer (&path));
    }
}

GStrv
tps_module_list_paths (const gchar *file_name, const gchar *variable)
{
  GPtrArray *paths = g_ptr_array_new ();
  const gchar *said = g_getenv (variable);
  g_autofree gchar *program = g_file_read_link ("/proc/self/exe", NULL);
  Dl_info own;

  if (said != NULL && *said != '\0')
    {
      if (!g_str_equal (said, "none"))
        g_ptr_array_add (paths, g_strdup (said));
    }
  else
    {
      if (program != NULL)
        add_places (paths, program, file_name);
      /* dli_fname is the path of a library. For a program it is the name by which the program was
       * called, which may be relative. */
      if (dladdr (places, &own) != 0 && g_path_is_absolute (own.dli_fname)
          && g_strcmp0 (own.dli_fname, program) != 0)
        add_places (paths, own.dli_fname, file_name);
      g_ptr_array_add (paths, g_strdup (file_name));
    }
  g_ptr_array_add (paths, NULL);
  return (GStrv) g_ptr_array_free (paths, FALSE);
}

void *
tps_module_open (const gchar *const *paths, GString *reasons)
{
  for (; *paths != NULL; paths++)
    {
      void *module = dlopen (*paths, RTLD_NOW | RTLD_LOCAL);

      if (module != NULL)
        return module;
      g_string_append_printf (reasons, "%s%s", reasons->len > 0 ? "; " : "", dlerror ());
    }
  return NULL;
}

/* ISO C has no cast from an object's address to a function's; POSIX guarantees that the bits are
 * the same. */
gboolean
tps_module_find (void *module, const gchar *name, gpointer function, gsize n_bytes)
{
  void *address = dlsym (module, name);

  memcpy (function, &address, n_bytes);
  return address != NULL;
}
