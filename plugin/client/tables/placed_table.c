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

/* Creates a table whose `servers` and `begins` are zero; the caller must fill them in. `spec` must
 * be resolved, and is copied. The caller owns a reference. */
static TpsPlacedTable *
table_new (const TpsTableSpec *spec, TpsShardKind kind, guint n_shards)
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
  TpsPlacedTable *table = table_new (spec, TPS_SHARD_WHOLE, 1);

  table->servers[0] = server;
  return table;
}

TpsPlacedTable *
tps_placed_table_new_dealt (const TpsTableSpec *spec, TpsShardKind kind, guint n_servers)
{
  gint64 rows = spec->shard.rows;
  guint n_shards = (guint) MIN ((gint64) n_servers, rows);
  TpsPlacedTable *table = table_new (spec, kind, n_shards);

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
      return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                       "%s[%" G_GSIZE_FORMAT "]: %" G_GINT64_FORMAT
                       " is not in [0, %" G_GINT64_FORMAT ") of table %s",
                       name, i, rows[i], (gint64) end, table->spec.name);
  return TRUE;
}

/* ---- assembly ------------------------------------------------------------------------------- */

/* The parts of all servers are sorted by table name and by their position in the table. Each run of
 * equal names must be one complete table: all shards of a hash, or consecutive ranges from the
 * first row to the last. */

typedef struct
{
  const TpsTableSpec *spec;
  guint server;
} Part;

typedef struct
{
  const Part *parts; /* of one table */
  guint n_parts;
  const gchar *const *servers;
} Run;

static gint64
place_of (const TpsShard *shard)
{
  return shard->kind == TPS_SHARD_HASH ? shard->index : shard->first_row;
}

static gint
compare_parts (gconstpointer a, gconstpointer b)
{
  const Part *left = a, *right = b;
  gint order = strcmp (left->spec->name, right->spec->name);
  gint64 left_place = place_of (&left->spec->shard), right_place = place_of (&right->spec->shard);

  if (order != 0)
    return order;
  if (left_place != right_place)
    return left_place < right_place ? -1 : 1;
  /* Parts without rows may share the position of a part with rows, and come before it. */
  return (left->spec->shard.n_rows > 0) - (right->spec->shard.n_rows > 0);
}

static gboolean G_GNUC_PRINTF (3, 4)
    refuse (const Run *run, GError **error, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "table %s: %s", run->parts[0].spec->name,
                   text);
}

static gboolean
check_parts_agree (const Run *run, GError **error)
{
  const Part *first = &run->parts[0];

  for (guint i = 1; i < run->n_parts; i++)
    {
      const Part *part = &run->parts[i];
      const gchar *here = run->servers[first->server], *there = run->servers[part->server];
      TpsTableSpec other = *part->spec;
      g_autofree gchar *difference = NULL;

      /* The position and the size of the parts may differ. */
      other.place = first->spec->place;
      if (other.shard.kind == first->spec->shard.kind && other.shard.rows == first->spec->shard.rows
          && other.shard.count == first->spec->shard.count)
        other.shard = first->spec->shard;
      difference = tps_table_spec_dup_difference (first->spec, &other);
      if (first->spec->shard.kind == TPS_SHARD_WHOLE && part->spec->shard.kind == TPS_SHARD_WHOLE)
        return refuse (run, error, "it is whole on server %u (%s) and on server %u (%s)",
                       first->server, here, part->server, there);
      if (difference != NULL)
        return refuse (run, error,
                       "server %u (%s) and server %u (%s) hold parts of different tables: %s",
                       first->server, here, part->server, there, difference);
    }
  return TRUE;
}

static gboolean
check_all_hashes (const Run *run, GError **error)
{
  gint32 count = run->parts[0].spec->shard.count;

  for (gint32 i = 0; i < count; i++)
    {
      gint32 index = (guint) i < run->n_parts ? run->parts[i].spec->shard.index : G_MAXINT32;

      if (index > i)
        return refuse (run, error, "no server has shard %d of %d", i, count);
      if (index < i)
        return refuse (run, error, "several servers have shard %d of %d", index, count);
    }
  if (run->n_parts > (guint) count)
    return refuse (run, error, "several servers have shard %d of %d", count - 1, count);
  return TRUE;
}

static gboolean
check_all_ranges (const Run *run, GError **error)
{
  gint64 rows = run->parts[0].spec->shard.rows;
  gint64 row = 0;

  for (guint i = 0; i < run->n_parts; i++)
    {
      const TpsShard *shard = &run->parts[i].spec->shard;

      if (shard->first_row > row)
        return refuse (run, error, "no server has rows %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT,
                       row, shard->first_row - 1);
      if (shard->first_row < row)
        return refuse (run, error, "several servers have row %" G_GINT64_FORMAT, shard->first_row);
      row += shard->n_rows;
    }
  if (row < rows)
    return refuse (run, error, "no server has rows %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, row,
                   rows - 1);
  return TRUE;
}

static TpsPlacedTable *
place (const Run *run)
{
  const TpsShard *first = &run->parts[0].spec->shard;
  TpsPlacedTable *table = table_new (run->parts[0].spec, first->kind, run->n_parts);

  table->spec.bytes = 0;
  for (guint i = 0; i < run->n_parts; i++)
    {
      table->servers[i] = run->parts[i].server;
      table->spec.bytes += run->parts[i].spec->bytes;
      if (table->begins != NULL)
        table->begins[i] = run->parts[i].spec->shard.first_row;
    }
  if (table->begins != NULL)
    table->begins[run->n_parts] = first->rows;
  return table;
}

static guint
run_length (const GArray *parts, guint first)
{
  const gchar *name = g_array_index (parts, Part, first).spec->name;
  guint n = 1;

  while (first + n < parts->len
         && strcmp (g_array_index (parts, Part, first + n).spec->name, name) == 0)
    n++;
  return n;
}

GPtrArray *
tps_placed_tables_assemble (const TpsTableSpecs *lists, const gchar *const *servers,
                            guint n_servers, GError **error)
{
  g_autoptr (GArray) parts = g_array_new (FALSE, FALSE, sizeof (Part));
  g_autoptr (GPtrArray) tables = NULL;

  for (guint server = 0; server < n_servers; server++)
    for (guint i = 0; i < lists[server].n_specs; i++)
      {
        Part part = { &lists[server].specs[i], server };

        g_array_append_val (parts, part);
      }
  g_array_sort (parts, compare_parts);
  tables = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_placed_table_unref);
  for (guint first = 0; first < parts->len;)
    {
      Run run = { &g_array_index (parts, Part, first), run_length (parts, first), servers };
      TpsShardKind kind = run.parts[0].spec->shard.kind;

      if (!check_parts_agree (&run, error)
          || (kind == TPS_SHARD_HASH && !check_all_hashes (&run, error))
          || (kind == TPS_SHARD_RANGE && !check_all_ranges (&run, error)))
        return NULL;
      g_ptr_array_add (tables, place (&run));
      first += run.n_parts;
    }
  return g_steal_pointer (&tables);
}
