/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Lookups. Everything is checked and all outputs have their memory before the first row is read.
 * Then bags are pooled, or rows copied, in parts that threads take. Queries on devices are begun
 * before that and completed after it. */

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/parallel.h"
#include "runtime/server/tables/device/device_lookup.h"
#include "runtime/server/tables/host/scratch.h"
#include "runtime/server/tables/table_calls.h"

static gboolean
allocate_output (TpsTensor *output, TpsTableStore *store, TpsDType dtype, gsize n_rows,
                 const TpsTable *table, const gchar *what, GError **error)
{
  gint64 dims[2] = { (gint64) n_rows, (gint64) table->dim };
  TpsBufferPool *pool = table->on_device != NULL ? table->on_device->lanes->answers
                                                 : tps_table_store_get_answers (store);
  TpsShape shape;
  TpsBuffer *buffer;

  if (!tps_shape_init (&shape, dtype, 2, dims, what, NULL))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "%s: an answer of %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT
                   " values is larger than a tensor can be",
                   what, n_rows, table->dim);
      return FALSE;
    }
  buffer = tps_buffer_pool_get (pool, tps_shape_n_bytes (&shape), error);
  if (buffer == NULL)
    {
      g_prefix_error (
          error,
          "%s: no memory for an answer of %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " values: ", what,
          n_rows, table->dim);
      return FALSE;
    }
  tps_tensor_init_take (output, &shape, buffer, 0);
  return TRUE;
}

/* -- bags -- */

/* Parts [first_part, first_part + n_parts) of the call are even shares of the bags of one query. A
 * query on a device has no parts. */
typedef struct
{
  TpsOpenQuery open;
  gfloat *output;
  gsize first_part, n_parts;
  gsize stages; /* an offset in the scratch, for wide rows */
} Lookup;

typedef struct
{
  TpsScratch scratch;
  TpsScratch stages; /* for each part of tables with wide rows */
  TpsTableStore *store;
  Lookup *lookups;
  TpsDeviceQuery *on_devices; /* [n_lookups] */
  guint n_lookups;
  guint n_on_devices;
  gsize n_parts;
  gboolean is_shared; /* with workers */
} LookupCall;

/* The query that contains a part: the last one that begins at or before it. */
static const Lookup *
find_lookup (const LookupCall *call, gsize part)
{
  guint begin = 0;
  guint end = call->n_lookups;

  while (end - begin > 1)
    {
      guint middle = begin + (end - begin) / 2;

      if (call->lookups[middle].first_part <= part)
        begin = middle;
      else
        end = middle;
    }
  return &call->lookups[begin];
}

static void
pool_part (gpointer user_data, gsize part)
{
  const LookupCall *call = user_data;
  const Lookup *lookup = find_lookup (call, part);
  const TpsTableBags *bags = &lookup->open.bags;
  gsize share = part - lookup->first_part;
  gsize begin = share * bags->n_bags / lookup->n_parts;
  gsize end = (share + 1) * bags->n_bags / lookup->n_parts;
  gsize stage_bytes = tps_table_pool_get_stage_bytes (bags->table);
  gpointer stage = stage_bytes > 0
                       ? tps_scratch_at (&call->stages, lookup->stages + share * stage_bytes)
                       : NULL;

  tps_table_pool_bags (bags, begin, end, lookup->output + begin * bags->table->dim, NULL, stage);
}

static gsize
lookup_bytes (const TpsTableBags *bags)
{
  if (bags->table->on_device != NULL)
    return 0;
  return bags->n_indices * (bags->table->row_bytes + sizeof (gint64))
         + bags->n_bags * bags->table->dim * sizeof (gfloat);
}

/* Each part of a table with wide rows has a stage of its own, so there are at most as many parts as
 * threads. */
static gsize
count_parts (const TpsTableBags *bags, gsize n_parts, TpsWorkerPool *workers)
{
  gsize max_parts = MAX (bags->n_bags, 1);

  if (tps_table_pool_get_stage_bytes (bags->table) > 0)
    max_parts = MIN (max_parts, workers != NULL ? tps_worker_pool_get_n_threads (workers) + 1 : 1);
  return CLAMP (n_parts, 1, max_parts);
}

/* Cuts large calls for several threads, counting all queries together. Reserves stages. */
static void
cut (LookupCall *call, TpsWorkerPool *workers)
{
  gsize n_bytes = 0;
  gsize n_shares;

  for (guint i = 0; i < call->n_lookups; i++)
    n_bytes += lookup_bytes (&call->lookups[i].open.bags);
  n_shares = tps_parallel_count_parts (workers, n_bytes, G_MAXSIZE);
  for (guint i = 0; i < call->n_lookups; i++)
    {
      Lookup *lookup = &call->lookups[i];
      const TpsTableBags *bags = &lookup->open.bags;
      gdouble share = (gdouble) lookup_bytes (bags) / (gdouble) MAX (n_bytes, 1);

      lookup->first_part = call->n_parts;
      if (bags->table->on_device != NULL)
        continue;
      lookup->n_parts = count_parts (bags, (gsize) (share * (gdouble) n_shares), workers);
      lookup->stages = tps_scratch_reserve (&call->stages, lookup->n_parts,
                                            tps_table_pool_get_stage_bytes (bags->table));
      call->n_parts += lookup->n_parts;
    }
  call->is_shared = n_shares > 1;
}

static gboolean
open_lookup (Lookup *lookup, TpsTableStore *store, const TpsBagQuery *query, guint i,
             TpsTensor *output, GError **error)
{
  gchar what[32];

  g_snprintf (what, sizeof what, "queries[%u]", i);
  if (!tps_open_query_init (&lookup->open, store, query, what, error)
      || !allocate_output (output, store, TPS_DTYPE_FLOAT32, lookup->open.bags.n_bags,
                           lookup->open.table, what, error))
    return FALSE;
  lookup->output = tps_tensor_data (output);
  return TRUE;
}

static void
pool_on_host (LookupCall *call)
{
  tps_parallel_run (call->is_shared ? tps_table_store_get_workers (call->store) : NULL,
                    call->n_parts, pool_part, call);
}

static gboolean
pool_all (LookupCall *call, GError **error)
{
  TpsDeviceLookup *on_devices;
  guint n_queries = 0;

  if (call->n_on_devices == 0)
    {
      pool_on_host (call);
      return TRUE;
    }
  for (guint i = 0; i < call->n_lookups; i++)
    if (call->lookups[i].open.table->on_device != NULL)
      call->on_devices[n_queries++] = (TpsDeviceQuery) {
        tps_table_bags_of_device (&call->lookups[i].open.bags), call->lookups[i].output
      };
  on_devices = tps_device_lookup_begin (call->on_devices, n_queries, error);
  if (on_devices == NULL)
    return FALSE;
  pool_on_host (call);
  return tps_device_lookup_end (on_devices, error);
}

static gboolean
begin_call (LookupCall *call, GError **error)
{
  gsize lookups, on_devices;

  tps_scratch_init (&call->scratch);
  tps_scratch_init (&call->stages);
  lookups = tps_scratch_reserve (&call->scratch, call->n_lookups, sizeof call->lookups[0]);
  on_devices = tps_scratch_reserve (&call->scratch, call->n_lookups, sizeof call->on_devices[0]);
  if (!tps_scratch_provide (&call->scratch, tps_table_store_get_scratch (call->store), "queries",
                            error))
    return FALSE;
  call->lookups = tps_scratch_at (&call->scratch, lookups);
  call->on_devices = tps_scratch_at (&call->scratch, on_devices);
  memset (call->lookups, 0, call->n_lookups * sizeof call->lookups[0]);
  return TRUE;
}

static gboolean
open_all (LookupCall *call, const TpsBagQuery *queries, TpsTensor *outputs, GError **error)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < call->n_lookups; i++)
    {
      Lookup *lookup = &call->lookups[i];

      if (!open_lookup (lookup, call->store, &queries[i], i, &outputs[i], error)
          || !tps_table_store_count_rows (call->store, &lookup->open.bags, &n_bytes, error))
        return FALSE;
      call->n_on_devices += lookup->open.table->on_device != NULL;
    }
  cut (call, tps_table_store_get_workers (call->store));
  return tps_scratch_provide (&call->stages, tps_table_store_get_scratch (call->store), "queries",
                              error);
}

static void
count_lookup (const TpsOpenQuery *open, gint64 duration_ns)
{
  const TpsTableWork work = {
    .n_rows = open->bags.n_indices,
    .n_bytes = open->bags.n_bags * open->table->dim * sizeof (gfloat),
    .duration_ns = duration_ns,
  };

  tps_table_numbers_add_lookup (open->table->numbers, &work);
}

static void
count_lookups (const LookupCall *call, gint64 began_ns)
{
  gint64 duration_ns = tps_table_store_get_elapsed_ns (began_ns);

  for (guint i = 0; i < call->n_lookups; i++)
    count_lookup (&call->lookups[i].open, duration_ns);
}

gboolean
tps_table_store_lookup_bags_since (TpsTableStore *store, gint64 began_ns,
                                   const TpsBagQuery *queries, guint n_queries, TpsTensor *outputs,
                                   GError **error)
{
  LookupCall call;
  gboolean ok;

  call.store = store;
  call.n_lookups = n_queries;
  call.n_on_devices = 0;
  call.n_parts = 0;
  if (!begin_call (&call, error))
    {
      tps_scratch_clear (&call.scratch);
      return FALSE;
    }
  ok = open_all (&call, queries, outputs, error) && pool_all (&call, error);
  if (ok)
    count_lookups (&call, began_ns);
  for (guint i = 0; i < n_queries; i++)
    {
      if (!ok)
        tps_tensor_clear (&outputs[i]);
      tps_open_query_clear (&call.lookups[i].open);
    }
  tps_scratch_clear (&call.stages);
  tps_scratch_clear (&call.scratch);
  return ok;
}

gboolean
tps_table_store_lookup_bags (TpsTableStore *store, const TpsBagQuery *queries, guint n_queries,
                             TpsTensor *outputs, GError **error)
{
  return tps_table_store_lookup_bags_since (store, 0, queries, n_queries, outputs, error);
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

static void
read_all (TpsTable *table, const TpsTableSlots *slots, TpsTensor *rows, TpsTensor *lsns,
          TpsWorkerPool *workers)
{
  RowsCall call = {
    .table = table,
    .slots = slots,
    .n_rows = (gsize) rows->shape.dims[0],
    .rows = tps_tensor_data (rows),
    .lsns = lsns != NULL ? tps_tensor_data (lsns) : NULL,
  };

  if (call.n_rows == 0)
    return;
  call.n_parts = tps_parallel_count_parts (workers, 2 * call.n_rows * table->row_bytes,
                                           call.n_rows);
  tps_parallel_run (workers, call.n_parts, read_part, &call);
}

/* Reads each row as a bag. */
static gboolean
read_on_device (TpsTable *table, const TpsTableSlots *slots, TpsTensor *rows, GError **error)
{
  gsize n_rows = (gsize) rows->shape.dims[0];
  TpsDeviceQuery query = {
    .bags = { .rows = table->on_device,
              .slots = slots->slots,
              .base = slots->base,
              .n_indices = n_rows,
              .n_bags = n_rows,
              .pooling = TPS_POOLING_SUM },
    .output = tps_tensor_data (rows),
  };
  TpsDeviceLookup *lookup = tps_device_lookup_begin (&query, 1, error);

  return lookup != NULL && tps_device_lookup_end (lookup, error);
}

static gboolean
check_lsns (const TpsTable *table, GError **error)
{
  if (table->lsns != NULL)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "table %s: LSNs of rows are kept for tables in the host's memory of servers with a "
               "data directory",
               table->spec.name);
  return FALSE;
}

static gboolean
allocate_lsns (TpsTensor *lsns, TpsTableStore *store, gint64 n_rows, GError **error)
{
  TpsShape shape;
  TpsBuffer *buffer;

  if (!tps_shape_init (&shape, TPS_DTYPE_INT64, 1, &n_rows, "lsns", error))
    return FALSE;
  buffer = tps_buffer_pool_get (tps_table_store_get_answers (store), tps_shape_n_bytes (&shape),
                                error);
  if (buffer == NULL)
    return FALSE;
  tps_tensor_init_take (lsns, &shape, buffer, 0);
  return TRUE;
}

static gboolean
read_rows (TpsTableStore *store, TpsTable *table, const TpsTableSlots *slots, gsize n_rows,
           TpsTensor *rows, TpsTensor *lsns, GError **error)
{
  if (!allocate_output (rows, store, table->spec.dtype, n_rows, table, "indices", error))
    return FALSE;
  if (lsns != NULL && !allocate_lsns (lsns, store, (gint64) n_rows, error))
    return FALSE;
  if (table->on_device != NULL)
    return read_on_device (table, slots, rows, error);
  read_all (table, slots, rows, lsns, tps_table_store_get_workers (store));
  return TRUE;
}

static void
count_rows (const TpsTable *table, gsize n_rows, gint64 began_ns)
{
  const TpsTableWork work = {
    .n_rows = n_rows,
    .n_bytes = n_rows * table->dim * tps_dtype_size (table->spec.dtype),
    .duration_ns = tps_table_store_get_elapsed_ns (began_ns),
  };

  tps_table_numbers_add_lookup (table->numbers, &work);
}

gboolean
tps_table_store_lookup_rows_since (TpsTableStore *store, gint64 began_ns, const gchar *table,
                                   TpsTensorView indices, TpsTensor *rows, TpsTensor *lsns,
                                   GError **error)
{
  g_autoptr (TpsTable) found = NULL;
  TpsTableSlots slots = { 0 };
  gboolean ok;

  if (!tps_check_indices (indices, "indices", error))
    return FALSE;
  found = tps_table_store_ref_table (store, table, error);
  if (found == NULL || (lsns != NULL && !check_lsns (found, error)))
    return FALSE;
  ok = tps_table_slots_init (&slots, found, indices, "indices", tps_table_store_get_scratch (store),
                             error)
       && read_rows (store, found, &slots, (gsize) indices.shape.dims[0], rows, lsns, error);
  tps_table_slots_clear (&slots);
  if (ok)
    {
      count_rows (found, (gsize) indices.shape.dims[0], began_ns);
      return TRUE;
    }
  tps_tensor_clear (rows);
  if (lsns != NULL)
    tps_tensor_clear (lsns);
  return FALSE;
}

gboolean
tps_table_store_lookup_rows (TpsTableStore *store, const gchar *table, TpsTensorView indices,
                             TpsTensor *rows, GError **error)
{
  return tps_table_store_lookup_rows_since (store, 0, table, indices, rows, NULL, error);
}

gboolean
tps_table_store_lookup_rows_with_lsns (TpsTableStore *store, const gchar *table,
                                       TpsTensorView indices, TpsTensor *rows, TpsTensor *lsns,
                                       GError **error)
{
  return tps_table_store_lookup_rows_since (store, 0, table, indices, rows, lsns, error);
}
