/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_durability.h"

#include "plugin/wire/value_kinds.h"

#define SERVICE "Durability"

void
tps_wire_snapshot_info_clear (TpsWireSnapshotInfo *info)
{
  g_clear_pointer (&info->name, g_free);
}

#define INFO(id, name, member, presence, kind)                                     \
  {                                                                                \
    name, id, presence, &kind, NULL, G_STRUCT_OFFSET (TpsWireSnapshotInfo, member) \
  }

static const TpsField info_fields[] = {
  INFO (1, "name", name, TPS_FIELD_REQUIRED, tps_kind_name),
  INFO (2, "lsn", lsn, TPS_FIELD_DEFAULT, tps_kind_i64),
  INFO (3, "end_lsn", end_lsn, TPS_FIELD_DEFAULT, tps_kind_i64),
  INFO (4, "tables", n_tables, TPS_FIELD_DEFAULT, tps_kind_i32),
  INFO (5, "model", has_model, TPS_FIELD_DEFAULT, tps_kind_bool),
  INFO (6, "bytes", n_bytes, TPS_FIELD_DEFAULT, tps_kind_i64),
  { NULL },
};

static const TpsStruct info_struct = { "SnapshotInfo", info_fields };
static const TpsField lsn_result = { "lsn", .kind = &tps_kind_i64 };
static const TpsField info_result = { "info", .kind = &tps_kind_struct, .of = &info_struct };

const TpsRpc tps_flush_rpc = { SERVICE, "flush", .result = &lsn_result };
const TpsRpc tps_snapshot_rpc = { SERVICE, "snapshot", .result = &info_result };
