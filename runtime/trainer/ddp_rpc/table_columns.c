/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/ddp_rpc/table_columns.h"

#include <string.h>

gboolean
tps_table_columns_init (TpsTableColumns *columns, TpsStream *stream, guint n_tables, gint64 dim,
                        gint64 max_bags, GError **error)
{
  TpsDevice *device = stream->device;
  TpsShape shape = { .dtype = TPS_DTYPE_FLOAT32,
                     .n_dims = 2,
                     .dims = { max_bags, n_tables * dim } };

  *columns = (TpsTableColumns) {
    .stream = stream,
    .n_tables = n_tables,
    .dim = (gsize) dim,
    .max_bags = (gsize) max_bags,
  };
  tps_tensor_init (&columns->slices, &shape);
  if (!tps_staged_tensor_init (&columns->input, device, &shape, error))
    return FALSE;
  if (!device->is_host)
    columns->gradient = device->ops->alloc_host (device, tps_shape_n_bytes (&shape), error);
  return device->is_host || columns->gradient != NULL;
}

void
tps_table_columns_clear (TpsTableColumns *columns)
{
  if (columns->stream != NULL)
    columns->stream->device->ops->stream_sync (columns->stream, NULL);
  tps_staged_tensor_clear (&columns->input);
  g_clear_pointer (&columns->gradient, tps_buffer_unref);
  tps_tensor_clear (&columns->slices);
}

static gsize
get_n_bytes (const TpsTableColumns *columns, gsize n_bags)
{
  return n_bags * columns->n_tables * columns->dim * sizeof (gfloat);
}

static void
concatenate (TpsTableColumns *columns, const TpsTensor *tables, gsize n_bags)
{
  gfloat *input = tps_tensor_data (&columns->input.host);
  gsize dim = columns->dim;

  for (gsize t = 0; t < columns->n_tables; t++)
    {
      const gfloat *rows = tps_tensor_data (&tables[t]);

      for (gsize bag = 0; bag < n_bags; bag++)
        memcpy (input + (bag * columns->n_tables + t) * dim, rows + bag * dim, dim * sizeof *rows);
    }
}

void
tps_table_columns_join (TpsTableColumns *columns, TpsTensor *rows, gsize n_bags, TpsTensor *input)
{
  TpsStream *stream = columns->stream;
  gsize n_bytes = get_n_bytes (columns, n_bags);

  if (columns->n_tables == 1 && stream->device->is_host)
    {
      tps_tensor_move (input, &rows[0]);
      return;
    }
  tps_tensor_init_ref (input, &columns->input.device);
  if (columns->n_tables == 1)
    {
      stream->device->ops->copy (stream, tps_tensor_data (input), tps_tensor_data (&rows[0]),
                                 n_bytes);
      return;
    }
  concatenate (columns, rows, n_bags);
  tps_staged_tensor_upload (&columns->input, stream, n_bytes);
}

/* Returns the table's columns of the gradient as contiguous rows. */
static const gfloat *
slice (TpsTableColumns *columns, gsize table, const gfloat *gradient, gsize n_bags)
{
  gsize dim = columns->dim;
  gfloat *rows = (gfloat *) tps_tensor_data (&columns->slices) + table * dim * columns->max_bags;

  for (gsize bag = 0; bag < n_bags; bag++)
    memcpy (rows + bag * dim, gradient + (bag * columns->n_tables + table) * dim,
            dim * sizeof *rows);
  return rows;
}

gboolean
tps_table_columns_split (TpsTableColumns *columns, const gfloat *gradient, gsize n_bags,
                         const gfloat **rows, GError **error)
{
  const TpsDeviceOps *ops = columns->stream->device->ops;

  if (columns->gradient != NULL)
    {
      gpointer copy = tps_buffer_get_data (columns->gradient);

      ops->copy (columns->stream, copy, gradient, get_n_bytes (columns, n_bags));
      if (!ops->stream_sync (columns->stream, error))
        return FALSE;
      gradient = copy;
    }
  for (gsize t = 0; t < columns->n_tables; t++)
    rows[t] = columns->n_tables == 1 ? gradient : slice (columns, t, gradient, n_bags);
  return TRUE;
}
