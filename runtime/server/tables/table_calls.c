/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/table_calls.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* -- ids -- */

static gboolean
fail_at_index (const TpsTable *table, gint64 row, gsize i, const gchar *what, GError **error)
{
  const TpsShard *shard = &table->spec.shard;
  const gchar *name = table->spec.name;

  if (row < 0 || row >= shard->rows)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s[%" G_GSIZE_FORMAT "]: %" G_GINT64_FORMAT " is not in [0, %" G_GINT64_FORMAT
                     ") of table %s",
                     what, i, row, shard->rows, name);
  if (shard->kind == TPS_SHARD_RANGE)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s[%" G_GSIZE_FORMAT "]: %" G_GINT64_FORMAT " is not in [%" G_GINT64_FORMAT
                     ", %" G_GINT64_FORMAT "), the shard of table %s on this server",
                     what, i, row, shard->first_row, shard->first_row + shard->n_rows, name);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "%s[%" G_GSIZE_FORMAT "]: %" G_GINT64_FORMAT " is in shard %" G_GINT64_FORMAT
                   " of table %s, this server holds shard %d of %d",
                   what, i, row, tps_shard_permute (row, shard->rows) % shard->count, name,
                   shard->index, shard->count);
}

/* The shard consists of rows [first, first + n_rows), in slots of the same order. The ids are used
 * as slots, with `first` as the base. The first loop has no branches; the second loop finds the
 * wrong id. The differences are unsigned, so ids below `first` are out of range, too. */
static gboolean
slots_of_range (TpsTableSlots *slots, const TpsTable *table, const gint64 *rows, gsize n,
                const gchar *what, GError **error)
{
  guint64 first = (guint64) table->spec.shard.first_row;
  guint64 n_rows = (guint64) table->spec.shard.n_rows;
  gboolean ok = TRUE;
  gsize i = 0;

  for (i = 0; i < n; i++)
    ok &= (guint64) rows[i] - first < n_rows;
  slots->slots = rows;
  slots->base = (gint64) first;
  if (ok)
    return TRUE;
  for (i = 0; (guint64) rows[i] - first < n_rows; i++)
    ;
  return fail_at_index (table, rows[i], i, what, error);
}

static gboolean
slots_of_hash (TpsTableSlots *slots, const TpsTable *table, const gint64 *rows, gsize n,
               const gchar *what, TpsBufferPool *scratch, GError **error)
{
  const TpsShard *shard = &table->spec.shard;
  gint64 *numbers;

  slots->owned = tps_buffer_pool_get (scratch, n * sizeof slots->slots[0], error);
  if (slots->owned == NULL)
    {
      g_prefix_error (error, "%s: ", what);
      return FALSE;
    }
  numbers = (gint64 *) (gpointer) tps_buffer_get_data (slots->owned);
  for (gsize i = 0; i < n; i++)
    {
      gboolean is_row = rows[i] >= 0 && rows[i] < shard->rows;

      numbers[i] = is_row ? tps_shard_get_slot (shard, rows[i]) : -1;
      if (numbers[i] < 0)
        return fail_at_index (table, rows[i], i, what, error);
    }
  slots->slots = numbers;
  return TRUE;
}

gboolean
tps_table_slots_init (TpsTableSlots *slots, const TpsTable *table, TpsTensorView indices,
                      const gchar *what, TpsBufferPool *scratch, GError **error)
{
  gsize n = (gsize) indices.shape.dims[0];

  *slots = (TpsTableSlots) { 0 };
  return table->spec.shard.kind == TPS_SHARD_HASH
             ? slots_of_hash (slots, table, indices.data, n, what, scratch, error)
             : slots_of_range (slots, table, indices.data, n, what, error);
}

void
tps_table_slots_clear (TpsTableSlots *slots)
{
  g_clear_pointer (&slots->owned, tps_buffer_unref);
}

gboolean
tps_check_indices (TpsTensorView indices, const gchar *what, GError **error)
{
  g_autofree gchar *got = NULL;

  if (indices.shape.dtype == TPS_DTYPE_INT64 && indices.shape.n_dims == 1
      && (indices.data != NULL || indices.shape.dims[0] == 0))
    return TRUE;
  got = tps_shape_to_string (&indices.shape);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s: %s, expected a vector of INT64", what,
                   got);
}

/* -- queries -- */

static gboolean
refuse_max (const TpsBagQuery *query, const gchar *what, GError **error)
{
  if (query->pooling != TPS_POOLING_MAX)
    return TRUE;
  return tps_fail (
      error, TPS_ERROR_INVALID_ARGUMENT,
      "%s.pooling: servers do not pool with MAX; the C and Python clients do, and any "
      "other client must look up the rows of the bags (lookup_rows) and push gradients of "
      "the rows that hold the maxima (apply_row_gradients)",
      what);
}

gboolean
tps_open_query_init (TpsOpenQuery *open, TpsTableStore *store, const TpsBagQuery *query,
                     const gchar *what, GError **error)
{
  g_autofree gchar *where = NULL;

  if (!tps_bag_query_check (query, what, error) || !refuse_max (query, what, error))
    return FALSE;
  open->table = tps_table_store_ref_table (store, query->table, error);
  if (open->table == NULL)
    {
      g_prefix_error (error, "%s.", what);
      return FALSE;
    }
  where = g_strconcat (what, ".indices", NULL);
  if (!tps_table_slots_init (&open->slots, open->table, query->indices, where, store->scratch,
                             error))
    return FALSE;
  open->bags = (TpsTableBags) {
    .table = open->table,
    .slots = open->slots.slots,
    .base = open->slots.base,
    .n_indices = (gsize) query->indices.shape.dims[0],
    .offsets = query->offsets.data,
    .n_bags = (gsize) query->offsets.shape.dims[0],
    .weights = query->weights.shape.dtype != 0 ? query->weights.data : NULL,
    .pooling = query->pooling,
  };
  return TRUE;
}

void
tps_open_query_clear (TpsOpenQuery *open)
{
  tps_table_slots_clear (&open->slots);
  g_clear_pointer (&open->table, tps_table_unref);
}

gboolean
tps_table_store_count_rows (TpsTableStore *store, const TpsTableBags *bags, gsize *n_bytes,
                            GError **error)
{
  gsize max_bytes = store->max_row_bytes_of_call;
  gsize row_bytes = bags->table->dim * tps_dtype_size (bags->table->spec.dtype);
  gsize n_more;

  if (!__builtin_mul_overflow (bags->n_indices, row_bytes, &n_more)
      && !__builtin_add_overflow (*n_bytes, n_more, n_bytes) && *n_bytes <= max_bytes)
    return TRUE;
  return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "%" G_GSIZE_FORMAT
                   " rows of table %s: the rows of one call may have at most %" G_GSIZE_FORMAT
                   " bytes in total (--max-call-row-mib); split the call",
                   bags->n_indices, bags->table->spec.name, max_bytes);
}

gint64
tps_table_store_get_elapsed_ns (gint64 began_ns)
{
  gint64 elapsed_ns;

  if (began_ns == 0)
    return -1;
  elapsed_ns = tps_clock_now_ns () - began_ns;
  return MAX (elapsed_ns, 0);
}
