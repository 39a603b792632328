/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* NVIDIA's libraries, wherever a machine has them: first where the dynamic linker looks
 * (LD_LIBRARY_PATH), then in the toolkit (CUDA_PATH, /usr/local/cuda), then in the packages of
 * Python (VIRTUAL_ENV, /usr, /usr/local). */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  const gchar *name;
  gpointer function; /* the address of a pointer to a function */
  gsize n_bytes;     /* of that pointer */
} TpsCudaFunction;

/* Loads `name` for ever, and finds the functions. Errors: UNAVAILABLE, naming what is missing
 * where. Thread: any. */
gboolean tps_cuda_search_library (const gchar *name, const TpsCudaFunction *functions,
                                  gsize n_functions, GError **error);

/* Patterns (glob) of the folders that are looked into after the dynamic linker's, in order, for the
 * environment's values, each of which may be NULL; NULL-terminated, owned by the caller. */
GStrv tps_cuda_search_folders (const gchar *cuda_path, const gchar *virtual_env);

G_END_DECLS
