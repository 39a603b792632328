/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Lookups. Before the row stores read the first row, all queries have been checked and all outputs
 * have memory. All outputs in the caller's place share one buffer. */

#include "runtime/server/tables/lookup.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/server/tables/row_store.h"

static gboolean
shape_output (TpsShape *shape, TpsDType dtype, gsize n_rows, const TpsTable *table,
              const gchar *what, GError **error)
{
  gint64 dims[2] = { (gint64) n_rows, (gint64) table->dim };

  if (tps_shape_init (shape, dtype, 2, dims, what, NULL))
    return TRUE;
  return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "%s: a result of %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT
                   " values exceeds the largest size of a tensor",
                   what, n_rows, table->dim);
}

static gboolean
allocate_output (TpsTensor *output, TpsTableStore *store, const TpsShape *shape,
                 const TpsTable *table, const gchar *what, GError **error)
{
  TpsBufferPool *pool = table->row_store->get_answers (store, table);
  TpsBuffer *buffer = tps_buffer_pool_get (pool, tps_shape_n_bytes (shape), error);

  if (buffer == NULL)
    {
      g_prefix_error (
          error,
          "%s: no memory for a result of %" G_GINT64_FORMAT " x %" G_GSIZE_FORMAT " values: ", what,
          shape->dims[0], table->dim);
      return FALSE;
    }
  tps_tensor_init_take (output, shape, buffer, 0);
  return TRUE;
}

/* Returns TRUE if the output belongs in a place in memory of `device` (NULL = of the host). */
static gboolean
fits_place (const TpsLookupPlace *place, const TpsDevice *device, const TpsTable *table,
            const TpsShape *shape)
{
  return table->row_store->has_output_on (table, device)
         && tps_shape_n_bytes (shape) >= place->min_bytes;
}

/* Returns the bytes that an output occupies in the place. */
static gsize
place_bytes (const TpsShape *shape)
{
  return (tps_shape_n_bytes (shape) + TPS_BUFFER_ALIGNMENT - 1) / TPS_BUFFER_ALIGNMENT
         * TPS_BUFFER_ALIGNMENT;
}

/* -- bags -- */

static gboolean
open_query (TpsLookupQuery *query, TpsTableStore *store, const TpsBagQuery *from, guint i,
            TpsShape *shape, GError **error)
{
  gchar what[32];

  g_snprintf (what, sizeof what, "queries[%u]", i);
  return tps_open_query_init (&query->open, store, from, what, error)
         && shape_output (shape, TPS_DTYPE_FLOAT32, query->open.bags.n_bags, query->open.table,
                          what, error);
}

/* Reserves memory of `device` for all outputs that belong there. Returns NULL if there are no such
 * outputs, or if there is no room. The shapes of the outputs must have been set. */
static TpsBuffer *
reserve_on (const TpsLookup *lookup, TpsDevice *device, const TpsTensor *outputs)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < lookup->n_queries; i++)
    if (fits_place (lookup->place, device, lookup->queries[i].open.table, &outputs[i].shape))
      {
        gsize n_more = place_bytes (&outputs[i].shape);

        if (n_more > G_MAXSIZE - n_bytes)
          return NULL;
        n_bytes += n_more;
      }
  return n_bytes > 0 ? lookup->place->reserve (lookup->place->user_data, device, n_bytes) : NULL;
}

/* Reserves the place in memory of its device if possible, otherwise in host memory. Sets `device`
 * to the device of the reserved memory; NULL = host memory, or no memory was reserved. */
static TpsBuffer *
reserve_place (const TpsLookup *lookup, const TpsTensor *outputs, TpsDevice **device)
{
  TpsBuffer *placed = NULL;

  *device = lookup->place != NULL ? lookup->place->device : NULL;
  if (*device != NULL)
    placed = reserve_on (lookup, *device, outputs);
  if (placed != NULL || lookup->place == NULL)
    return placed;
  *device = NULL;
  return reserve_on (lookup, NULL, outputs);
}

static gboolean
allocate_all (TpsLookup *lookup, TpsTensor *outputs, GError **error)
{
  TpsDevice *device;
  g_autoptr (TpsBuffer) placed = reserve_place (lookup, outputs, &device);
  gsize offset = 0;

  for (guint i = 0; i < lookup->n_queries; i++)
    {
      TpsLookupQuery *query = &lookup->queries[i];
      TpsShape shape = outputs[i].shape;
      gboolean is_placed = placed != NULL
                           && fits_place (lookup->place, device, query->open.table, &shape);
      gchar what[32];

      g_snprintf (what, sizeof what, "queries[%u]", i);
      query->is_on_device = is_placed && device != NULL;
      if (is_placed)
        {
          tps_tensor_init_take (&outputs[i], &shape, tps_buffer_ref (placed), offset);
          offset += place_bytes (&shape);
        }
      else if (!allocate_output (&outputs[i], lookup->store, &shape, query->open.table, what,
                                 error))
        return FALSE;
      query->output = tps_tensor_data (&outputs[i]);
    }
  return TRUE;
}

static gboolean
begin_all (TpsLookup *lookup, GError **error)
{
  for (guint i = 0; i < TPS_N_ROW_STORES; i++)
    if (lookup->n_in[i] > 0 && !tps_row_stores[i]->begin_lookup (lookup, error))
      return FALSE;
  return TRUE;
}

static gboolean
end_all (TpsLookup *lookup, GError **error)
{
  for (guint i = 0; i < TPS_N_ROW_STORES; i++)
    if (lookup->n_in[i] > 0 && !tps_row_stores[i]->end_lookup (lookup, error))
      return FALSE;
  return TRUE;
}

static gboolean
provide_queries (TpsLookup *lookup, GError **error)
{
  TpsScratch *scratch = &lookup->scratch;
  gsize queries = tps_scratch_reserve (scratch, lookup->n_queries, sizeof lookup->queries[0]);
  gsize on_devices = tps_scratch_reserve (scratch, lookup->n_queries, sizeof lookup->on_devices[0]);

  if (!tps_scratch_provide (scratch, lookup->store->scratch, "queries", error))
    return FALSE;
  lookup->queries = tps_scratch_at (scratch, queries);
  lookup->on_devices = tps_scratch_at (scratch, on_devices);
  memset (lookup->queries, 0, lookup->n_queries * sizeof lookup->queries[0]);
  return TRUE;
}

static gboolean
open_all (TpsLookup *lookup, const TpsBagQuery *queries, TpsTensor *outputs, GError **error)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < lookup->n_queries; i++)
    {
      TpsLookupQuery *query = &lookup->queries[i];

      if (!open_query (query, lookup->store, &queries[i], i, &outputs[i].shape, error)
          || !tps_table_store_count_rows (lookup->store, &query->open.bags, &n_bytes, error))
        return FALSE;
      lookup->n_in[query->open.table->row_store->number]++;
    }
  return allocate_all (lookup, outputs, error);
}

static void
count_lookups (const TpsLookup *lookup, gint64 began_ns)
{
  gint64 duration_ns = tps_table_store_get_elapsed_ns (began_ns);

  for (guint i = 0; i < lookup->n_queries; i++)
    {
      const TpsTableWork work = {
        .n_rows = lookup->queries[i].open.bags.n_indices,
        .n_bytes = lookup->queries[i].open.bags.n_bags * lookup->queries[i].open.table->dim
                   * sizeof (gfloat),
        .duration_ns = duration_ns,
      };

      tps_table_numbers_add_lookup (lookup->queries[i].open.table->numbers, &work);
    }
}

static const TpsTableLookup no_options;

gboolean
tps_table_store_lookup_bags (TpsTableStore *store, const TpsTableLookup *request,
                             const TpsBagQuery *queries, guint n_queries, TpsTensor *outputs,
                             GError **error)
{
  TpsLookup lookup;
  gboolean ok;

  if (request == NULL)
    request = &no_options;
  lookup.store = store;
  lookup.place = request->place;
  lookup.n_queries = n_queries;
  lookup.n_parts = 0;
  memset (lookup.n_in, 0, sizeof lookup.n_in);
  tps_scratch_init (&lookup.scratch);
  tps_scratch_init (&lookup.stages);
  if (!provide_queries (&lookup, error))
    {
      tps_scratch_clear (&lookup.scratch);
      return FALSE;
    }
  ok = open_all (&lookup, queries, outputs, error) && begin_all (&lookup, error)
       && end_all (&lookup, error);
  if (ok)
    count_lookups (&lookup, request->began_ns);
  for (guint i = 0; i < n_queries; i++)
    {
      if (!ok)
        tps_tensor_clear (&outputs[i]);
      tps_open_query_clear (&lookup.queries[i].open);
    }
  tps_scratch_clear (&lookup.stages);
  tps_scratch_clear (&lookup.scratch);
  return ok;
}

/* -- rows -- */

static gboolean
check_lsns (const TpsTable *table, GError **error)
{
  if (table->lsns != NULL)
    return TRUE;
  return tps_fail (
      error, TPS_ERROR_INVALID_ARGUMENT,
      "table %s: LSNs of rows are kept for tables in the host's memory of servers with a "
      "data directory",
      table->spec.name);
}

static gboolean
allocate_lsns (TpsTensor *lsns, TpsTableStore *store, gint64 n_rows, GError **error)
{
  TpsShape shape;
  TpsBuffer *buffer;

  if (!tps_shape_init (&shape, TPS_DTYPE_INT64, 1, &n_rows, "lsns", error))
    return FALSE;
  buffer = tps_buffer_pool_get (store->answers, tps_shape_n_bytes (&shape), error);
  if (buffer == NULL)
    return FALSE;
  tps_tensor_init_take (lsns, &shape, buffer, 0);
  return TRUE;
}

static gboolean
allocate_rows (TpsTensor *rows, TpsTableStore *store, const TpsLookupPlace *place,
               const TpsTable *table, gsize n_rows, GError **error)
{
  TpsDevice *device = NULL;
  TpsBuffer *placed = NULL;
  TpsShape shape;

  if (!shape_output (&shape, table->spec.dtype, n_rows, table, "indices", error))
    return FALSE;
  if (place != NULL && !table->row_store->has_output_on (table, NULL))
    device = place->device;
  if (place != NULL && fits_place (place, device, table, &shape))
    placed = place->reserve (place->user_data, device, place_bytes (&shape));
  if (placed == NULL)
    return allocate_output (rows, store, &shape, table, "indices", error);
  tps_tensor_init_take (rows, &shape, placed, 0);
  return TRUE;
}

static gboolean
read_rows (TpsTableStore *store, const TpsLookupPlace *place, TpsTable *table,
           const TpsTableSlots *slots, gsize n_rows, TpsTensor *rows, TpsTensor *lsns,
           GError **error)
{
  if (!allocate_rows (rows, store, place, table, n_rows, error))
    return FALSE;
  if (lsns != NULL && !allocate_lsns (lsns, store, (gint64) n_rows, error))
    return FALSE;
  return table->row_store->read_rows (store, table, slots, rows, lsns, error);
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
tps_table_store_lookup_rows (TpsTableStore *store, const TpsTableLookup *request,
                             const gchar *table, TpsTensorView indices, TpsTensor *rows,
                             TpsTensor *lsns, GError **error)
{
  g_autoptr (TpsTable) found = NULL;
  TpsTableSlots slots = { 0 };
  gboolean ok;

  if (request == NULL)
    request = &no_options;
  if (!tps_check_indices (indices, "indices", error))
    return FALSE;
  found = tps_table_store_ref_table (store, table, error);
  if (found == NULL || (lsns != NULL && !check_lsns (found, error)))
    return FALSE;
  ok = tps_table_slots_init (&slots, found, indices, "indices", store->scratch, error)
       && read_rows (store, request->place, found, &slots, (gsize) indices.shape.dims[0], rows,
                     lsns, error);
  tps_table_slots_clear (&slots);
  if (ok)
    {
      count_rows (found, (gsize) indices.shape.dims[0], request->began_ns);
      return TRUE;
    }
  tps_tensor_clear (rows);
  if (lsns != NULL)
    tps_tensor_clear (lsns);
  return FALSE;
}
