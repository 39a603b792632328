/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/durability.thrift: the methods as TpsRpcs (rpc.h), with their results. */

#pragma once

#include "plugin/wire/rpc.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

typedef struct
{
  gchar *name;
  gint64 lsn;
  gint64 end_lsn;
  gint32 n_tables;
  gboolean has_model;
  gint64 n_bytes;
  gint32 n_increments;
} TpsWireSnapshotInfo;

/* Frees the members. */
void tps_wire_snapshot_info_clear (TpsWireSnapshotInfo *info);

typedef struct
{
  gint64 cursor;
  gint32 max_bytes;
  gint32 wait_ms;
} TpsReadLogArguments;

typedef struct
{
  gchar *log;
  GBytes *records; /* a writer borrows them until it releases them */
  gint64 next_lsn;
  gint64 durable_lsn;
  gint64 oldest_lsn;
} TpsWireLogBatch;

/* Frees the members. */
void tps_wire_log_batch_clear (TpsWireLogBatch *batch);

typedef struct
{
  gchar **snapshots;
  TpsTableSpecs tables;
} TpsRestoreArguments;

typedef struct
{
  TpsTableSpec spec;
  gchar **files;
  gchar *tensor;
} TpsImportTableArguments;

/* Free the members. */
void tps_restore_arguments_clear (TpsRestoreArguments *arguments);
void tps_import_table_arguments_clear (TpsImportTableArguments *arguments);

extern const TpsRpc tps_read_log_rpc;     /* TpsReadLogArguments -> TpsWireLogBatch */
extern const TpsRpc tps_flush_rpc;        /* -> gint64, an LSN */
extern const TpsRpc tps_snapshot_rpc;     /* gboolean -> TpsWireSnapshotInfo */
extern const TpsRpc tps_restore_rpc;      /* TpsRestoreArguments -> TpsWireSnapshotInfo */
extern const TpsRpc tps_import_table_rpc; /* TpsImportTableArguments -> TpsWireSnapshotInfo */

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsRestoreArguments, tps_restore_arguments_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsImportTableArguments, tps_import_table_arguments_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsWireSnapshotInfo, tps_wire_snapshot_info_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsWireLogBatch, tps_wire_log_batch_clear)

G_END_DECLS
