/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The first half of tps_table_import(), for callers that make the table known in another way
 * (tables/table_snapshot.h). */

#pragma once

#include "runtime/server/snapshot/import.h"
#include "runtime/server/tables/host/table.h"

G_BEGIN_DECLS

/* The table, which the store does not know; the caller owns a reference. It has no incarnation.
 * Errors: those of tps_table_import() except ALREADY_EXISTS. */
TpsTable *tps_table_import_read (const TpsTableImport *import, const TpsTableSpec *spec,
                                 GError **error);

G_END_DECLS
