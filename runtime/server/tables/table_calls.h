/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Functions that lookups and updates share: finding tables, and turning ids into slots. */

#pragma once

#include "runtime/server/tables/host/bag_pool.h"
#include "runtime/server/tables/table_snapshot.h"
#include "runtime/server/tables/table_store.h"

#define TPS_N_ROW_STORES 2 /* see row_store.h */

/* Returns a reference to the table, which the caller must release with tps_table_unref(). Errors:
 * TPS_ERROR_NOT_FOUND, naming the table. */
TpsTable *tps_table_store_ref_table (TpsTableStore *store, const gchar *table, GError **error);
/* Returns the LSN of the creation of the table; 0 if it does not exist. `name` may be NULL. */
gint64 tps_table_store_get_incarnation (TpsTableStore *store, const gchar *name);

/* The slots of ids: the slot of id i is slots[i] - base. `owned` is NULL if `slots` are the ids
 * themselves. */
typedef struct
{
  const gint64 *slots;
  gint64 base;
  TpsBuffer *owned;
} TpsTableSlots;

/* Finds the slots of `indices` INT64 [n], which stay borrowed. `what` names them in messages.
 * Errors: INVALID_ARGUMENT, "indices[17]: 300 is not in [0, 300) of table emb"; RESOURCE_EXHAUSTED
 * (no room in `scratch`). `slots` must be cleared, even after an error. */
gboolean tps_table_slots_init (TpsTableSlots *slots, const TpsTable *table, TpsTensorView indices,
                               const gchar *what, TpsBufferPool *scratch, GError **error);
void tps_table_slots_clear (TpsTableSlots *slots);

/* A query with its table; `bags` refers to the other members. */
typedef struct
{
  TpsTable *table;
  TpsTableSlots slots;
  TpsTableBags bags;
} TpsOpenQuery;

/* Finds the table of `query`, and checks the query completely. `what` names the query in messages,
 * such as "queries[1]". `open` must be all zero on entry, and must be cleared, even after an error.
 * Errors: see table_store.h. */
gboolean tps_open_query_init (TpsOpenQuery *open, TpsTableStore *store, const TpsBagQuery *query,
                              const gchar *what, GError **error);
void tps_open_query_clear (TpsOpenQuery *open);

/* Adds the bytes of the rows that the bags name to `*n_bytes`, the bytes of their call. A row is
 * counted as often as it is named. Errors: RESOURCE_EXHAUSTED if the call exceeds its limit. */
gboolean tps_table_store_count_rows (TpsTableStore *store, const TpsTableBags *bags, gsize *n_bytes,
                                     GError **error);

/* Returns the time since `began_ns`, with one clock read; -1 if `began_ns` is 0. */
gint64 tps_table_store_get_elapsed_ns (gint64 began_ns);

/* Checks that `indices` is a vector of INT64. `what` names it in messages, such as "indices:
 * FLOAT32 [3], expected a vector of INT64". */
gboolean tps_check_indices (TpsTensorView indices, const gchar *what, GError **error);
