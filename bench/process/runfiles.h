/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Files that belong to a program: under Bazel its runfiles, elsewhere the folder of the program. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The path of a file named from the repository's root, e.g. "bench/peers/x.py"; owned. NULL with
 * TPS_ERROR_NOT_FOUND that lists where it was looked for. */
gchar *tps_bench_find_file (const gchar *name, GError **error);

/* Removes a folder with everything in it, and frees its name. */
void tps_bench_remove_folder (gchar *path);

/* The path of this program; owned. */
gchar *tps_bench_find_program (void);

G_END_DECLS
