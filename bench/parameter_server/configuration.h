/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* JSON files with ids of data and models, and with named arguments of server and trainer classes.
 * The entries have the form of the originals: {"ID": {"data_class" | "model_class": "CLASS",
 * "configurations": {…}}} and {"CLASS": {…}}. */

#pragma once

#include <glib.h>

/* A class and its named arguments; owned. */
typedef struct
{
  gchar *class_name;
  GVariant *arguments; /* a{sv} */
} TpsBenchConfiguration;

/* Finds `id` in the file `path`; NULL = in the text `built_in`. `class_key` is "data_class" or
 * "model_class". The caller must clear `configuration`. Errors: INVALID_ARGUMENT, with the file and
 * the position; NOT_FOUND (an unknown id), with the known ids. */
gboolean tps_bench_configuration_load (const gchar *path, const gchar *built_in, const gchar *id,
                                       const gchar *class_key, TpsBenchConfiguration *configuration,
                                       GError **error);

/* Returns the named arguments of a class; an empty dictionary if `path` is NULL or has no entry for
 * the class. `known` lists all classes that the file may name, so that a misspelled class is an
 * error. The caller owns the result. Errors: INVALID_ARGUMENT, with the file and the position. */
GVariant *tps_bench_arguments_load (const gchar *path, const gchar *class_name,
                                    const gchar *const *known, GError **error);

/* Frees the contents. */
void tps_bench_configuration_clear (TpsBenchConfiguration *configuration);

/* The built-in files, generated from bench/parameter_server/configurations. */
extern const gchar tps_bench_data_configurations[];
extern const gchar tps_bench_model_configurations[];

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsBenchConfiguration, tps_bench_configuration_clear)
