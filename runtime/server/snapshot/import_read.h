/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The first half of tps_table_import(), for callers that add the table to the store in a different
 * way (tables/table_snapshot.h). */

#pragma once

#include "runtime/server/snapshot/import.h"
#include "runtime/server/tables/host/table.h"

G_BEGIN_DECLS

/* As tps_table_import(), but does not add the table to the store. Returns the table, without an
 * incarnation; the caller owns a reference. Errors: those of tps_table_import() except
 * ALREADY_EXISTS. */
TpsTable *tps_table_import_read (const TpsTableImport *import, const TpsTableSpec *spec,
                                 GError **error);

G_END_DECLS
