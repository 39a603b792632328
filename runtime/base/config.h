/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Named arguments of registered classes: a GVariant dictionary (a{sv}) with INT64 'x', double 'd',
 * boolean 'b' and string 's' values, as in a JSON object. A class reads its arguments and then
 * requires, with tps_config_finish(), that there are no others. */

#pragma once

#include <glib.h>

/* In the caller's storage; borrows the dictionary. Reads after an error have no effect and return
 * FALSE. */
typedef struct
{
  GVariant *values;
  const gchar *what; /* for messages: "model DummyModel" */
  guint64 read_mask; /* bit i: entry i of the dictionary was read */
  gboolean has_failed;
  GError **error;
} TpsConfig;

/* Begins to read `values`, which are borrowed; NULL means no arguments. `what` names their owner in
 * the errors that later calls set in `error`. */
void tps_config_init (TpsConfig *config, GVariant *values, const gchar *what, GError **error);

/* Read the required argument `key`. Errors: TPS_ERROR_INVALID_ARGUMENT (missing, wrong type,
 * outside [min, max]), naming the key. */
gboolean tps_config_get_int (TpsConfig *config, const gchar *key, gint64 min, gint64 max,
                             gint64 *value);
gboolean tps_config_get_bool (TpsConfig *config, const gchar *key, gboolean *value);
/* As above. An integer is read as a double. */
gboolean tps_config_get_double (TpsConfig *config, const gchar *key, gdouble min, gdouble max,
                                gdouble *value);
/* As above. The caller owns `value`. */
gboolean tps_config_get_string (TpsConfig *config, const gchar *key, gchar **value);

/* Returns TRUE if the key exists. Must be called before an optional argument is read. */
gboolean tps_config_has (const TpsConfig *config, const gchar *key);

/* Returns TRUE if every entry was read. Errors: INVALID_ARGUMENT, which lists unknown keys. */
gboolean tps_config_finish (TpsConfig *config);
