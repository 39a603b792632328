/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/tables/row_split.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/device/device_memory.h"

/* Creates the parts, each with room for its rows, and sets numbers[shard] to the part of the
 * shard. */
static void
init_parts (TpsRowSplit *split, const gsize *counts, gboolean all_shards, guint *numbers)
{
  guint n_shards = split->table->n_shards;
  gsize first = 0;

  split->parts = g_new0 (TpsRowPart, n_shards);
  split->indices = g_new (gint64, split->n_rows);
  split->positions = g_new (gsize, split->n_rows);
  for (guint shard = 0; shard < n_shards; shard++)
    {
      TpsRowPart *part = &split->parts[split->n_parts];

      if (counts[shard] == 0 && !all_shards)
        continue;
      numbers[shard] = split->n_parts++;
      part->shard = shard;
      part->indices.shape = (TpsShape) { .dtype = TPS_DTYPE_INT64, .n_dims = 1 };
      part->indices.data = split->indices + first;
      part->positions = split->positions + first;
      first += counts[shard];
    }
}

static void
deal (TpsRowSplit *split, TpsTensorView indices, gboolean all_shards)
{
  const gint64 *rows = indices.data;
  guint n_shards = split->table->n_shards;
  g_autofree guint *shard_of = g_new (guint, split->n_rows);
  g_autofree gsize *counts = g_new0 (gsize, n_shards);
  g_autofree guint *numbers = g_new0 (guint, n_shards);

  tps_placed_table_find_shards (split->table, rows, split->n_rows, shard_of);
  for (gsize i = 0; i < split->n_rows; i++)
    counts[shard_of[i]]++;
  init_parts (split, counts, all_shards, numbers);
  for (gsize i = 0; i < split->n_rows; i++)
    {
      TpsRowPart *part = &split->parts[numbers[shard_of[i]]];
      gsize n = (gsize) part->indices.shape.dims[0]++;
      gsize first = (gsize) (part->positions - split->positions);

      split->indices[first + n] = rows[i];
      part->positions[n] = i;
    }
}

void
tps_row_split_init (TpsRowSplit *split, TpsPlacedTable *table, TpsTensorView indices,
                    gboolean all_shards)
{
  *split = (TpsRowSplit) {
    .table = tps_placed_table_ref (table),
    .n_rows = (gsize) indices.shape.dims[0],
  };
  if (table->n_shards > 1)
    {
      deal (split, indices, all_shards);
      return;
    }
  split->n_parts = 1;
  split->parts = g_new0 (TpsRowPart, 1);
  split->parts[0].indices = indices;
}

void
tps_row_split_clear (TpsRowSplit *split)
{
  for (guint i = 0; i < split->n_parts; i++)
    tps_tensor_clear (&split->parts[i].answer);
  g_clear_pointer (&split->table, tps_placed_table_unref);
  g_clear_pointer (&split->parts, g_free);
  g_clear_pointer (&split->indices, g_free);
  g_clear_pointer (&split->positions, g_free);
  split->n_parts = 0;
}

static TpsShape
rows_shape (const TpsRowSplit *split, gint64 n_rows)
{
  return (TpsShape) {
    .dtype = split->table->spec.dtype,
    .n_dims = 2,
    .dims = { n_rows, split->table->spec.dim },
  };
}

/* Returns TRUE if one part has all rows, in their order. */
static gboolean
is_whole (const TpsRowSplit *split)
{
  return split->n_parts == 1 && split->parts[0].indices.shape.dims[0] == (gint64) split->n_rows;
}

gboolean
tps_row_split_take_answer (TpsRowSplit *split, guint number, TpsTensor *answer, GError **error)
{
  TpsRowPart *part = &split->parts[number];
  TpsShape expected = rows_shape (split, part->indices.shape.dims[0]);
  g_autofree gchar *got = NULL, *wanted = NULL;

  if (tps_shape_equal (&answer->shape, &expected))
    {
      if (!is_whole (split) && tps_device_memory_of_tensor (answer) != NULL)
        return tps_device_memory_download (&part->answer, answer, error);
      tps_tensor_move (&part->answer, answer);
      return TRUE;
    }
  got = tps_shape_to_string (&answer->shape);
  wanted = tps_shape_to_string (&expected);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "rows of table %s are %s, expected %s",
                   split->table->spec.name, got, wanted);
}

void
tps_row_split_merge (TpsRowSplit *split, TpsTensor *rows)
{
  TpsShape shape = rows_shape (split, (gint64) split->n_rows);
  gsize row_bytes = (gsize) shape.dims[1] * tps_dtype_size (shape.dtype);
  guint8 *to;

  if (is_whole (split))
    {
      tps_tensor_move (rows, &split->parts[0].answer);
      return;
    }
  tps_tensor_init (rows, &shape);
  to = tps_tensor_data (rows);
  for (guint p = 0; p < split->n_parts; p++)
    {
      const TpsRowPart *part = &split->parts[p];
      const guint8 *from = tps_tensor_data (&part->answer);

      for (gint64 i = 0; i < part->indices.shape.dims[0]; i++, from += row_bytes)
        memcpy (to + part->positions[i] * row_bytes, from, row_bytes);
    }
}

void
tps_row_split_gather (const TpsRowSplit *split, guint number, TpsTensorView values,
                      TpsTensor *gathered)
{
  const TpsRowPart *part = &split->parts[number];
  gsize row_bytes = (gsize) values.shape.dims[1] * tps_dtype_size (values.shape.dtype);
  TpsShape shape = values.shape;
  guint8 *to;

  if (part->positions == NULL)
    {
      tps_tensor_init_borrowed (gathered, values);
      return;
    }
  shape.dims[0] = part->indices.shape.dims[0];
  tps_tensor_init (gathered, &shape);
  to = tps_tensor_data (gathered);
  for (gint64 row = 0; row < shape.dims[0]; row++, to += row_bytes)
    memcpy (to, (const guint8 *) values.data + part->positions[row] * row_bytes, row_bytes);
}
