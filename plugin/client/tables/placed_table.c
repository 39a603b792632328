/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/tables/placed_table.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* The counter is separate, because its type exists only in C, but C++ code includes the header. */
typedef struct
{
  TpsPlacedTable table;
  TpsRefcount refcount;
} CountedTable;

TpsPlacedTable *
tps_placed_table_new (const TpsTableSpec *spec, TpsShardKind kind, guint n_shards)
{
  CountedTable *counted = g_new0 (CountedTable, 1);
  TpsPlacedTable *table = &counted->table;

  tps_refcount_init (&counted->refcount);
  tps_table_spec_copy (&table->spec, spec);
  tps_shard_init_whole (&table->spec.shard, spec->shard.rows);
  table->kind = kind;
  table->n_shards = n_shards;
  table->servers = g_new0 (guint, n_shards);
  if (kind == TPS_SHARD_RANGE)
    table->begins = g_new0 (gint64, n_shards + 1);
  return table;
}

TpsPlacedTable *
tps_placed_table_new_whole (const TpsTableSpec *spec, guint server)
{
  TpsPlacedTable *table = tps_placed_table_new (spec, TPS_SHARD_WHOLE, 1);

  table->servers[0] = server;
  return table;
}

TpsPlacedTable *
tps_placed_table_new_dealt (const TpsTableSpec *spec, TpsShardKind kind, guint n_servers)
{
  gint64 rows = spec->shard.rows;
  guint n_shards = (guint) MIN ((gint64) n_servers, rows);
  TpsPlacedTable *table = tps_placed_table_new (spec, kind, n_shards);

  for (guint i = 0; i < n_shards; i++)
    table->servers[i] = i;
  for (guint i = 0; kind == TPS_SHARD_RANGE && i <= n_shards; i++)
    table->begins[i] = tps_shard_range_begin (rows, (gint32) i, (gint32) n_shards);
  return table;
}

TpsPlacedTable *
tps_placed_table_ref (TpsPlacedTable *table)
{
  tps_refcount_inc (&((CountedTable *) table)->refcount);
  return table;
}

void
tps_placed_table_unref (TpsPlacedTable *table)
{
  if (!tps_refcount_dec (&((CountedTable *) table)->refcount))
    return;
  tps_table_spec_clear (&table->spec);
  g_free (table->servers);
  g_free (table->begins);
  g_free (table);
}

void
tps_placed_table_init_part (const TpsPlacedTable *table, guint shard, TpsTableSpec *part)
{
  gint64 rows = table->spec.shard.rows;
  gboolean is_valid = TRUE;

  tps_table_spec_copy (part, &table->spec);
  part->bytes = 0;
  if (table->kind == TPS_SHARD_RANGE)
    is_valid = tps_shard_init_range (&part->shard, rows, table->begins[shard],
                                     table->begins[shard + 1] - table->begins[shard], NULL);
  else if (table->kind == TPS_SHARD_HASH)
    is_valid = tps_shard_init_hash (&part->shard, rows, (gint32) shard, (gint32) table->n_shards,
                                    NULL);
  g_assert (is_valid);
}

/* Starts at the shard that would have the row if all shards had the same length, and then tries its
 * neighbours. */
static void
find_ranges (const TpsPlacedTable *table, const gint64 *rows, gsize n_rows, guint *shards)
{
  gdouble shards_per_row = (gdouble) table->n_shards / (gdouble) table->spec.shard.rows;

  for (gsize i = 0; i < n_rows; i++)
    {
      guint shard = MIN ((guint) ((gdouble) rows[i] * shards_per_row), table->n_shards - 1);

      while (rows[i] < table->begins[shard])
        shard--;
      while (rows[i] >= table->begins[shard + 1])
        shard++;
      shards[i] = shard;
    }
}

void
tps_placed_table_find_shards (const TpsPlacedTable *table, const gint64 *rows, gsize n_rows,
                              guint *shards)
{
  if (table->n_shards == 1)
    {
      if (n_rows > 0)
        memset (shards, 0, n_rows * sizeof shards[0]);
      return;
    }
  if (table->kind == TPS_SHARD_RANGE)
    {
      find_ranges (table, rows, n_rows, shards);
      return;
    }
  for (gsize i = 0; i < n_rows; i++)
    shards[i] = (guint) (tps_shard_permute (rows[i], table->spec.shard.rows)
                         % (gint64) table->n_shards);
}

gboolean
tps_placed_table_check_rows (const TpsPlacedTable *table, const gint64 *rows, gsize n_rows,
                             const gchar *name, GError **error)
{
  guint64 end = (guint64) table->spec.shard.rows; /* as unsigned, a negative row exceeds it, too */
  guint is_bad = FALSE;

  for (gsize i = 0; i < n_rows; i++)
    is_bad |= (guint64) rows[i] >= end;
  for (gsize i = 0; is_bad && i < n_rows; i++)
    if ((guint64) rows[i] >= end)
      {
        g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                     "%s[%" G_GSIZE_FORMAT "]: %" G_GINT64_FORMAT " is not in [0, %" G_GINT64_FORMAT
                     ") of table %s",
                     name, i, rows[i], (gint64) end, table->spec.name);
        return FALSE;
      }
  return TRUE;
}
