/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parts of all servers are sorted by table name and by their position in the table. Each run of
 * equal names must be one complete table: all shards of a hash, or consecutive ranges from the
 * first row to the last. */

#include <string.h>

#include "plugin/client/tables/placed_table.h"
#include "runtime/base/error.h"

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

static GArray *
sort_parts (const TpsTableSpecs *lists, guint n_servers)
{
  GArray *parts = g_array_new (FALSE, FALSE, sizeof (Part));

  for (guint server = 0; server < n_servers; server++)
    for (guint i = 0; i < lists[server].n_specs; i++)
      {
        Part part = { &lists[server].specs[i], server };

        g_array_append_val (parts, part);
      }
  g_array_sort (parts, compare_parts);
  return parts;
}

static gboolean G_GNUC_PRINTF (3, 4)
    refuse (const Run *run, GError **error, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "table %s: %s",
               run->parts[0].spec->name, text);
  return FALSE;
}

/* Returns a difference that is not in the position or the size of the parts; NULL = none. */
static gchar *
dup_difference (const TpsTableSpec *a, const TpsTableSpec *b)
{
  TpsTableSpec other = *b;

  other.place = a->place;
  if (a->shard.kind == b->shard.kind && a->shard.rows == b->shard.rows
      && a->shard.count == b->shard.count)
    other.shard = a->shard;
  return tps_table_spec_dup_difference (a, &other);
}

static gboolean
check_parts_agree (const Run *run, GError **error)
{
  const Part *first = &run->parts[0];

  for (guint i = 1; i < run->n_parts; i++)
    {
      const Part *part = &run->parts[i];
      const gchar *here = run->servers[first->server], *there = run->servers[part->server];
      g_autofree gchar *difference = dup_difference (first->spec, part->spec);

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
  TpsPlacedTable *table = tps_placed_table_new (run->parts[0].spec, first->kind, run->n_parts);

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

static TpsPlacedTable *
assemble (const Run *run, GError **error)
{
  TpsShardKind kind = run->parts[0].spec->shard.kind;

  if (!check_parts_agree (run, error) || (kind == TPS_SHARD_HASH && !check_all_hashes (run, error))
      || (kind == TPS_SHARD_RANGE && !check_all_ranges (run, error)))
    return NULL;
  return place (run);
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
  g_autoptr (GArray) parts = sort_parts (lists, n_servers);
  g_autoptr (GPtrArray) tables = NULL;

  tables = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_placed_table_unref);
  for (guint first = 0; first < parts->len;)
    {
      Run run = { &g_array_index (parts, Part, first), run_length (parts, first), servers };
      TpsPlacedTable *table = assemble (&run, error);

      if (table == NULL)
        return NULL;
      g_ptr_array_add (tables, table);
      first += run.n_parts;
    }
  return g_steal_pointer (&tables);
}
