/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* JSON files of data and model ids, and of named arguments for server and trainer classes. Entries
 * have the originals' form: {"ID": {"data_class" | "model_class": "CLASS", "configurations": {…}}}
 * and {"CLASS": {…}}.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  gchar *class_name;
  GVariant *arguments; /* a{sv} */
} TpsBenchConfiguration;

/* Finds `id` in the file, or in the built-in text if `path` is NULL. `class_key` is "data_class" or
 * "model_class". Errors: TPS_ERROR_INVALID_ARGUMENT naming file and position; NOT_FOUND for an
 * unknown id; the message lists the known ids. */
gboolean tps_bench_configuration_load (const gchar *path, const gchar *built_in, const gchar *id,
                                       const gchar *class_key, TpsBenchConfiguration *configuration,
                                       GError **error);

/* Returns the named arguments of a class; an empty dictionary if `path` is NULL or has no entry for
 * the class. Owned by the caller. `known` lists all classes that the file may name, so that a
 * misspelled class is an error. Errors: INVALID_ARGUMENT naming file and position. */
GVariant *tps_bench_arguments_load (const gchar *path, const gchar *class_name,
                                    const gchar *const *known, GError **error);

void tps_bench_configuration_clear (TpsBenchConfiguration *configuration);

/* Returns the ids of the built-in text, owned by the caller. */
gchar **tps_bench_configuration_list (const gchar *built_in);

/* The built-in files (generated from bench/parameter_server/configurations). */
extern const gchar tps_bench_data_configurations[];
extern const gchar tps_bench_model_configurations[];

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsBenchConfiguration, tps_bench_configuration_clear)

G_END_DECLS
