/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/durability.thrift: the methods as TpsRpcs (rpc.h), with their results. */

#pragma once

#include "plugin/wire/rpc.h"

G_BEGIN_DECLS

typedef struct
{
  gchar *name;
  gint64 lsn;
  gint64 end_lsn;
  gint32 n_tables;
  gboolean has_model;
  gint64 n_bytes;
} TpsWireSnapshotInfo;

void tps_wire_snapshot_info_clear (TpsWireSnapshotInfo *info);

extern const TpsRpc tps_flush_rpc;    /* -> gint64, an LSN */
extern const TpsRpc tps_snapshot_rpc; /* -> TpsWireSnapshotInfo */

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsWireSnapshotInfo, tps_wire_snapshot_info_clear)

G_END_DECLS
