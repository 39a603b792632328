/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Shared libraries that are loaded when they are first needed, and until the process exits: CUDA's,
 * Gloo's, OpenBLAS. */

#pragma once

#include <glib.h>

/* Returns the possible paths of our library `file_name`, in order, owned by the caller. If the
 * environment variable `variable` is not empty, its value is the only path ("none": no path).
 * Otherwise they are existing files relative to the folder of the program and of the library that
 * contains this function (the folder itself, thriftps/, ../thriftps/, ../lib/thriftps/), and last
 * the name alone, for the dynamic linker. Thread: any. */
GStrv tps_module_list_paths (const gchar *file_name, const gchar *variable);

/* Loads the first of `paths` that can be loaded, and returns its handle; NULL if there is none.
 * Appends why paths cannot be loaded to `reasons`, separated by "; ". Thread: any. */
void *tps_module_open (const gchar *const *paths, GString *reasons);

/* Stores the address of the function `name` in `*function`, a function pointer of `n_bytes`.
 * Returns FALSE, and stores NULL, if the library has no such function. Thread: any. */
gboolean tps_module_find (void *module, const gchar *name, gpointer function, gsize n_bytes);
