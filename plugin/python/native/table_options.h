/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#pragma once

#include "plugin/python/native/native.h"

G_BEGIN_DECLS

/* Converts `table` to `spec`, which must be zero before the call; the caller must clear it. Errors:
 * INVALID_ARGUMENT if the place is not valid. Thread: any. */
gboolean tps_python_table_to_spec (const TpsPythonTable *table, TpsTableSpec *spec, GError **error);

G_END_DECLS
