/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Descriptions of servers, metrics, tables, snapshots and batches of the log, as JSON. Private to
 * this folder. */

#pragma once

#include "plugin/wire/wire_durability.h"
#include "plugin/wire/wire_node.h"

G_BEGIN_DECLS

/* Convert to JSON. All functions return a new string, which the caller owns. */
GString *tps_python_node_info_to_json (const TpsNodeInfo *info);
GString *tps_python_metrics_to_json (const GPtrArray *summaries);
GString *tps_python_tables_to_json (const GArray *specs);
GString *tps_python_snapshot_to_json (const TpsWireSnapshotInfo *info);
GString *tps_python_log_batch_to_json (const TpsWireLogBatch *batch); /* without the records */

G_END_DECLS
