/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Rows are copied in pieces, each row with its state and LSN as they were at one moment. The parts
 * of a piece are appended to different tensors, so all tensors of the file grow at the same time.
 * An increment has some of the rows, with their ids.
 *
 * A device accepts rows only together with their state and LSNs. Therefore, each piece of rows is
 * read from all tensors before the next piece. */

#include "runtime/server/snapshot/table_file.h"

#include <string.h>

#include "runtime/server/snapshot/populate.h"
#include "runtime/server/snapshot/snapshot_io.h"
#include "runtime/server/snapshot/spec_json.h"
#include "runtime/server/tables/table_snapshot.h"
#include "runtime/base/error.h"
#include "runtime/base/planted_bug.h"

#define READ_BYTES ((gsize) 4 << 20)
#define NO_TENSOR G_MAXUINT

typedef struct
{
  TpsTable *table;
  gint64 n_steps;
  gsize n_rows; /* of the file */
  /* [n_rows of the shard / 8]: bits of the rows of an increment; NULL = all rows. */
  const guint8 *changed;
  TpsSafetensorsWriter *file;
  guint n_parts;
  TpsStatePart parts[TPS_STATE_MAX_PARTS];
  guint lsns, row_ids, weight; /* numbers of tensors */
  guint states[TPS_STATE_MAX_PARTS];
  TpsTableCopy copy;
  gfloat *columns; /* [n, n_columns]: a part of the state of `n` rows */
  gint64 *ids;
} Writing;

/* The state of reading an increment. Each piece of rows is read from all tensors before the next
 * piece. */
typedef struct
{
  TpsTable *table;
  TpsSafetensorStream ids, lsns, weight, states[TPS_STATE_MAX_PARTS];
  guint n_parts;
  TpsStatePart parts[TPS_STATE_MAX_PARTS];
  gint64 *slots; /* [n]: of the `n` rows of the piece */
  guint8 *piece; /* the elements of one tensor for these rows */
} Reading;

typedef struct
{
  TpsTable *table;
  TpsSafetensorsReader *file;
  TpsSafetensorStream lsns, weight, states[TPS_STATE_MAX_PARTS];
  guint n_parts;
  TpsStatePart parts[TPS_STATE_MAX_PARTS];
  TpsTableCopy copy;
  gfloat *columns; /* one part of the state, for the rows of a piece */
} DeviceReading;

static gchar *
name_of (const TpsTable *table, const gchar *what)
{
  return g_strconcat (table->spec.name, ".", what, NULL);
}

static gchar *
name_of_part (const TpsTable *table, const TpsStatePart *part)
{
  return g_strconcat (table->spec.name, ".state.", part->name, NULL);
}

/* Returns the place of the first row of this shard in the tensor of all shards. Ranges are in the
 * order of the ids; hash shards follow one another by their index. */
static gint64
first_place_of (const TpsShard *shard)
{
  if (shard->kind == TPS_SHARD_RANGE)
    return shard->first_row;
  if (shard->kind != TPS_SHARD_HASH)
    return 0;
  return shard->rows / shard->count * shard->index + MIN (shard->index, shard->rows % shard->count);
}

gsize
tps_table_file_get_row_bytes (const TpsTable *table)
{
  return table->row_bytes + table->state_per_row * sizeof (gfloat) + sizeof (gint64);
}

guint64
tps_table_file_estimate (const TpsTable *table)
{
  return (guint64) table->spec.shard.n_rows * tps_table_file_get_row_bytes (table);
}

static guint
add_tensor (Writing *writing, const gchar *name, const gchar *dtype, gsize n_columns)
{
  const TpsShard *shard = &writing->table->spec.shard;
  gint64 dims[2] = { (gint64) writing->n_rows, (gint64) n_columns };
  gint64 offsets[2] = { first_place_of (shard), 0 };

  return tps_safetensors_writer_add_tensor (writing->file, name, dtype, n_columns > 0 ? 2 : 1, dims,
                                            writing->changed == NULL ? offsets : NULL);
}

static guint
add_ids (Writing *writing, const gchar *what)
{
  g_autofree gchar *name = name_of (writing->table, what);

  return add_tensor (writing, name, "I64", 0);
}

/* Adds tensors with wide elements first, so the elements of all tensors are aligned to their
 * size. */
static void
add_tensors (Writing *writing)
{
  TpsTable *table = writing->table;
  gboolean has_ids = writing->changed != NULL || table->spec.shard.kind == TPS_SHARD_HASH;
  g_autofree gchar *weight = name_of (table, "weight");
  GString *spec = g_string_new (NULL);

  tps_table_spec_append_json (spec, &table->spec);
  tps_safetensors_writer_add_metadata (writing->file, TPS_TABLE_FILE_SPEC, spec->str);
  g_string_printf (spec, "%" G_GINT64_FORMAT, writing->n_steps);
  tps_safetensors_writer_add_metadata (writing->file, TPS_TABLE_FILE_STEPS, spec->str);
  g_string_free (spec, TRUE);
  if (writing->changed != NULL)
    tps_safetensors_writer_add_metadata (writing->file, TPS_TABLE_FILE_INCREMENT, "1");
  writing->lsns = add_ids (writing, "lsn");
  writing->row_ids = has_ids ? add_ids (writing, "row_ids") : NO_TENSOR;
  writing->n_parts = tps_state_get_parts (&table->spec.optimizer, table->dim, writing->parts);
  for (guint i = 0; i < writing->n_parts; i++)
    {
      g_autofree gchar *name = name_of_part (table, &writing->parts[i]);

      writing->states[i] = add_tensor (writing, name, "F32", writing->parts[i].n_columns);
    }
  writing->weight = add_tensor (writing, weight, tps_safetensors_dtype (table->spec.dtype),
                                table->dim);
}

static const gfloat *
gather_columns (const Writing *writing, gsize n_rows, gsize first, gsize n_columns)
{
  gsize n_floats = writing->table->state_per_row;

  if (n_columns == n_floats)
    return writing->copy.state;
  for (gsize i = 0; i < n_rows; i++)
    memcpy (writing->columns + i * n_columns, writing->copy.state + i * n_floats + first,
            n_columns * sizeof (gfloat));
  return writing->columns;
}

static gboolean
append_piece (Writing *writing, gsize n)
{
  TpsTable *table = writing->table;
  TpsSafetensorsWriter *file = writing->file;
  gboolean ok = tps_safetensors_writer_append (file, writing->lsns, writing->copy.lsns,
                                               n * sizeof (gint64));
  gsize column = 0;

  if (writing->row_ids != NO_TENSOR)
    ok &= tps_safetensors_writer_append (file, writing->row_ids, writing->ids, n * sizeof (gint64));
  for (guint i = 0; i < writing->n_parts; i++)
    {
      gsize n_columns = writing->parts[i].n_columns;

      ok &= tps_safetensors_writer_append (file, writing->states[i],
                                           gather_columns (writing, n, column, n_columns),
                                           n * n_columns * sizeof (gfloat));
      column += n_columns;
    }
  return ok
         & tps_safetensors_writer_append (file, writing->weight, writing->copy.rows,
                                          n * table->row_bytes);
}

static gboolean
copy_rows (Writing *writing, gsize slot, gsize n, gsize at, GError **error)
{
  TpsTable *table = writing->table;
  const TpsTableCopy *copy = &writing->copy;
  TpsTableCopy to = { .rows = copy->rows + at * table->row_bytes,
                      .state = copy->state + at * table->state_per_row,
                      .lsns = copy->lsns + at };

  if (!tps_table_capture_rows (table, slot, n, &to, error))
    return FALSE;
  for (gsize i = 0; writing->row_ids != NO_TENSOR && i < n; i++)
    writing->ids[at + i] = tps_shard_get_row (&table->spec.shard, (gint64) (slot + i));
  return TRUE;
}

/* Returns the slot of the next row from `slot` on that must be written; if there is none, the
 * number of rows. */
static gsize
find_next (const Writing *writing, gsize slot)
{
  const guint8 *changed = writing->changed;
  gsize end = (gsize) writing->table->spec.shard.n_rows;

  while (changed != NULL && slot < end && (changed[slot / 8] >> slot % 8 & 1) == 0)
    slot += changed[slot / 8] >> slot % 8 == 0 ? 8 - slot % 8 : 1;
  return MIN (slot, end);
}

/* Returns the number of consecutive rows from `slot` on that must be written, at most `max`. */
static gsize
count_run (const Writing *writing, gsize slot, gsize max)
{
  gsize n = 0;

  max = MIN (max, (gsize) writing->table->spec.shard.n_rows - slot);
  if (writing->changed == NULL)
    return max;
  while (n < max && (writing->changed[(slot + n) / 8] >> (slot + n) % 8 & 1) != 0)
    n++;
  return n;
}

/* Copies the rows that must be written, one run after another, and appends them when a piece is
 * full. */
static gboolean
append_rows (Writing *writing, TpsSnapshotPace *pace, GError **error)
{
  TpsTable *table = writing->table;
  gsize end = (gsize) table->spec.shard.n_rows;
  gsize max_rows = tps_table_get_max_copied_rows (table);
  gsize row_bytes = tps_table_file_get_row_bytes (table);

  for (gsize slot = find_next (writing, 0), n = 0; slot < end;)
    {
      gsize n_run = count_run (writing, slot, max_rows - n);

      if (!copy_rows (writing, slot, n_run, n, error))
        return FALSE;
      tps_snapshot_held (pace, n_run * row_bytes);
      n += n_run;
      slot = find_next (writing, slot + n_run);
      if (n < max_rows && slot < end)
        continue;
      if (!append_piece (writing, n))
        return TRUE; /* finish() reports the error */
      if (!tps_snapshot_pace (pace, n * row_bytes, error))
        return FALSE;
      n = 0;
    }
  return TRUE;
}

static gboolean
provide_pieces (Writing *writing, GError **error)
{
  const TpsTable *table = writing->table;
  gsize n = MIN (tps_table_get_max_copied_rows (table), (gsize) MAX (table->spec.shard.n_rows, 1));

  writing->copy = (TpsTableCopy) {
    .rows = g_try_malloc (n * table->row_bytes),
    .state = g_try_new (gfloat, n * table->state_per_row + 1),
    .lsns = g_try_new0 (gint64, n),
  };
  writing->columns = g_try_new (gfloat, n * table->state_per_row + 1);
  writing->ids = g_try_new (gint64, n);
  if (writing->copy.rows != NULL && writing->copy.state != NULL && writing->copy.lsns != NULL
      && writing->columns != NULL && writing->ids != NULL)
    return TRUE;
  return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "table %s: no memory for a snapshot of %" G_GSIZE_FORMAT " rows at a time",
                   table->spec.name, n);
}

static void
clear_writing (Writing *writing)
{
  g_clear_pointer (&writing->file, tps_safetensors_writer_free);
  g_free (writing->copy.rows);
  g_free (writing->copy.state);
  g_free (writing->copy.lsns);
  g_free (writing->columns);
  g_free (writing->ids);
}

gboolean
tps_table_file_write (TpsTable *table, TpsDisk *disk, const gchar *path,
                      const TpsTableFileRows *rows, TpsSnapshotPace *pace, TpsManifestFile *entry,
                      GError **error)
{
  Writing writing = { .table = table,
                      .n_steps = rows->n_steps,
                      .changed = rows->changed,
                      .n_rows = rows->changed != NULL ? rows->n_changed
                                                      : (gsize) table->spec.shard.n_rows };
  gboolean ok;

  writing.file = tps_safetensors_writer_new (disk, path, error);
  if (writing.file == NULL)
    return FALSE;
  add_tensors (&writing);
  ok = provide_pieces (&writing, error) && tps_safetensors_writer_begin (writing.file, error)
       && append_rows (&writing, pace, error)
       && tps_safetensors_writer_finish (writing.file, &entry->n_bytes, &entry->header_crc32c,
                                         error);
  clear_writing (&writing);
  return ok;
}

/* Reads a tensor that has the same layout in memory as in the file. Other threads provide the pages
 * of this memory meanwhile. */
static gboolean
read_plain (TpsSafetensorsReader *file, const TpsSafetensor *tensor, guint8 *to,
            TpsSnapshotPace *pace, GError **error)
{
  gsize n_bytes = (gsize) (tensor->end - tensor->begin);
  G_GNUC_UNUSED g_autoptr (TpsPopulate) ahead = tps_populate_begin (to, n_bytes);
  TpsSafetensorStream stream;

  tps_safetensor_stream_init (&stream, file, tensor);
  for (gsize at = 0, n; at < n_bytes; at += n)
    {
      n = MIN (READ_BYTES, n_bytes - at);
      if (!tps_safetensor_stream_read (&stream, to + at, n, error)
          || !tps_snapshot_pace (pace, n, error))
        return FALSE;
    }
  return TRUE;
}

static const TpsSafetensor *
require (TpsSafetensorsReader *file, const TpsTable *table, const gchar *name, const gchar *dtype,
         gsize n_columns, GError **error)
{
  gint64 dims[2] = { table->spec.shard.n_rows, (gint64) n_columns };

  return tps_safetensors_reader_require (file, name, dtype, n_columns > 0 ? 2 : 1, dims, error);
}

static gboolean
read_columns (TpsTable *table, TpsSafetensorsReader *file, const TpsSafetensor *tensor, gsize first,
              gsize n_columns, TpsSnapshotPace *pace, GError **error)
{
  gsize n_rows = (gsize) table->spec.shard.n_rows;
  gsize row_bytes = n_columns * sizeof (gfloat);
  gsize max_rows = MAX (1, READ_BYTES / MAX (row_bytes, 1));
  g_autofree guint8 *piece = g_try_malloc (MIN (max_rows, n_rows + 1) * row_bytes);
  TpsSafetensorStream stream;

  if (piece == NULL)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED, "table %s: no memory to read its state",
                     table->spec.name);
  tps_safetensor_stream_init (&stream, file, tensor);
  for (gsize slot = 0, n; slot < n_rows; slot += n)
    {
      n = MIN (max_rows, n_rows - slot);
      if (!tps_safetensor_stream_read (&stream, piece, n * row_bytes, error)
          || !tps_snapshot_pace (pace, n * row_bytes, error))
        return FALSE;
      for (gsize i = 0; i < n; i++)
        memcpy (table->state + (slot + i) * table->state_per_row + first, piece + i * row_bytes,
                row_bytes);
    }
  return TRUE;
}

static gboolean
read_state (TpsTable *table, TpsSafetensorsReader *file, TpsSnapshotPace *pace, GError **error)
{
  TpsStatePart parts[TPS_STATE_MAX_PARTS];
  guint n_parts = tps_state_get_parts (&table->spec.optimizer, table->dim, parts);
  gsize column = 0;

  for (guint i = 0; i < n_parts; i++)
    {
      g_autofree gchar *name = name_of_part (table, &parts[i]);
      const TpsSafetensor *tensor = require (file, table, name, "F32", parts[i].n_columns, error);

      if (tensor == NULL)
        return FALSE;
      if (n_parts == 1)
        return read_plain (file, tensor, (guint8 *) table->state, pace, error);
      if (!read_columns (table, file, tensor, column, parts[i].n_columns, pace, error))
        return FALSE;
      column += parts[i].n_columns;
    }
  return TRUE;
}

static gboolean
read_lsns (TpsTable *table, TpsSafetensorsReader *file, TpsSnapshotPace *pace, GError **error)
{
  g_autofree gchar *name = name_of (table, "lsn");
  const TpsSafetensor *tensor;

  TPS_PLANT ("row-lsns-not-restored", return TRUE);
  if (table->lsns == NULL)
    return TRUE;
  tensor = require (file, table, name, "I64", 0, error);
  return tensor != NULL && read_plain (file, tensor, (guint8 *) table->lsns, pace, error);
}

static gboolean
read_rows (TpsTable *table, TpsSafetensorsReader *file, TpsSnapshotPace *pace, GError **error)
{
  g_autofree gchar *name = name_of (table, "weight");
  const TpsSafetensor *tensor = require (
      file, table, name, tps_safetensors_dtype (table->spec.dtype), table->dim, error);

  return tensor != NULL && read_plain (file, tensor, table->rows, pace, error);
}

static gboolean
begin_stream (TpsSafetensorsReader *file, TpsSafetensorStream *stream, const gchar *name,
              const gchar *dtype, gint64 n_rows, gsize n_columns, GError **error)
{
  gint64 dims[2] = { n_rows, (gint64) n_columns };
  const TpsSafetensor *tensor = tps_safetensors_reader_require (file, name, dtype,
                                                                n_columns > 0 ? 2 : 1, dims, error);

  if (tensor != NULL)
    tps_safetensor_stream_init (stream, file, tensor);
  return tensor != NULL;
}

static gboolean
begin_streams (Reading *reading, TpsSafetensorsReader *file, gint64 *n_rows, GError **error)
{
  const TpsTable *table = reading->table;
  g_autofree gchar *ids = name_of (table, "row_ids");
  g_autofree gchar *lsns = name_of (table, "lsn");
  g_autofree gchar *weight = name_of (table, "weight");

  if (!begin_stream (file, &reading->ids, ids, "I64", -1, 0, error))
    return FALSE;
  *n_rows = reading->ids.tensor->dims[0];
  for (guint i = 0; i < reading->n_parts; i++)
    {
      g_autofree gchar *state = name_of_part (table, &reading->parts[i]);

      if (!begin_stream (file, &reading->states[i], state, "F32", *n_rows,
                         reading->parts[i].n_columns, error))
        return FALSE;
    }
  return begin_stream (file, &reading->lsns, lsns, "I64", *n_rows, 0, error)
         && begin_stream (file, &reading->weight, weight, tps_safetensors_dtype (table->spec.dtype),
                          *n_rows, table->dim, error);
}

static gboolean
read_slots (Reading *reading, gsize n, GError **error)
{
  const TpsShard *shard = &reading->table->spec.shard;

  if (!tps_safetensor_stream_read (&reading->ids, reading->slots, n * sizeof (gint64), error))
    return FALSE;
  for (gsize i = 0; i < n; i++)
    {
      gint64 row = reading->slots[i];
      gint64 slot = row >= 0 && row < shard->rows ? tps_shard_get_slot (shard, row) : -1;

      if (slot < 0 || slot >= shard->n_rows)
        return tps_fail (error, TPS_ERROR_ABORTED,
                         "%s: row %" G_GINT64_FORMAT " is not in the shard of table %s",
                         reading->ids.reader->path, row, reading->table->spec.name);
      reading->slots[i] = slot;
    }
  return TRUE;
}

static gboolean
read_part (Reading *reading, TpsSafetensorStream *stream, gpointer base, gsize stride,
           gsize row_bytes, gsize n, GError **error)
{
  if (!tps_safetensor_stream_read (stream, reading->piece, n * row_bytes, error))
    return FALSE;
  for (gsize i = 0; i < n; i++)
    memcpy ((guint8 *) base + (gsize) reading->slots[i] * stride, reading->piece + i * row_bytes,
            row_bytes);
  return TRUE;
}

static gboolean
read_changed_rows (Reading *reading, gsize n, GError **error)
{
  TpsTable *table = reading->table;
  gsize stride = table->state_per_row * sizeof (gfloat);
  gsize column = 0;

  if (!read_slots (reading, n, error)
      || (table->lsns != NULL
          && !read_part (reading, &reading->lsns, table->lsns, sizeof (gint64), sizeof (gint64), n,
                         error)))
    return FALSE;
  for (guint i = 0; i < reading->n_parts; i++)
    {
      gsize n_columns = reading->parts[i].n_columns;

      if (!read_part (reading, &reading->states[i], table->state + column, stride,
                      n_columns * sizeof (gfloat), n, error))
        return FALSE;
      column += n_columns;
    }
  return read_part (reading, &reading->weight, table->rows, table->row_bytes, table->row_bytes, n,
                    error);
}

static gboolean
read_pieces (Reading *reading, gint64 n_rows, TpsSnapshotPace *pace, GError **error)
{
  const TpsTable *table = reading->table;
  gsize row_bytes = tps_table_file_get_row_bytes (table);
  gsize max_rows = MIN (MAX (1, READ_BYTES / row_bytes), (gsize) n_rows + 1);
  g_autofree gint64 *slots = g_try_new (gint64, max_rows);
  g_autofree guint8 *piece = g_try_malloc (max_rows * row_bytes);

  if (slots == NULL || piece == NULL)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                     "table %s: no memory to read an increment", table->spec.name);
  reading->slots = slots;
  reading->piece = piece;
  for (gint64 at = 0; at < n_rows; at += (gint64) max_rows)
    {
      gsize n = (gsize) MIN ((gint64) max_rows, n_rows - at);

      if (!read_changed_rows (reading, n, error) || !tps_snapshot_pace (pace, n * row_bytes, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_increment (TpsTable *table, TpsDisk *disk, const gchar *folder, const TpsManifestFile *entry,
                TpsSnapshotPace *pace, GError **error)
{
  g_autoptr (TpsSafetensorsReader) file = tps_snapshot_open_file (disk, folder, entry, error);
  Reading reading = { .table = table };
  gint64 n_rows;

  reading.n_parts = tps_state_get_parts (&table->spec.optimizer, table->dim, reading.parts);
  return file != NULL && begin_streams (&reading, file, &n_rows, error)
         && read_pieces (&reading, n_rows, pace, error);
}

static gboolean
begin_device_streams (DeviceReading *reading, GError **error)
{
  const TpsTable *table = reading->table;
  gint64 n_rows = table->spec.shard.n_rows;
  g_autofree gchar *lsns = name_of (table, "lsn");
  g_autofree gchar *weight = name_of (table, "weight");

  for (guint i = 0; i < reading->n_parts; i++)
    {
      g_autofree gchar *state = name_of_part (table, &reading->parts[i]);

      if (!begin_stream (reading->file, &reading->states[i], state, "F32", n_rows,
                         reading->parts[i].n_columns, error))
        return FALSE;
    }
  return begin_stream (reading->file, &reading->lsns, lsns, "I64", n_rows, 0, error)
         && begin_stream (reading->file, &reading->weight, weight,
                          tps_safetensors_dtype (table->spec.dtype), n_rows, table->dim, error);
}

static gboolean
read_device_state (DeviceReading *reading, gsize n, GError **error)
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
read_device_piece (DeviceReading *reading, gsize slot, gsize n, GError **error)
{
  TpsTable *table = reading->table;
  const TpsTableCopy *copy = &reading->copy;

  return read_device_state (reading, n, error)
         && tps_safetensor_stream_read (&reading->lsns, copy->lsns, n * sizeof (gint64), error)
         && tps_safetensor_stream_read (&reading->weight, copy->rows, n * table->row_bytes, error)
         && tps_table_fill_rows (table, slot, n, copy, error);
}

static gboolean
read_device_pieces (DeviceReading *reading, TpsSnapshotPace *pace, GError **error)
{
  const TpsTable *table = reading->table;
  gsize n_rows = (gsize) table->spec.shard.n_rows;
  gsize max_rows = tps_table_get_max_copied_rows (table);
  gsize row_bytes = tps_table_file_get_row_bytes (table);

  for (gsize slot = 0, n; slot < n_rows; slot += n)
    {
      n = MIN (max_rows, n_rows - slot);
      if (!read_device_piece (reading, slot, n, error)
          || !tps_snapshot_pace (pace, n * row_bytes, error))
        return FALSE;
    }
  return TRUE;
}

/* Reads the rows, their state and LSNs onto the device of `table`, which must be unfilled. Errors:
 * those of the disk, DEVICE_LOST, RESOURCE_EXHAUSTED, ABORTED. */
static gboolean
read_onto_device (TpsTable *table, TpsSafetensorsReader *file, TpsSnapshotPace *pace,
                  GError **error)
{
  gsize n = tps_table_get_max_copied_rows (table);
  g_autofree guint8 *rows = g_malloc (n * table->row_bytes);
  g_autofree gfloat *state = g_new (gfloat, n * table->state_per_row + 1);
  g_autofree gfloat *columns = g_new (gfloat, n * table->state_per_row + 1);
  g_autofree gint64 *lsns = g_new (gint64, n);
  DeviceReading reading = {
    .table = table, .file = file, .copy = { rows, state, lsns }, .columns = columns
  };

  reading.n_parts = tps_state_get_parts (&table->spec.optimizer, table->dim, reading.parts);
  return begin_device_streams (&reading, error) && read_device_pieces (&reading, pace, error);
}

gboolean
tps_table_file_read (TpsTable *table, TpsDisk *disk, const gchar *folder,
                     const TpsManifestTable *entry, TpsSnapshotPace *pace, GError **error)
{
  g_autoptr (TpsSafetensorsReader)
      file = tps_snapshot_open_file (disk, folder, &entry->file, error);

  if (file == NULL)
    return FALSE;
  if (tps_table_is_filled_by_pieces (table)
          ? !read_onto_device (table, file, pace, error)
          : !read_lsns (table, file, pace, error) || !read_state (table, file, pace, error)
                || !read_rows (table, file, pace, error))
    return FALSE;
  for (guint i = 0; i < tps_manifest_table_get_n_increments (entry); i++)
    if (!read_increment (table, disk, folder, tps_manifest_table_get_increment (entry, i), pace,
                         error))
      return FALSE;
  table->incarnation = entry->incarnation;
  tps_table_begin_at (table, entry->progress);
  return TRUE;
}
