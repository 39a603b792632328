/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Files of a program: its runfiles under Bazel, otherwise files in its folder. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns the path of a file named from the repository's root, e.g. "bench/peers/x.py". Owned by
 * the caller. Errors (NULL): TPS_ERROR_NOT_FOUND; the message lists the places searched. */
gchar *tps_bench_find_file (const gchar *name, GError **error);

/* Removes a folder with all its contents, and frees its name. */
void tps_bench_remove_folder (gchar *path);

/* Returns the path of this program, owned by the caller. */
gchar *tps_bench_find_program (void);

G_END_DECLS
