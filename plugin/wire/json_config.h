/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* JSON objects of named arguments <-> GVariant dictionaries, see runtime/base/config.h. Thread:
 * any. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Parses a JSON object of integers, numbers, booleans and strings into an a{sv}, which the caller
 * owns and which is not floating. "" gives an empty dictionary. The text may be untrusted. Errors:
 * TPS_ERROR_INVALID_ARGUMENT, which names the key of a bad value. */
GVariant *tps_json_config_parse (const gchar *text, GError **error);

/* Parses {"model_class": "…", "configurations": {…}}. The caller owns the result and `class_name`.
 * "configurations" may be missing; other keys are errors. Errors: as tps_json_config_parse(). */
GVariant *tps_json_model_config_parse (const gchar *text, gchar **class_name, GError **error);

/* Convert to the JSON texts that the two functions above parse. The caller owns the text. */
gchar *tps_json_config_to_string (GVariant *values);
gchar *tps_json_model_config_to_string (const gchar *class_name, GVariant *values);

G_END_DECLS
