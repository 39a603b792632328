/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The row store in the host's memory. In lookups, threads take parts of a lookup, and pool the bags
 * or copy the rows of each part. In pushes, contributions to a row are added in the order of the
 * gradients. They are listed and grouped by row before the push's turn. */

#include "runtime/server/tables/row_store.h"

#include "runtime/base/parallel.h"
#include "runtime/device/cpu/kernels/elementwise.h"

typedef struct
{
  TpsTable *table;
  const TpsTableSlots *slots;
  gsize n_rows;
  gsize n_parts;
  guint8 *rows;
  gint64 *lsns; /* NULL = not requested */
} RowsCall;

const TpsRowStore *const tps_row_stores[TPS_N_ROW_STORES] = {
  &tps_rows_on_host,
  &tps_rows_on_device,
};

static gboolean
is_mine (const TpsTable *table)
{
  return table->row_store == &tps_rows_on_host;
}

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

/* Member begin_lookup: divides the bags of a lookup into parts and allocates temporary memory.
 * Pools nothing yet. Errors: RESOURCE_EXHAUSTED. */
static gboolean
begin_lookup (TpsLookup *lookup, GError **error)
{
  cut (lookup, lookup->store->workers);
  return tps_scratch_provide (&lookup->stages, lookup->store->scratch, "queries", error);
}

static gboolean
end_lookup (TpsLookup *lookup, G_GNUC_UNUSED GError **error)
{
  tps_parallel_run (lookup->is_shared ? lookup->store->workers : NULL, lookup->n_parts, pool_part,
                    lookup);
  return TRUE;
}

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

static gboolean
read_rows (TpsTableStore *store, TpsTable *table, const TpsTableSlots *slots, TpsTensor *rows,
           TpsTensor *lsns, G_GNUC_UNUSED GError **error)
{
  TpsWorkerPool *workers = store->workers;
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

/* Member reserve: reserves the scratch memory of a push, which the caller then provides. Does not
 * allocate. */
static void
reserve (TpsApply *apply)
{
  for (guint i = 0; i < apply->n_parts; i++)
    {
      TpsApplyPart *part = &apply->parts[i];

      if (is_mine (part->open.table) && part->open.bags.pooling == TPS_POOLING_MEAN)
        part->place_of_scaled = tps_scratch_reserve (&apply->scratch,
                                                     part->open.bags.n_bags * part->open.table->dim,
                                                     sizeof part->scaled[0]);
    }
  for (guint s = 0; s < apply->n_steps; s++)
    {
      TpsApplyStep *step = &apply->steps[s];

      if (is_mine (step->table))
        tps_table_step_reserve (&step->host, &apply->scratch, step->table, apply->parts[0].dtype,
                                step->n_contributions, step->has_weights, apply->store->workers);
    }
}

static gsize
bag_start (const TpsTableBags *bags, gsize bag)
{
  if (bag == bags->n_bags)
    return bags->n_indices;
  return bags->offsets != NULL ? (gsize) bags->offsets[bag] : bag;
}

static void
divide_by_counts (TpsApply *apply, TpsApplyPart *part)
{
  const TpsTableBags *bags = &part->open.bags;
  const gfloat *gradient = part->gradient;
  gsize dim = bags->table->dim;

  part->scaled = tps_scratch_at (&apply->scratch, part->place_of_scaled);
  for (gsize bag = 0; bag < bags->n_bags; bag++)
    {
      gsize count = bag_start (bags, bag + 1) - bag_start (bags, bag);

      tps_cpu_divide (TPS_DTYPE_FLOAT32, part->scaled + bag * dim, gradient + bag * dim,
                      (gfloat) MAX (count, 1), dim);
    }
}

/* Adds each row of the gradient as a contribution to one row of the table. */
static void
add_rows (TpsTableStep *step, const TpsApplyPart *part, gsize row_bytes)
{
  const TpsTableBags *bags = &part->open.bags;
  const guint8 *row = part->gradient;

  for (gsize i = 0; i < bags->n_indices; i++, row += row_bytes)
    tps_table_step_add (step, bags->slots[i] - bags->base, row, 1);
}

static void
add_bags (TpsApply *apply, TpsApplyPart *part)
{
  const TpsTableBags *bags = &part->open.bags;
  TpsTableStep *step = &apply->steps[part->step].host;
  gsize row_bytes = bags->table->dim * tps_dtype_size (part->dtype);
  const guint8 *row;

  if (bags->offsets == NULL)
    {
      add_rows (step, part, row_bytes);
      return;
    }
  if (bags->pooling == TPS_POOLING_MEAN)
    divide_by_counts (apply, part);
  row = part->scaled != NULL ? (const guint8 *) part->scaled : part->gradient;
  for (gsize bag = 0; bag < bags->n_bags; bag++, row += row_bytes)
    for (gsize i = bag_start (bags, bag); i < bag_start (bags, bag + 1); i++)
      tps_table_step_add (step, bags->slots[i] - bags->base, row,
                          bags->weights != NULL ? bags->weights[i] : 1);
}

static void
begin_push (TpsApply *apply)
{
  for (guint s = 0; s < apply->n_steps; s++)
    if (is_mine (apply->steps[s].table))
      tps_table_step_begin (&apply->steps[s].host, &apply->scratch);
  if (apply->push->is_assignment)
    tps_table_step_assign (&apply->steps[0].host, apply->push->as_of_lsn);
  for (guint i = 0; i < apply->n_parts; i++)
    if (is_mine (apply->parts[i].open.table))
      add_bags (apply, &apply->parts[i]);
  for (guint s = 0; s < apply->n_steps; s++)
    if (is_mine (apply->steps[s].table))
      tps_table_step_group (&apply->steps[s].host);
}

static gboolean
may_follow (const TpsApplyStep *step)
{
  return tps_table_step_is_short (&step->host);
}

static gboolean
run_push (TpsApply *apply, gint64 lsn, G_GNUC_UNUSED GError **error)
{
  for (guint s = 0; s < apply->n_steps; s++)
    if (is_mine (apply->steps[s].table) && !apply->tables[s].is_skipped)
      tps_table_step_run (&apply->steps[s].host, lsn,
                          apply->turns[s].ordered->may_follow ? &apply->turns[s] : NULL,
                          apply->store->workers);
  return TRUE;
}

static gsize
estimate (const TpsTable *table, gsize n_rows, gsize n_outputs)
{
  return n_rows * (table->row_bytes + sizeof (gint64)) + n_outputs * table->dim * sizeof (gfloat);
}

static TpsBufferPool *
get_answers (TpsTableStore *store, G_GNUC_UNUSED const TpsTable *table)
{
  return store->answers;
}

static gboolean
has_output_on (G_GNUC_UNUSED const TpsTable *table, const TpsDevice *device)
{
  return device == NULL;
}

static gboolean
capture (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *to, G_GNUC_UNUSED GError **error)
{
  tps_table_copy_rows (table, slot, n, to);
  return TRUE;
}

static void
begin_at (TpsTable *table, gint64 n_steps)
{
  table->n_steps = n_steps;
}

const TpsRowStore tps_rows_on_host = {
  .number = 0,
  .may_assign = TRUE,
  .knows_changed_rows = TRUE,
  .estimate = estimate,
  .get_answers = get_answers,
  .has_output_on = has_output_on,
  .read_rows = read_rows,
  .begin_lookup = begin_lookup,
  .end_lookup = end_lookup,
  .reserve = reserve,
  .begin = begin_push,
  .run = run_push,
  .may_follow = may_follow,
  .capture = capture,
  .begin_at = begin_at,
};
