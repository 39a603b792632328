/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#pragma once

#include "plugin/python/native/native.h"

G_BEGIN_DECLS

/* `spec` is zero before, and cleared by the caller. Errors: INVALID_ARGUMENT for a place that is
 * none. Thread: any. */
gboolean tps_python_table_to_spec (const TpsPythonTable *table, TpsTableSpec *spec, GError **error);

G_END_DECLS
