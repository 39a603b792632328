/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The structure of a store. Internal to the files of this folder that find, create, drop and import
 * tables.
 *
 * Locks, in the order in which they are taken: `making_lock`, `tables_lock`, the sequencer's.
 */

#pragma once

#include "runtime/base/outcome.h"
#include "runtime/base/sync.h"
#include "runtime/server/tables/device/device_rows.h"
#include "runtime/server/tables/host/table.h"
#include "runtime/server/tables/table_store.h"

G_BEGIN_DECLS

/* The place of tables in the host's memory, as specifications name it. */
#define TPS_TABLE_STORE_HOST "cpu"

struct TpsTableStore
{
  TpsBudget *budget;         /* of tables in the host's memory */
  TpsBudget *device_budget;  /* of tables on devices; has no limit and only counts */
  TpsBudget *scratch_budget; /* of lookups and pushes */
  TpsBudget *answer_budget;
  TpsBudget *kept_budget; /* of memory kept for reuse; NULL = it is not charged */
  TpsQuotas *quotas;      /* NULL = tables have no tenants */
  TpsCounters *counters;  /* NULL = nothing is counted */
  TpsSequencer *sequencer;
  gboolean owns_sequencer;
  TpsPushWindow *pushes;
  TpsBufferPool *answers; /* of tables in the host's memory */
  TpsBufferPool *scratch;
  TpsWorkerPool *workers;
  TpsTablePlace place; /* of tables whose specification has none */
  TpsDurability durability;
  gboolean keeps_row_lsns;
  gsize max_row_bytes_of_call;
  /* The restored snapshot may contain effects of commands up to this LSN; 0 = none was restored. */
  gint64 snapshot_lsn;
  TpsDevice *(*find_device) (const gchar *name, GError **error);

  TpsMutex making_lock; /* guards `making` and `lanes` */
  TpsCond made;
  GHashTable *making; /* a set of names, borrowed from the creating threads */
  GHashTable *lanes;  /* TpsDevice -> TpsDeviceLanes */

  TpsRwLock tables_lock;
  GHashTable *tables; /* name, owned by the table -> TpsTable */
  /* Name -> the TpsTable that is being imported, or NULL before it has an LSN. Changed with both
   * locks, read with one of them. */
  GHashTable *importing;
};

/* Returns the table of this name, to which the caller owns a reference; NULL if there is none.
 * Inline, because every lookup and push calls it. */
static inline TpsTable *
tps_table_store_find (TpsTableStore *store, const gchar *name)
{
  TpsTable *table;

  tps_rw_lock_read (&store->tables_lock);
  table = g_hash_table_lookup (store->tables, name);
  if (table != NULL)
    tps_table_ref (table);
  tps_rw_lock_unlock (&store->tables_lock);
  return table;
}

/* -- table_maker.c -- */

/* Makes the table of a resolved specification; the caller owns the only reference. If `is_unfilled`
 * is TRUE, the caller must write the rows. Takes `making_lock` for tables on devices. Errors:
 * INVALID_ARGUMENT, NOT_FOUND (there is no such device), RESOURCE_EXHAUSTED, DEVICE_LOST. */
TpsTable *tps_table_store_make_table (TpsTableStore *store, const TpsTableSpec *spec,
                                      gboolean is_unfilled, GError **error);

/* -- table_change.c -- */

/* A command that creates or drops a table, in the caller's storage. It takes effect when it is
 * admitted. The caller must call finish() after the admission. */
typedef struct
{
  TpsOrdered ordered; /* first */
  TpsCommand command;
  TpsTableSpec spec; /* of a creation; a drop needs its name only */
  TpsOutcome outcome;
} TpsTableChange;

/* Initialises a change. `kind` must be TPS_COMMAND_CREATE_TABLE or TPS_COMMAND_DROP_TABLE. `spec`
 * is copied. */
void tps_table_change_init (TpsTableChange *change, TpsCommandKind kind, const TpsTableSpec *spec);

/* Waits until the command has ended, and clears `change`. No lock may be held. Errors: those of the
 * sequencer's observer. */
gboolean tps_table_change_finish (TpsTableChange *change, TpsTableStore *store, GError **error);

/* Emits a trace record: the table of `spec` has been created. */
void tps_table_change_trace_created (const TpsTableSpec *spec);

G_END_DECLS
