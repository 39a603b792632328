/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "cuda/device/search.h"

#include <dlfcn.h>
#include <glob.h>
#include <string.h>

#include "runtime/base/error.h"

/* Adds the folders into which NVIDIA's Python packages install libraries. */
static void
add_python_folders (GPtrArray *folders, const gchar *prefix)
{
  static const gchar *const packages[] = { "site-packages", "dist-packages" };
  static const gchar *const parts[] = { "cu13/lib", "nccl/lib", "cublas/lib" };

  for (guint p = 0; p < G_N_ELEMENTS (packages); p++)
    for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
      g_ptr_array_add (
          folders, g_strdup_printf ("%s/lib/python3*/%s/nvidia/%s", prefix, packages[p], parts[i]));
}

GStrv
tps_cuda_search_folders (const gchar *cuda_path, const gchar *virtual_env)
{
  GPtrArray *folders = g_ptr_array_new ();

  if (cuda_path != NULL)
    g_ptr_array_add (folders, g_strdup_printf ("%s/lib*", cuda_path));
  g_ptr_array_add (folders, g_strdup ("/usr/local/cuda/lib64"));
  if (virtual_env != NULL)
    add_python_folders (folders, virtual_env);
  add_python_folders (folders, "/usr");
  add_python_folders (folders, "/usr/local");
  g_ptr_array_add (folders, NULL);
  return (GStrv) g_ptr_array_free (folders, FALSE);
}

static void *
open_at (const gchar *path)
{
  return dlopen (path, RTLD_NOW | RTLD_GLOBAL);
}

/* Opens the first library `name` that can be loaded from a folder; `folder` is a glob pattern.
 * Returns NULL if there is none. */
static void *
open_in (const gchar *folder, const gchar *name)
{
  g_autofree gchar *pattern = g_build_filename (folder, name, NULL);
  void *handle = NULL;
  glob_t found;

  if (glob (pattern, 0, NULL, &found) != 0)
    return NULL;
  for (gsize i = 0; i < found.gl_pathc && handle == NULL; i++)
    handle = open_at (found.gl_pathv[i]);
  globfree (&found);
  return handle;
}

static void *
open_anywhere (const gchar *name, GError **error)
{
  g_auto (GStrv)
      folders = tps_cuda_search_folders (g_getenv ("CUDA_PATH"), g_getenv ("VIRTUAL_ENV"));
  g_autofree gchar *list = g_strjoinv (", ", folders);
  void *handle = open_at (name);
  g_autofree gchar *reason = handle == NULL ? g_strdup (dlerror ()) : NULL;

  for (guint i = 0; folders[i] != NULL && handle == NULL; i++)
    handle = open_in (folders[i], name);
  if (handle == NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s; nor is it in %s", reason, list);
  return handle;
}

gboolean
tps_cuda_search_library (const gchar *name, const TpsCudaFunction *functions, gsize n_functions,
                         GError **error)
{
  void *handle = open_anywhere (name, error);

  if (handle == NULL)
    return FALSE;
  for (gsize i = 0; i < n_functions; i++)
    {
      void *address = dlsym (handle, functions[i].name);

      if (address == NULL)
        return tps_fail (error, TPS_ERROR_UNAVAILABLE, "%s has no %s", name, functions[i].name);
      memcpy (functions[i].function, &address, functions[i].n_bytes);
    }
  return TRUE;
}
