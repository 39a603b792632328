/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Shared libraries that are loaded when they are first needed: CUDA's, Gloo's, OpenBLAS. Programs
 * that do not use these libraries run without them, and at no cost. A library stays loaded until
 * the process exits. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns the possible paths of the project's own library `file_name`, in the order in which they
 * should be tried. The caller owns them. If the environment variable `variable` is set and not
 * empty, its value is the only path, or there is no path if the value is "none". Otherwise the
 * paths are those of existing files, first relative to the folder of the program and then to the
 * folder of the library that contains this function: in the folder itself, in thriftps/, in
 * ../thriftps/ and in ../lib/thriftps/. The last path is the name alone, for which the dynamic
 * linker searches. Thread: any. */
GStrv tps_module_list_paths (const gchar *file_name, const gchar *variable);

/* Loads the first of `paths` that can be loaded, and returns its handle for tps_module_find(). The
 * reason why a path cannot be loaded is appended to `reasons`; reasons are separated by "; ".
 * Returns NULL if no path can be loaded. Thread: any. */
void *tps_module_open (const gchar *const *paths, GString *reasons);

/* Stores the address of the function `name` in `*function`, a function pointer of `n_bytes`.
 * Returns FALSE, and stores NULL, if the library has no such function. Thread: any. */
gboolean tps_module_find (void *module, const gchar *name, gpointer function, gsize n_bytes);

G_END_DECLS
