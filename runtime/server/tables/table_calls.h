/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Functions that lookups and updates share: finding tables, and turning ids into slots. */

#pragma once

#include "runtime/server/tables/host/bag_pool.h"
#include "runtime/server/tables/table_snapshot.h"
#include "runtime/server/tables/table_store.h"

G_BEGIN_DECLS

#define TPS_N_ROW_STORES 2 /* see row_store.h */

/* A reference to the table; tps_table_unref(). Errors: TPS_ERROR_NOT_FOUND naming it. */
TpsTable *tps_table_store_ref_table (TpsTableStore *store, const gchar *table, GError **error);
TpsWorkerPool *tps_table_store_get_workers (TpsTableStore *store);
TpsBufferPool *tps_table_store_get_answers (TpsTableStore *store);
/* The LSN of the creation of the table; 0 = it does not exist. `name` may be NULL. */
gint64 tps_table_store_get_incarnation (TpsTableStore *store, const gchar *name);
/* The temporary space of lookups and pushes. */
TpsBufferPool *tps_table_store_get_scratch (TpsTableStore *store);

/* See TpsTableStoreOptions. */
gsize tps_table_store_get_max_row_bytes_of_call (TpsTableStore *store);

/* Ids as slots: slots[i] - base. `owned` is NULL if the ids themselves serve as slots. */
typedef struct
{
  const gint64 *slots;
  gint64 base;
  TpsBuffer *owned;
} TpsTableSlots;

/* `indices` INT64 [n], borrowed. `what` names them in messages. Errors: INVALID_ARGUMENT,
 * "indices[17]: 300 is not in [0, 300) of table emb"; RESOURCE_EXHAUSTED of `scratch`. `slots` must
 * be cleared in any case. */
gboolean tps_table_slots_init (TpsTableSlots *slots, const TpsTable *table, TpsTensorView indices,
                               const gchar *what, TpsBufferPool *scratch, GError **error);
void tps_table_slots_clear (TpsTableSlots *slots);

/* A query with its table; `bags` refers to the others. */
typedef struct
{
  TpsTable *table;
  TpsTableSlots slots;
  TpsTableBags bags;
} TpsOpenQuery;

/* Checks everything. `what` names the query in messages, such as "queries[1]". `open` must be all
 * zero before, and must be cleared in any case. */
gboolean tps_open_query_init (TpsOpenQuery *open, TpsTableStore *store, const TpsBagQuery *query,
                              const gchar *what, GError **error);
void tps_open_query_clear (TpsOpenQuery *open);

/* Adds the bytes of the rows that the bags name to those of their call, each row as often as it is
 * named. Errors: RESOURCE_EXHAUSTED if the call exceeds its limit. */
gboolean tps_table_store_count_rows (TpsTableStore *store, const TpsTableBags *bags, gsize *n_bytes,
                                     GError **error);

/* The time since `began_ns`: one clock read; -1 if `began_ns` is 0. */
gint64 tps_table_store_get_elapsed_ns (gint64 began_ns);

/* Checks that `indices` is a vector of INT64. `what` names it in messages, such as "indices:
 * FLOAT32 [3], a vector of INT64 is expected". */
gboolean tps_check_indices (TpsTensorView indices, const gchar *what, GError **error);

G_END_DECLS
