/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Results as JSON. Private to this folder. */

#pragma once

#include "plugin/wire/value_kinds.h"

G_BEGIN_DECLS

/* Converts the value of `field` (tps_field_write()) to JSON: a struct to an object whose members
 * have the names of the IDL, a list to an array. Enums become their names. A field that is not set
 * is left out if absent differs from 0, and so are NaN and binaries. Returns a new string, which
 * the caller owns. */
GString *tps_python_to_json (const TpsField *field, gconstpointer value);

/* Converts an array of TpsRemoteTable * to a list of objects. Returns a new string, which the
 * caller owns. */
GString *tps_python_tables_to_json (const GPtrArray *tables);

G_END_DECLS
