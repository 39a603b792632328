/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The names that flags can take: printed for --list, checked before anything starts. */

#pragma once

#include "bench/parameter_server/options.h"

G_BEGIN_DECLS

/* All names that the registries know, a line each; or the version alone. */
void tps_bench_print_list (gboolean version_only);

/* Whether all names of `options`, and the classes of its data and model ids, are known and can be
 * had here. Errors: NOT_FOUND naming the flag and what it can be; UNAVAILABLE naming the flag and
 * what is missing. */
gboolean tps_bench_check_names (const TpsBenchOptions *options, const gchar *data_class,
                                const gchar *model_class, GError **error);

/* Names of all trainer and server classes, which configuration files may name; owned by the
 * caller. */
gchar **tps_bench_list_classes (void);

G_END_DECLS
