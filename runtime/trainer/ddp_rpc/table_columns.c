/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/ddp_rpc/table_columns.h"

#include <string.h>

#include "runtime/device/device_memory.h"

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
  if (device->is_host)
    return TRUE;
  columns->gradient = device->ops->alloc_host (device, tps_shape_n_bytes (&shape), error);
  if (columns->gradient != NULL)
    columns->joined = device->ops->event_new (device, error);
  return columns->joined != NULL;
}

void
tps_table_columns_clear (TpsTableColumns *columns)
{
  if (columns->stream != NULL)
    columns->stream->device->ops->stream_sync (columns->stream, NULL);
  if (columns->joined != NULL)
    columns->joined->device->ops->event_free (columns->joined);
  columns->joined = NULL;
  tps_staged_tensor_clear (&columns->input);
  g_clear_pointer (&columns->gradient, tps_buffer_unref);
  tps_tensor_clear (&columns->slices);
}

static gsize
get_n_bytes (const TpsTableColumns *columns, gsize n_bags)
{
  return n_bags * columns->n_tables * columns->dim * sizeof (gfloat);
}

/* Copies the rows of `n` tables from `first` on, in host memory, to their columns of the matrix in
 * host memory. */
static void
concatenate (TpsTableColumns *columns, const TpsTensor *tables, gsize first, gsize n, gsize n_bags)
{
  gfloat *input = tps_tensor_data (&columns->input.host);
  gsize dim = columns->dim;

  for (gsize t = first; t < first + n; t++)
    {
      const gfloat *rows = tps_tensor_data (&tables[t]);

      for (gsize bag = 0; bag < n_bags; bag++)
        memcpy (input + (bag * columns->n_tables + t) * dim, rows + bag * dim, dim * sizeof *rows);
    }
}

/* Enqueues a copy of the columns of `n` tables from `first` on to the matrix on the device. Rows of
 * `from` are `from_stride` bytes apart. */
static void
copy_columns (TpsTableColumns *columns, gsize first, gsize n, gsize n_bags, const gfloat *from,
              gsize from_stride)
{
  gfloat *to = (gfloat *) tps_tensor_data (&columns->input.device) + first * columns->dim;
  TpsStream *stream = columns->stream;

  stream->device->ops->copy_rows (stream, to, get_n_bytes (columns, 1), from, from_stride,
                                  n * columns->dim * sizeof *to, n_bags);
}

/* Returns the number of successive tables from `first` on whose rows lie in host memory. */
static gsize
count_on_host (const TpsTableColumns *columns, const TpsTensor *tables, gsize first)
{
  gsize t = first;

  while (t < columns->n_tables && tps_device_memory_of_tensor (&tables[t]) == NULL)
    t++;
  return t - first;
}

/* Enqueues one copy for each table whose rows lie on the device, and one copy for each run of
 * tables whose rows lie on the host. */
static void
join_on_device (TpsTableColumns *columns, const TpsTensor *tables, gsize n_bags)
{
  gsize dim = columns->dim, n;

  for (gsize t = 0; t < columns->n_tables; t += n)
    {
      const gfloat *host = (const gfloat *) tps_tensor_data (&columns->input.host) + t * dim;

      n = count_on_host (columns, tables, t);
      concatenate (columns, tables, t, n, n_bags);
      if (n == columns->n_tables)
        tps_staged_tensor_upload (&columns->input, columns->stream, get_n_bytes (columns, n_bags));
      else if (n > 0)
        copy_columns (columns, t, n, n_bags, host, get_n_bytes (columns, 1));
      else
        {
          n = 1;
          copy_columns (columns, t, n, n_bags, tps_tensor_data (&tables[t]), dim * sizeof *host);
        }
    }
}

void
tps_table_columns_join (TpsTableColumns *columns, TpsTensor *rows, gsize n_bags, TpsTensor *input)
{
  TpsStream *stream = columns->stream;
  const TpsDeviceOps *ops = stream->device->ops;

  if (columns->n_tables == 1 && stream->device->is_host)
    {
      tps_tensor_move (input, &rows[0]);
      return;
    }
  tps_tensor_init_ref (input, &columns->input.device);
  if (stream->device->is_host)
    concatenate (columns, rows, 0, columns->n_tables, n_bags);
  else if (columns->n_tables == 1)
    ops->copy (stream, tps_tensor_data (input), tps_tensor_data (&rows[0]),
               get_n_bytes (columns, n_bags));
  else
    join_on_device (columns, rows, n_bags);
  if (columns->joined != NULL)
    ops->event_record (columns->joined, stream);
}

void
tps_table_columns_release (TpsTableColumns *columns, TpsTensor *rows)
{
  if (columns->joined != NULL)
    columns->joined->device->ops->event_sync (columns->joined, NULL);
  for (guint t = 0; t < columns->n_tables; t++)
    tps_tensor_clear (&rows[t]);
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
