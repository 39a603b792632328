/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A device accepts rows only together with their state and LSNs. Therefore, each piece of rows is
 * read from all tensors before the next piece. */

#include "runtime/server/snapshot/device_table_file.h"

#include <string.h>

#include "runtime/server/snapshot/spec_json.h"

typedef struct
{
  TpsTable *table;
  TpsSafetensorsReader *file;
  TpsSafetensorStream lsns, weight, states[TPS_STATE_MAX_PARTS];
  guint n_parts;
  TpsStatePart parts[TPS_STATE_MAX_PARTS];
  TpsTableCopy copy;
  gfloat *columns; /* one part of the state, for the rows of a piece */
} Reading;

static gboolean
begin_stream (Reading *reading, TpsSafetensorStream *stream, const gchar *what, const gchar *dtype,
              gsize n_columns, GError **error)
{
  const TpsTableSpec *spec = &reading->table->spec;
  g_autofree gchar *name = g_strconcat (spec->name, ".", what, NULL);
  gint64 dims[2] = { spec->shard.n_rows, (gint64) n_columns };
  const TpsSafetensor *tensor = tps_safetensors_reader_require (reading->file, name, dtype,
                                                                n_columns > 0 ? 2 : 1, dims, error);

  if (tensor != NULL)
    tps_safetensor_stream_init (stream, reading->file, tensor);
  return tensor != NULL;
}

static gboolean
begin_streams (Reading *reading, GError **error)
{
  const TpsTable *table = reading->table;

  for (guint i = 0; i < reading->n_parts; i++)
    {
      g_autofree gchar *what = g_strconcat ("state.", reading->parts[i].name, NULL);

      if (!begin_stream (reading, &reading->states[i], what, "F32", reading->parts[i].n_columns,
                         error))
        return FALSE;
    }
  return begin_stream (reading, &reading->lsns, "lsn", "I64", 0, error)
         && begin_stream (reading, &reading->weight, "weight",
                          tps_safetensors_dtype (table->spec.dtype), table->dim, error);
}

static gboolean
read_state (Reading *reading, gsize n, GError **error)
{
  gsize n_floats = reading->table->state_per_row;
  gsize first = 0;

  for (guint i = 0; i < reading->n_parts; i++)
    {
      gsize n_columns = reading->parts[i].n_columns;

      if (!tps_safetensor_stream_read (&reading->states[i], reading->columns,
                                       n * n_columns * sizeof (gfloat), error))
        return FALSE;
      for (gsize row = 0; row < n; row++)
        memcpy (reading->copy.state + row * n_floats + first, reading->columns + row * n_columns,
                n_columns * sizeof (gfloat));
      first += n_columns;
    }
  return TRUE;
}

static gboolean
read_piece (Reading *reading, gsize slot, gsize n, GError **error)
{
  TpsTable *table = reading->table;
  const TpsTableCopy *copy = &reading->copy;

  return read_state (reading, n, error)
         && tps_safetensor_stream_read (&reading->lsns, copy->lsns, n * sizeof (gint64), error)
         && tps_safetensor_stream_read (&reading->weight, copy->rows, n * table->row_bytes, error)
         && tps_table_fill_rows (table, slot, n, copy, error);
}

static gboolean
read_pieces (Reading *reading, TpsSnapshotPace *pace, GError **error)
{
  const TpsTable *table = reading->table;
  gsize n_rows = (gsize) table->spec.shard.n_rows;
  gsize max_rows = tps_table_get_max_copied_rows (table);
  gsize row_bytes = table->row_bytes + table->state_per_row * sizeof (gfloat) + sizeof (gint64);

  for (gsize slot = 0, n; slot < n_rows; slot += n)
    {
      n = MIN (max_rows, n_rows - slot);
      if (!read_piece (reading, slot, n, error) || !tps_snapshot_pace (pace, n * row_bytes, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
tps_device_table_file_read (TpsTable *table, TpsSafetensorsReader *file, TpsSnapshotPace *pace,
                            GError **error)
{
  gsize n = tps_table_get_max_copied_rows (table);
  g_autofree guint8 *rows = g_malloc (n * table->row_bytes);
  g_autofree gfloat *state = g_new (gfloat, n * table->state_per_row + 1);
  g_autofree gfloat *columns = g_new (gfloat, n * table->state_per_row + 1);
  g_autofree gint64 *lsns = g_new (gint64, n);
  Reading reading = {
    .table = table, .file = file, .copy = { rows, state, lsns }, .columns = columns
  };

  reading.n_parts = tps_state_get_parts (&table->spec.optimizer, table->dim, reading.parts);
  return begin_streams (&reading, error) && read_pieces (&reading, pace, error);
}
