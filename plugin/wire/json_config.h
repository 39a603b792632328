/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* JSON objects of named arguments <-> GVariant dictionaries, see runtime/base/config.h. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The a{sv} of a JSON object of integers, numbers, booleans and strings; owned, not floating. ""
 * gives an empty one. Errors: TPS_ERROR_INVALID_ARGUMENT, naming the key. Untrusted text is
 * welcome. */
GVariant *tps_json_config_parse (const gchar *text, GError **error);

/* The same for {"model_class": "…", "configurations": {…}}; `class_name` is owned by the caller.
 * "configurations" may be missing, other keys may not be there. */
GVariant *tps_json_model_config_parse (const gchar *text, gchar **class_name, GError **error);

/* The texts; owned by the caller. */
gchar *tps_json_config_to_string (GVariant *values);
gchar *tps_json_model_config_to_string (const gchar *class_name, GVariant *values);

G_END_DECLS
