/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_durability.h"

#include "plugin/wire/value_kinds.h"
#include "plugin/wire/wire_embedding_table.h"

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
  INFO (7, "increments", n_increments, TPS_FIELD_DEFAULT, tps_kind_i32),
  { NULL },
};

void
tps_wire_log_batch_clear (TpsWireLogBatch *batch)
{
  g_clear_pointer (&batch->log, g_free);
  g_clear_pointer (&batch->records, g_bytes_unref);
}

#define BATCH(id, name, presence, kind)                                      \
  {                                                                          \
#name, id, presence, &kind, NULL, G_STRUCT_OFFSET(TpsWireLogBatch, name) \
  }

static const TpsField batch_fields[] = {
  BATCH (1, log, TPS_FIELD_REQUIRED, tps_kind_name),
  BATCH (2, records, TPS_FIELD_REQUIRED, tps_kind_bytes),
  BATCH (3, next_lsn, TPS_FIELD_DEFAULT, tps_kind_i64),
  BATCH (4, durable_lsn, TPS_FIELD_DEFAULT, tps_kind_i64),
  BATCH (5, oldest_lsn, TPS_FIELD_DEFAULT, tps_kind_i64),
  { NULL },
};

#define READ_LOG(id, name, kind, limit)                                                     \
  {                                                                                         \
#name, id, TPS_FIELD_REQUIRED, &kind, limit, G_STRUCT_OFFSET(TpsReadLogArguments, name) \
  }

static const TpsField read_log_arguments[] = {
  READ_LOG (1, cursor, tps_kind_i64, NULL),
  READ_LOG (2, max_bytes, tps_kind_i32, &tps_limit_not_negative),
  READ_LOG (3, wait_ms, tps_kind_i32, &tps_limit_not_negative),
  { NULL },
};

static const TpsStruct batch_struct = { "LogBatch", batch_fields };
static const TpsStruct info_struct = { "SnapshotInfo", info_fields };
static const TpsField lsn_result = { "lsn", .kind = &tps_kind_i64 };
static const TpsField batch_result = { "batch", .kind = &tps_kind_struct, .of = &batch_struct };
static const TpsField info_result = { "info", .kind = &tps_kind_struct, .of = &info_struct };

void
tps_restore_arguments_clear (TpsRestoreArguments *arguments)
{
  g_clear_pointer (&arguments->snapshots, g_strfreev);
  tps_table_specs_clear (&arguments->tables);
}

void
tps_import_table_arguments_clear (TpsImportTableArguments *arguments)
{
  tps_table_spec_clear (&arguments->spec);
  g_clear_pointer (&arguments->files, g_strfreev);
  g_clear_pointer (&arguments->tensor, g_free);
}

static const TpsList paths = {
  .elem = { .kind = &tps_kind_string },
  .form = TPS_LIST_STRV,
  .elem_size = sizeof (gchar *),
};

static const TpsField restore_arguments[] = {
  { "snapshots", 1, TPS_FIELD_REQUIRED, &tps_kind_list, &paths,
    G_STRUCT_OFFSET (TpsRestoreArguments, snapshots) },
  { "tables", 2, TPS_FIELD_DEFAULT, &tps_kind_list, &tps_table_spec_list,
    G_STRUCT_OFFSET (TpsRestoreArguments, tables) },
  { NULL },
};

static const TpsField import_arguments[] = {
  { "spec", 1, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_table_spec_struct,
    G_STRUCT_OFFSET (TpsImportTableArguments, spec) },
  { "files", 2, TPS_FIELD_REQUIRED, &tps_kind_list, &paths,
    G_STRUCT_OFFSET (TpsImportTableArguments, files) },
  { "tensor", 3, TPS_FIELD_DEFAULT, &tps_kind_string, NULL,
    G_STRUCT_OFFSET (TpsImportTableArguments, tensor) },
  { NULL },
};

static const TpsField snapshot_arguments[] = {
  { "incremental", 1, TPS_FIELD_DEFAULT, &tps_kind_bool },
  { NULL },
};

const TpsRpc tps_flush_rpc = { SERVICE, "flush", .result = &lsn_result };
const TpsRpc tps_read_log_rpc = { SERVICE, "read_log", read_log_arguments, &batch_result };
const TpsRpc tps_snapshot_rpc = { SERVICE, "snapshot", snapshot_arguments, &info_result };
const TpsRpc tps_restore_rpc = { SERVICE, "restore", restore_arguments, &info_result };
const TpsRpc tps_import_table_rpc = { SERVICE, "import_table", import_arguments, &info_result };
