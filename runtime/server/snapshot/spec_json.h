/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Specifications as JSON objects, in manifests and in the metadata of files. Kinds and types are
 * written as their numbers in the wire protocol. Values that are not set have no member. */

#pragma once

#include "runtime/embedding/table_spec.h"
#include "runtime/server/snapshot/json_reader.h"

void tps_table_spec_append_json (GString *json, const TpsTableSpec *spec);
/* Fills in `spec`, which must be all zero, from the next value. The caller must resolve `spec`. */
void tps_table_spec_read_json (TpsJsonReader *json, TpsTableSpec *spec);

/* As the functions for tables, but for the specification of an optimizer. */
void tps_optimizer_spec_append_json (GString *json, const TpsOptimizerSpec *spec);
void tps_optimizer_spec_read_json (TpsJsonReader *json, TpsOptimizerSpec *spec);
