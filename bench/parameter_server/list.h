/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The values of flags: printed for --list, and checked before any process starts. */

#pragma once

#include "bench/parameter_server/options.h"

G_BEGIN_DECLS

/* Prints all names of the registries, one flag per line. */
void tps_bench_print_list (void);

/* Checks that all names in `options`, and the classes of its data and model ids, are known and
 * usable on this machine. Errors: NOT_FOUND, with the flag and its possible values; UNAVAILABLE,
 * with the flag and the missing library or device. */
gboolean tps_bench_check_names (const TpsBenchOptions *options, const gchar *data_class,
                                const gchar *model_class, GError **error);

/* Returns the names of all trainer and server classes, which configuration files may contain, ended
 * by NULL. The caller owns the result. */
gchar **tps_bench_list_classes (void);

G_END_DECLS
