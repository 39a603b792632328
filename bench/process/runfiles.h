/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Files (under Bazel its runfiles, otherwise those of its folder) and arguments of a program, and
 * the Python interpreter of the peers' scripts, which determines the PyTorch version. */

#pragma once

#include <glib.h>

/* Returns the path of a file. `name` is relative to the root of the repository, such as
 * "bench/peers/x.py". The caller owns the result. Errors (NULL): NOT_FOUND. */
gchar *tps_bench_find_file (const gchar *name, GError **error);

/* Removes a folder with its contents, and frees `path`. Errors are ignored. */
void tps_bench_remove_folder (gchar *path);

/* Returns the path of the executable of this process. The caller owns the result. */
gchar *tps_bench_find_program (void);

/* Returns an argument vector for a process: the lines of the formatted text, except for empty
 * lines. The caller owns the result. */
gchar **tps_argv_format (const gchar *format, ...) G_GNUC_PRINTF (1, 2);

/* Returns the path of the interpreter: the value of THRIFTPS_PYTHON; without it, the interpreter
 * that bench/peers/install has installed; without that, Debian's. Borrowed. Thread: any. */
const gchar *tps_bench_find_python (void);

/* Returns a line for reports if it is Debian's, with an old PyTorch; otherwise "". Static. */
const gchar *tps_bench_describe_python (void);
