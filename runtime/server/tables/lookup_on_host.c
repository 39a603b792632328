/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Lookups in the host's memory. Threads take parts of a lookup, and pool the bags or copy the rows
 * of each part. */

#include "runtime/server/tables/rows_on_host.h"

#include "runtime/base/parallel.h"

static gboolean
is_mine (const TpsTable *table)
{
  return table->row_store == &tps_rows_on_host;
}

/* -- bags -- */

/* Returns the query that contains a part: the last query whose first part is at or before it. */
static const TpsLookupQuery *
find_query (const TpsLookup *lookup, gsize part)
{
  guint begin = 0;
  guint end = lookup->n_queries;

  while (end - begin > 1)
    {
      guint middle = begin + (end - begin) / 2;

      if (lookup->queries[middle].first_part <= part)
        begin = middle;
      else
        end = middle;
    }
  return &lookup->queries[begin];
}

static void
pool_part (gpointer user_data, gsize part)
{
  const TpsLookup *lookup = user_data;
  const TpsLookupQuery *query = find_query (lookup, part);
  const TpsTableBags *bags = &query->open.bags;
  gsize share = part - query->first_part;
  gsize begin = share * bags->n_bags / query->n_parts;
  gsize end = (share + 1) * bags->n_bags / query->n_parts;
  gsize stage_bytes = tps_table_pool_get_stage_bytes (bags->table);
  gpointer stage = stage_bytes > 0
                       ? tps_scratch_at (&lookup->stages, query->stages + share * stage_bytes)
                       : NULL;

  tps_table_pool_bags (bags, begin, end, query->output + begin * bags->table->dim, stage);
}

static gsize
query_bytes (const TpsTableBags *bags)
{
  return bags->n_indices * (bags->table->row_bytes + sizeof (gint64))
         + bags->n_bags * bags->table->dim * sizeof (gfloat);
}

/* Limits the number of parts of a query. Each part of a table with wide rows has a stage of its
 * own, so there are at most as many parts as threads. */
static gsize
count_parts (const TpsTableBags *bags, gsize n_parts, TpsWorkerPool *workers)
{
  gsize max_parts = MAX (bags->n_bags, 1);

  if (tps_table_pool_get_stage_bytes (bags->table) > 0)
    max_parts = MIN (max_parts, workers != NULL ? tps_worker_pool_get_n_threads (workers) + 1 : 1);
  return CLAMP (n_parts, 1, max_parts);
}

/* Cuts the queries into parts, whose number depends on the bytes of all queries together. Reserves
 * the stages of the parts. */
static void
cut (TpsLookup *lookup, TpsWorkerPool *workers)
{
  gsize n_bytes = 0;
  gsize n_shares;

  for (guint i = 0; i < lookup->n_queries; i++)
    if (is_mine (lookup->queries[i].open.table))
      n_bytes += query_bytes (&lookup->queries[i].open.bags);
  n_shares = tps_parallel_count_parts (workers, n_bytes, G_MAXSIZE);
  for (guint i = 0; i < lookup->n_queries; i++)
    {
      TpsLookupQuery *query = &lookup->queries[i];
      const TpsTableBags *bags = &query->open.bags;
      gdouble share = (gdouble) query_bytes (bags) / (gdouble) MAX (n_bytes, 1);

      query->first_part = lookup->n_parts;
      if (!is_mine (bags->table))
        continue;
      query->n_parts = count_parts (bags, (gsize) (share * (gdouble) n_shares), workers);
      query->stages = tps_scratch_reserve (&lookup->stages, query->n_parts,
                                           tps_table_pool_get_stage_bytes (bags->table));
      lookup->n_parts += query->n_parts;
    }
  lookup->is_shared = n_shares > 1;
}

gboolean
tps_rows_on_host_begin_lookup (TpsLookup *lookup, GError **error)
{
  cut (lookup, tps_table_store_get_workers (lookup->store));
  return tps_scratch_provide (&lookup->stages, tps_table_store_get_scratch (lookup->store),
                              "queries", error);
}

gboolean
tps_rows_on_host_end_lookup (TpsLookup *lookup, G_GNUC_UNUSED GError **error)
{
  tps_parallel_run (lookup->is_shared ? tps_table_store_get_workers (lookup->store) : NULL,
                    lookup->n_parts, pool_part, lookup);
  return TRUE;
}

/* -- rows -- */

typedef struct
{
  TpsTable *table;
  const TpsTableSlots *slots;
  gsize n_rows;
  gsize n_parts;
  guint8 *rows;
  gint64 *lsns; /* NULL = not requested */
} RowsCall;

static void
read_part (gpointer user_data, gsize part)
{
  const RowsCall *call = user_data;
  gsize begin = part * call->n_rows / call->n_parts;
  gsize end = (part + 1) * call->n_rows / call->n_parts;

  guint8 *rows = call->rows + begin * call->table->row_bytes;

  if (call->lsns != NULL)
    tps_table_read_rows_with_lsns (call->table, call->slots->slots + begin, call->slots->base,
                                   end - begin, rows, call->lsns + begin);
  else
    tps_table_read_rows (call->table, call->slots->slots + begin, call->slots->base, end - begin, 0,
                         rows);
}

gboolean
tps_rows_on_host_read (TpsTableStore *store, TpsTable *table, const TpsTableSlots *slots,
                       TpsTensor *rows, TpsTensor *lsns, G_GNUC_UNUSED GError **error)
{
  TpsWorkerPool *workers = tps_table_store_get_workers (store);
  RowsCall call = {
    .table = table,
    .slots = slots,
    .n_rows = (gsize) rows->shape.dims[0],
    .rows = tps_tensor_data (rows),
    .lsns = lsns != NULL ? tps_tensor_data (lsns) : NULL,
  };

  if (call.n_rows == 0)
    return TRUE;
  call.n_parts = tps_parallel_count_parts (workers, 2 * call.n_rows * table->row_bytes,
                                           call.n_rows);
  tps_parallel_run (workers, call.n_parts, read_part, &call);
  return TRUE;
}
