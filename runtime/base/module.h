/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Shared libraries that are loaded when they are first needed: CUDA's, Gloo's, OpenBLAS. Programs
 * that do not use these libraries do not need them to be installed, and have no cost for them. A
 * library stays loaded until the process ends. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns the paths at which the project's own library `file_name` is searched, in order. The
 * caller owns them. If the environment variable `variable` is set, this is only its path, or no
 * path if its value is "none". Otherwise these are the existing files in the folder of the program
 * and in that of the library that contains this function: there, in thriftps/, in ../thriftps/ and
 * in ../lib/thriftps/; then the name alone, which the dynamic linker searches. Thread: any. */
GStrv tps_module_list_paths (const gchar *file_name, const gchar *variable);

/* Loads the first of `paths` that can be loaded and returns its handle for tps_module_find(). NULL:
 * none can be loaded, and the reasons are appended to `reasons`, separated by "; ". Thread: any. */
void *tps_module_open (const gchar *const *paths, GString *reasons);

/* Stores the address of the function `name` in `*function`, a function pointer of `n_bytes`.
 * FALSE: the library has none. Thread: any. */
gboolean tps_module_find (void *module, const gchar *name, gpointer function, gsize n_bytes);

G_END_DECLS
