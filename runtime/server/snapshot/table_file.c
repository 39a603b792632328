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

/* A file that is being read: a whole table, or an increment. */
typedef struct
{
  TpsTable *table;
  TpsSafetensorsReader *file;
  TpsSafetensorStream ids, lsns, weight, states[TPS_STATE_MAX_PARTS]; /* `ids`: of an increment */
  guint n_parts;
  TpsStatePart parts[TPS_STATE_MAX_PARTS];
  gint64 *slots; /* [n]: of the rows of a piece; NULL = the rows follow one another */
  guint8 *piece; /* the elements of one tensor for these rows */
} Reading;

static gchar *
name_of (const TpsTable *table, const gchar *what)
{
  return g_strconcat (table->spec.name, ".", what, NULL);
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

/* Adds the tensor `what` of the table. */
static guint
add_tensor (Writing *writing, const gchar *what, const gchar *dtype, gsize n_columns)
{
  const TpsShard *shard = &writing->table->spec.shard;
  g_autofree gchar *name = name_of (writing->table, what);
  gint64 dims[2] = { (gint64) writing->n_rows, (gint64) n_columns };
  gint64 offsets[2] = { first_place_of (shard), 0 };

  return tps_safetensors_writer_add_tensor (writing->file, name, dtype, n_columns > 0 ? 2 : 1, dims,
                                            writing->changed == NULL ? offsets : NULL);
}

/* Adds tensors with wide elements first, so the elements of all tensors are aligned to their
 * size. */
static void
add_tensors (Writing *writing)
{
  TpsTable *table = writing->table;
  gboolean has_ids = writing->changed != NULL || table->spec.shard.kind == TPS_SHARD_HASH;
  GString *spec = g_string_new (NULL);

  tps_table_spec_append_json (spec, &table->spec);
  tps_safetensors_writer_add_metadata (writing->file, TPS_TABLE_FILE_SPEC, spec->str);
  g_string_printf (spec, "%" G_GINT64_FORMAT, writing->n_steps);
  tps_safetensors_writer_add_metadata (writing->file, TPS_TABLE_FILE_STEPS, spec->str);
  g_string_free (spec, TRUE);
  if (writing->changed != NULL)
    tps_safetensors_writer_add_metadata (writing->file, TPS_TABLE_FILE_INCREMENT, "1");
  writing->lsns = add_tensor (writing, "lsn", "I64", 0);
  writing->row_ids = has_ids ? add_tensor (writing, "row_ids", "I64", 0) : NO_TENSOR;
  writing->n_parts = tps_state_get_parts (&table->spec.optimizer, table->dim, writing->parts);
  for (guint i = 0; i < writing->n_parts; i++)
    {
      g_autofree gchar *what = g_strconcat ("state.", writing->parts[i].name, NULL);

      writing->states[i] = add_tensor (writing, what, "F32", writing->parts[i].n_columns);
    }
  writing->weight = add_tensor (writing, "weight", tps_safetensors_dtype (table->spec.dtype),
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

static gboolean
begin_stream (const Reading *reading, TpsSafetensorStream *stream, const gchar *what,
              const gchar *dtype, gint64 n_rows, gsize n_columns, GError **error)
{
  g_autofree gchar *name = name_of (reading->table, what);
  gint64 dims[2] = { n_rows, (gint64) n_columns };
  const TpsSafetensor *tensor = tps_safetensors_reader_require (reading->file, name, dtype,
                                                                n_columns > 0 ? 2 : 1, dims, error);

  if (tensor != NULL)
    tps_safetensor_stream_init (stream, reading->file, tensor);
  return tensor != NULL;
}

/* Begins to read all tensors except the ids. */
static gboolean
begin_streams (Reading *reading, gint64 n_rows, GError **error)
{
  const TpsTable *table = reading->table;

  reading->n_parts = tps_state_get_parts (&table->spec.optimizer, table->dim, reading->parts);
  for (guint i = 0; i < reading->n_parts; i++)
    {
      g_autofree gchar *what = g_strconcat ("state.", reading->parts[i].name, NULL);

      if (!begin_stream (reading, &reading->states[i], what, "F32", n_rows,
                         reading->parts[i].n_columns, error))
        return FALSE;
    }
  return begin_stream (reading, &reading->lsns, "lsn", "I64", n_rows, 0, error)
         && begin_stream (reading, &reading->weight, "weight",
                          tps_safetensors_dtype (table->spec.dtype), n_rows, table->dim, error);
}

/* Reads the elements of `n` rows, and stores `row_bytes` at `base` + slot * `stride` for each. */
static gboolean
read_part (const Reading *reading, TpsSafetensorStream *stream, gpointer base, gsize stride,
           gsize row_bytes, gsize n, GError **error)
{
  if (!tps_safetensor_stream_read (stream, reading->piece, n * row_bytes, error))
    return FALSE;
  for (gsize i = 0; i < n; i++)
    memcpy ((guint8 *) base + (reading->slots != NULL ? (gsize) reading->slots[i] : i) * stride,
            reading->piece + i * row_bytes, row_bytes);
  return TRUE;
}

/* Reads the state of `n` rows to `state`, where a row has all of its parts side by side. */
static gboolean
read_states (Reading *reading, gfloat *state, gsize n, GError **error)
{
  for (guint i = 0; i < reading->n_parts; i++)
    {
      gsize n_columns = reading->parts[i].n_columns;

      if (!read_part (reading, &reading->states[i], state,
                      reading->table->state_per_row * sizeof (gfloat), n_columns * sizeof (gfloat),
                      n, error))
        return FALSE;
      state += n_columns;
    }
  return TRUE;
}

/* ---- tables in the host's memory ------------------------------------------------------------- */

/* Reads a tensor that has the same layout in memory as in the file. Other threads provide the pages
 * of this memory meanwhile. */
static gboolean
read_plain (TpsSafetensorStream *stream, gpointer to, TpsSnapshotPace *pace, GError **error)
{
  gsize n_bytes = (gsize) (stream->tensor->end - stream->tensor->begin);
  G_GNUC_UNUSED g_autoptr (TpsPopulate) ahead = tps_populate_begin (to, n_bytes);

  for (gsize at = 0, n; at < n_bytes; at += n)
    {
      n = MIN (READ_BYTES, n_bytes - at);
      if (!tps_safetensor_stream_read (stream, (guint8 *) to + at, n, error)
          || !tps_snapshot_pace (pace, n, error))
        return FALSE;
    }
  return TRUE;
}

/* Reads a part of the state, whose first column is `first`. */
static gboolean
read_columns (Reading *reading, guint part, gsize first, TpsSnapshotPace *pace, GError **error)
{
  TpsTable *table = reading->table;
  gsize n_rows = (gsize) table->spec.shard.n_rows;
  gsize row_bytes = reading->parts[part].n_columns * sizeof (gfloat);
  gsize max_rows = MAX (1, READ_BYTES / MAX (row_bytes, 1));
  g_autofree guint8 *piece = g_try_malloc (MIN (max_rows, n_rows + 1) * row_bytes);

  if (piece == NULL)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED, "table %s: no memory to read its state",
                     table->spec.name);
  reading->piece = piece;
  for (gsize slot = 0, n; slot < n_rows; slot += n)
    {
      n = MIN (max_rows, n_rows - slot);
      if (!read_part (reading, &reading->states[part],
                      table->state + slot * table->state_per_row + first,
                      table->state_per_row * sizeof (gfloat), row_bytes, n, error)
          || !tps_snapshot_pace (pace, n * row_bytes, error))
        return FALSE;
    }
  return TRUE;
}

/* Reads one tensor after another, since only one at a time is read ahead. */
static gboolean
read_onto_host (Reading *reading, TpsSnapshotPace *pace, GError **error)
{
  TpsTable *table = reading->table;
  gboolean has_lsns = table->lsns != NULL;
  gsize column = 0;

  TPS_PLANT ("row-lsns-not-restored", has_lsns = FALSE);
  if (has_lsns && !read_plain (&reading->lsns, table->lsns, pace, error))
    return FALSE;
  for (guint i = 0; i < reading->n_parts; i++)
    {
      if (reading->n_parts == 1 ? !read_plain (&reading->states[i], table->state, pace, error)
                                : !read_columns (reading, i, column, pace, error))
        return FALSE;
      column += reading->parts[i].n_columns;
    }
  return read_plain (&reading->weight, table->rows, pace, error);
}

/* ---- tables on a device ---------------------------------------------------------------------- */

static gboolean
read_device_pieces (Reading *reading, const TpsTableCopy *copy, TpsSnapshotPace *pace,
                    GError **error)
{
  TpsTable *table = reading->table;
  gsize n_rows = (gsize) table->spec.shard.n_rows;
  gsize max_rows = tps_table_get_max_copied_rows (table);
  gsize row_bytes = tps_table_file_get_row_bytes (table);

  for (gsize slot = 0, n; slot < n_rows; slot += n)
    {
      n = MIN (max_rows, n_rows - slot);
      if (!read_states (reading, copy->state, n, error)
          || !tps_safetensor_stream_read (&reading->lsns, copy->lsns, n * sizeof (gint64), error)
          || !tps_safetensor_stream_read (&reading->weight, copy->rows, n * table->row_bytes, error)
          || !tps_table_fill_rows (table, slot, n, copy, error)
          || !tps_snapshot_pace (pace, n * row_bytes, error))
        return FALSE;
    }
  return TRUE;
}

/* Reads the rows, their state and LSNs onto the device of the table, which must be unfilled.
 * Errors: those of the disk, DEVICE_LOST, RESOURCE_EXHAUSTED, ABORTED. */
static gboolean
read_onto_device (Reading *reading, TpsSnapshotPace *pace, GError **error)
{
  const TpsTable *table = reading->table;
  gsize n = tps_table_get_max_copied_rows (table);
  g_autofree guint8 *rows = g_malloc (n * table->row_bytes);
  g_autofree gfloat *state = g_new (gfloat, n * table->state_per_row + 1);
  g_autofree guint8 *columns = g_malloc (n * table->state_per_row * sizeof (gfloat) + 1);
  g_autofree gint64 *lsns = g_new (gint64, n);

  reading->piece = columns;
  return read_device_pieces (reading, &(TpsTableCopy) { rows, state, lsns }, pace, error);
}

/* ---- increments ------------------------------------------------------------------------------ */

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
                         reading->file->path, row, reading->table->spec.name);
      reading->slots[i] = slot;
    }
  return TRUE;
}

static gboolean
read_changed_rows (Reading *reading, gsize n, GError **error)
{
  TpsTable *table = reading->table;

  return read_slots (reading, n, error)
         && (table->lsns == NULL
             || read_part (reading, &reading->lsns, table->lsns, sizeof (gint64), sizeof (gint64),
                           n, error))
         && read_states (reading, table->state, n, error)
         && read_part (reading, &reading->weight, table->rows, table->row_bytes, table->row_bytes,
                       n, error);
}

static gboolean
read_increment (TpsTable *table, TpsDisk *disk, const gchar *folder, const TpsManifestFile *entry,
                TpsSnapshotPace *pace, GError **error)
{
  g_autoptr (TpsSafetensorsReader) file = tps_snapshot_open_file (disk, folder, entry, error);
  gsize row_bytes = tps_table_file_get_row_bytes (table);
  g_autofree gint64 *slots = NULL;
  g_autofree guint8 *piece = NULL;
  Reading reading = { .table = table, .file = file };
  gsize n_rows, max_rows;

  if (file == NULL || !begin_stream (&reading, &reading.ids, "row_ids", "I64", -1, 0, error)
      || !begin_streams (&reading, reading.ids.tensor->dims[0], error))
    return FALSE;
  n_rows = (gsize) reading.ids.tensor->dims[0];
  max_rows = MIN (MAX (1, READ_BYTES / row_bytes), n_rows + 1);
  reading.slots = slots = g_try_new (gint64, max_rows);
  reading.piece = piece = g_try_malloc (max_rows * row_bytes);
  if (slots == NULL || piece == NULL)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                     "table %s: no memory to read an increment", table->spec.name);
  for (gsize at = 0, n; at < n_rows; at += n)
    {
      n = MIN (max_rows, n_rows - at);
      if (!read_changed_rows (&reading, n, error)
          || !tps_snapshot_pace (pace, n * row_bytes, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
tps_table_file_read (TpsTable *table, TpsDisk *disk, const gchar *folder,
                     const TpsManifestTable *entry, TpsSnapshotPace *pace, GError **error)
{
  g_autoptr (TpsSafetensorsReader)
      file = tps_snapshot_open_file (disk, folder, &entry->file, error);
  Reading reading = { .table = table, .file = file };

  if (file == NULL || !begin_streams (&reading, table->spec.shard.n_rows, error)
      || !(tps_table_is_filled_by_pieces (table) ? read_onto_device (&reading, pace, error)
                                                 : read_onto_host (&reading, pace, error)))
    return FALSE;
  for (guint i = 0; i < tps_manifest_table_get_n_increments (entry); i++)
    if (!read_increment (table, disk, folder, tps_manifest_table_get_increment (entry, i), pace,
                         error))
      return FALSE;
  table->incarnation = entry->incarnation;
  tps_table_begin_at (table, entry->progress);
  return TRUE;
}
