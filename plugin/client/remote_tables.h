/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What this tree knows of remote tables besides thriftps/tables.h. */

#pragma once

#include <thriftps/tables.h>

#include "plugin/client/client.h"
#include "runtime/embedding/table_spec.h"
#include "runtime/ports/table_client.h"

G_BEGIN_DECLS

/* The placement of a table. */
typedef struct
{
  TpsShardKind kind;
  guint server; /* for WHOLE: the number of the server */
} TpsTablePlacement;

/* As tps_remote_tables_create(), for the runtime's form of a specification. Of `spec->shard`, only
 * the number of rows is used. */
gboolean tps_remote_tables_create_spec (TpsRemoteTables *tables, const TpsTableSpec *spec,
                                        const TpsTablePlacement *placement, gint64 deadline_ns,
                                        GError **error);

G_END_DECLS
