/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Searches for NVIDIA's libraries: first in the dynamic linker's directories (LD_LIBRARY_PATH),
 * then in the toolkit (CUDA_PATH, /usr/local/cuda), then in Python packages (VIRTUAL_ENV, /usr,
 * /usr/local). */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  const gchar *name;
  gpointer function; /* the address of a function pointer */
  gsize n_bytes;     /* size of the function pointer */
} TpsCudaFunction;

/* Loads the library `name`, which is never unloaded, and sets `functions`. Errors: UNAVAILABLE; the
 * message names the missing library or function and the places searched. Thread: any. */
gboolean tps_cuda_search_library (const gchar *name, const TpsCudaFunction *functions,
                                  gsize n_functions, GError **error);

/* Returns the glob patterns of the directories that are searched, in order, after the directories
 * of the dynamic linker. The arguments are values of the environment variables CUDA_PATH and
 * VIRTUAL_ENV, and may be NULL. The array is NULL-terminated and owned by the caller. */
GStrv tps_cuda_search_folders (const gchar *cuda_path, const gchar *virtual_env);

G_END_DECLS
