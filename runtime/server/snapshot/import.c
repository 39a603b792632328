/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A file is read sequentially, one tensor after another. The id of a row determines its slot. */

#include "runtime/server/snapshot/import.h"

#include <string.h>

#include "runtime/base/durability.h"
#include "runtime/base/error.h"
#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/server/snapshot/safetensors.h"
#include "runtime/server/snapshot/spec_json.h"
#include "runtime/server/snapshot/table_file.h"
#include "runtime/server/tables/table_snapshot.h"

#define PIECE_BYTES ((gsize) 1 << 20)

typedef struct
{
  const TpsTableImport *import;
  TpsTable *table;
  guint8 *has_row; /* [n_rows / 8 + 1]: bits of slots */
  GArray *origins; /* of Origin: the files that have been read, except increments */
} Import;

/* The rows of a file. */
typedef struct
{
  const gchar *path;
  TpsShard shard;
} Origin;

/* One file. */
typedef struct
{
  TpsSafetensorsReader *file;
  TpsShard shard; /* the shard to which the rows of the file belong */
  gboolean has_spec;
  TpsTableSpec spec;        /* only if `has_spec`: the file is from a snapshot */
  const TpsSafetensor *ids; /* row ids of an increment; NULL = all rows of `shard` */
} Source;

static gboolean
fail (const Source *source, const gchar *problem, GError **error)
{
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s: %s", source->file->path, problem);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Returns the slot of a row; -1 = the row is not in the shard. */
static gint64
slot_of (const TpsShard *shard, gint64 row)
{
  return row >= 0 && row < shard->rows ? tps_shard_get_slot (shard, row) : -1;
}

/* Sets `first_row` to saved_offsets[0] of the tensor, or to 0 if there is none. FALSE: the metadata
 * is not valid. */
static gboolean
find_first_row (const Source *source, const TpsSafetensor *tensor, gint64 *first_row)
{
  const gchar *text = g_hash_table_lookup (source->file->metadata, "DCP_SHARDING_INFO");
  g_autoptr (GError) unused = NULL;
  TpsJsonReader json;
  GString *key;
  gboolean is_first = TRUE;
  gboolean ok;

  *first_row = 0;
  if (text == NULL)
    return TRUE;
  key = g_string_new (NULL);
  tps_json_reader_init (&json, text, strlen (text));
  tps_json_begin_object (&json);
  while (tps_json_next_member (&json, key))
    {
      gboolean is_it = g_str_equal (key->str, tensor->name);

      tps_json_begin_object (&json);
      while (tps_json_next_member (&json, key))
        {
          if (!is_it || !g_str_equal (key->str, "saved_offsets"))
            {
              tps_json_skip (&json);
              continue;
            }
          tps_json_begin_array (&json);
          while (tps_json_next_element (&json))
            {
              gint64 offset = tps_json_read_i64 (&json);

              if (is_first)
                *first_row = offset;
              else if (offset != 0)
                tps_json_fail (&json, "columns are sharded");
              is_first = FALSE;
            }
        }
    }
  ok = tps_json_end (&json, "DCP_SHARDING_INFO", &unused) && *first_row >= 0;
  g_string_free (key, TRUE);
  return ok;
}

static gboolean
set_plain_shard (Source *source, const TpsSafetensor *tensor, GError **error)
{
  gint64 first_row;

  if (!find_first_row (source, tensor, &first_row) || first_row > G_MAXINT64 - tensor->dims[0])
    return fail (source, "DCP_SHARDING_INFO does not give the rows of this file", error);
  source->shard = (TpsShard) { .kind = TPS_SHARD_RANGE,
                               .rows = first_row + tensor->dims[0],
                               .first_row = first_row,
                               .n_rows = tensor->dims[0] };
  return TRUE;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static const TpsSafetensor *
find_only_matrix (const Source *source)
{
  const TpsSafetensor *found = NULL;

  for (guint i = 0; i < source->file->tensors->len; i++)
    {
      const TpsSafetensor *tensor = &g_array_index (source->file->tensors, TpsSafetensor, i);

      if (tensor->n_dims == 2 && found != NULL)
        return NULL;
      if (tensor->n_dims == 2)
        found = tensor;
    }
  return found;
}

static const TpsSafetensor *
find_weight (const Import *import, const Source *source)
{
  g_autofree gchar *name = g_strconcat (
      source->has_spec ? source->spec.name : import->table->spec.name, ".weight", NULL);
  const TpsSafetensor *tensor;

  if (!source->has_spec && import->import->tensor != NULL)
    return tps_safetensors_reader_find_tensor (source->file, import->import->tensor);
  tensor = tps_safetensors_reader_find_tensor (source->file, name);
  return tensor != NULL || source->has_spec ? tensor : find_only_matrix (source);
}

static gboolean
find_dtype (const TpsSafetensor *tensor, TpsDType *dtype)
{
  static const TpsDType known[] = { TPS_DTYPE_FLOAT32, TPS_DTYPE_FLOAT16, TPS_DTYPE_BFLOAT16,
                                    TPS_DTYPE_FLOAT64 };

  for (guint i = 0; i < G_N_ELEMENTS (known); i++)
    if (g_str_equal (tensor->dtype, tps_safetensors_dtype (known[i])))
      {
        *dtype = known[i];
        return TRUE;
      }
  return FALSE;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The destination of the rows of a tensor: `n_columns` elements at `base` + slot * `stride`. */
typedef struct
{
  guint8 *base;
  gsize stride;
  gsize n_columns;
  TpsDType dtype;
  gboolean is_weight;
} Target;

static gboolean
fail_twice (const Import *import, const Source *source, gint64 row, GError **error)
{
  const gchar *other = "another file";

  for (guint i = import->origins->len; i-- > 0;)
    if (slot_of (&g_array_index (import->origins, Origin, i).shard, row) >= 0)
      other = g_array_index (import->origins, Origin, i).path;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "table %s: row %" G_GINT64_FORMAT " is in %s and in %s; leave out one of them",
                   import->table->spec.name, row, other, source->file->path);
}

/* Converts the rows of a piece, and stores those that are in the table's shard. Only an increment
 * may have rows that an earlier file has. */
static gboolean
put_piece (Import *import, const Source *source, const Target *target, TpsDType dtype,
           const gint64 *rows, gsize n, const guint8 *piece, GError **error)
{
  gsize row_bytes = target->n_columns * tps_dtype_size (dtype);

  for (gsize i = 0; i < n; i++)
    {
      gint64 slot = slot_of (&import->table->spec.shard, rows[i]);

      if (slot < 0)
        continue;
      if (target->is_weight && source->ids == NULL
          && (import->has_row[slot / 8] & (1 << slot % 8)) != 0)
        return fail_twice (import, source, rows[i], error);
      tps_cpu_cast (target->dtype, target->base + (gsize) slot * target->stride, dtype,
                    piece + i * row_bytes, target->n_columns);
      if (target->is_weight)
        import->has_row[slot / 8] |= (guint8) (1 << slot % 8);
    }
  return TRUE;
}

static gboolean
read_ids (const Source *source, TpsSafetensorStream *stream, gint64 first, gsize n, gint64 *rows,
          GError **error)
{
  if (source->ids != NULL)
    return tps_safetensor_stream_read (stream, rows, n * sizeof (gint64), error);
  for (gsize i = 0; i < n; i++)
    rows[i] = tps_shard_get_row (&source->shard, first + (gint64) i);
  return TRUE;
}

/* Limits [*begin, *end) to the rows of a file that are in the table's shard, if they are known and
 * no checksum needs the others. */
static void
limit_rows (const Import *import, const Source *source, const TpsSafetensor *tensor, gint64 *begin,
            gint64 *end)
{
  const TpsShard *shard = &import->table->spec.shard;

  if (source->has_spec || tensor->has_crc || shard->kind != TPS_SHARD_RANGE)
    return;
  *begin = CLAMP (shard->first_row - source->shard.first_row, 0, *end);
  *end = CLAMP (shard->first_row + shard->n_rows - source->shard.first_row, *begin, *end);
}

static gboolean
read_pieces (Import *import, const Source *source, const TpsSafetensor *tensor,
             const Target *target, TpsDType dtype, gsize max_rows, guint8 *piece, gint64 *rows,
             GError **error)
{
  gsize row_bytes = target->n_columns * tps_dtype_size (dtype);
  TpsSafetensorStream stream, ids = { 0 };
  gint64 begin = 0, end = tensor->dims[0];

  limit_rows (import, source, tensor, &begin, &end);
  tps_safetensor_stream_init (&stream, source->file, tensor);
  stream.at += begin * (gint64) row_bytes;
  if (source->ids != NULL)
    tps_safetensor_stream_init (&ids, source->file, source->ids);
  for (gint64 first = begin; first < end; first += (gint64) max_rows)
    {
      gsize n = (gsize) MIN ((gint64) max_rows, end - first);

      if (import->import->is_cancelled != NULL
          && import->import->is_cancelled (import->import->user_data))
        return tps_fail (error, TPS_ERROR_ABORTED, "the import was cancelled");
      if (!read_ids (source, &ids, first, n, rows, error)
          || !tps_safetensor_stream_read (&stream, piece, n * row_bytes, error)
          || !put_piece (import, source, target, dtype, rows, n, piece, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_rows (Import *import, const Source *source, const TpsSafetensor *tensor, const Target *target,
           GError **error)
{
  TpsDType dtype = TPS_DTYPE_FLOAT32;
  gsize row_bytes, max_rows;
  g_autofree guint8 *piece = NULL;
  g_autofree gint64 *rows = NULL;

  if (!find_dtype (tensor, &dtype))
    return fail (source, "the rows are not floating-point numbers", error);
  row_bytes = target->n_columns * tps_dtype_size (dtype);
  max_rows = MAX (1, PIECE_BYTES / MAX (row_bytes, sizeof (gint64)));
  piece = g_try_malloc (max_rows * row_bytes);
  rows = g_try_new (gint64, max_rows);
  if (piece == NULL || rows == NULL)
    return fail (source, "no memory for a row", error);
  return read_pieces (import, source, tensor, target, dtype, max_rows, piece, rows, error);
}

/* Checks the size of the rows, and of the whole table of which the file has rows, before any row is
 * read. */
static gboolean
check_size (const Import *import, const Source *source, const TpsSafetensor *tensor, GError **error)
{
  const TpsTableSpec *spec = &import->table->spec;
  const gchar *path = source->file->path;
  gint64 rows = source->shard.rows;

  if (tensor->dims[1] != spec->dim)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "%s: tensor %s has rows of %" G_GINT64_FORMAT " columns, but table %s has %d",
                 path, tensor->name, tensor->dims[1], spec->name, spec->dim);
  else if (source->has_spec ? rows != spec->shard.rows : rows > spec->shard.rows)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "%s: tensor %s is of a table of %" G_GINT64_FORMAT
                 " rows, but table %s has %" G_GINT64_FORMAT,
                 path, tensor->name, rows, spec->name, spec->shard.rows);
  else if (tensor->dims[0] != (source->ids != NULL ? source->ids->dims[0] : source->shard.n_rows))
    return fail (source, "the number of rows differs from that of the shard", error);
  else
    return TRUE;
  return FALSE;
}

static gboolean
read_weight (Import *import, Source *source, GError **error)
{
  TpsTable *table = import->table;
  const TpsSafetensor *tensor = find_weight (import, source);
  Target target = { .base = table->rows,
                    .stride = table->row_bytes,
                    .n_columns = table->dim,
                    .dtype = table->spec.dtype,
                    .is_weight = TRUE };

  if (tensor == NULL)
    return fail (source, "there is no tensor for the rows, or more than one candidate", error);
  if (tensor->n_dims != 2)
    return fail (source, "the tensor for the rows does not have two dimensions", error);
  return (source->has_spec || set_plain_shard (source, tensor, error))
         && check_size (import, source, tensor, error)
         && read_rows (import, source, tensor, &target, error);
}

/* Reads the state of the optimizer, if the file is from a snapshot and its optimizer has the same
 * state. */
static gboolean
read_state (Import *import, const Source *source, GError **error)
{
  TpsTable *table = import->table;
  TpsStatePart parts[TPS_STATE_MAX_PARTS];
  guint n_parts = tps_state_get_parts (&table->spec.optimizer, table->dim, parts);
  gsize column = 0;

  if (!source->has_spec || source->spec.optimizer.kind != table->spec.optimizer.kind
      || tps_optimizer_state_per_row (&source->spec.optimizer, table->dim) != table->state_per_row)
    return TRUE;
  for (guint i = 0; i < n_parts; i++)
    {
      g_autofree gchar *name = g_strconcat (source->spec.name, ".state.", parts[i].name, NULL);
      gint64 dims[2] = { source->ids != NULL ? source->ids->dims[0] : source->shard.n_rows,
                         (gint64) parts[i].n_columns };
      const TpsSafetensor *tensor = tps_safetensors_reader_require (source->file, name, "F32", 2,
                                                                    dims, error);
      Target target = { .base = (guint8 *) (table->state + column),
                        .stride = table->state_per_row * sizeof (gfloat),
                        .n_columns = parts[i].n_columns,
                        .dtype = TPS_DTYPE_FLOAT32 };

      if (tensor == NULL || !read_rows (import, source, tensor, &target, error))
        return FALSE;
      column += parts[i].n_columns;
    }
  return TRUE;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Reads the specification and the number of steps from the metadata, if the file is from a
 * snapshot. */
static gboolean
read_spec (Import *import, Source *source, GError **error)
{
  const gchar *text = g_hash_table_lookup (source->file->metadata, TPS_TABLE_FILE_SPEC);
  const gchar *steps = g_hash_table_lookup (source->file->metadata, TPS_TABLE_FILE_STEPS);
  TpsJsonReader json;
  guint64 n_steps = 0;

  if (text == NULL)
    return TRUE;
  tps_json_reader_init (&json, text, strlen (text));
  tps_table_spec_read_json (&json, &source->spec);
  if (!tps_json_end (&json, source->file->path, error)
      || !tps_table_spec_resolve (&source->spec, error))
    return FALSE;
  source->has_spec = TRUE;
  source->shard = source->spec.shard;
  if (steps != NULL
      && !g_ascii_string_to_unsigned (steps, 10, 0, (guint64) TPS_MAX_COUNT / 2, &n_steps, NULL))
    return fail (source, TPS_TABLE_FILE_STEPS " is not a number in [0, 2^61]", error);
  import->table->n_steps = MAX (import->table->n_steps, (gint64) n_steps);
  return TRUE;
}

static gboolean
find_ids (Source *source, GError **error)
{
  gint64 dims[1] = { -1 };
  g_autofree gchar *name = NULL;

  if (!source->has_spec
      || g_hash_table_lookup (source->file->metadata, TPS_TABLE_FILE_INCREMENT) == NULL)
    return TRUE;
  name = g_strconcat (source->spec.name, ".row_ids", NULL);
  source->ids = tps_safetensors_reader_require (source->file, name, "I64", 1, dims, error);
  return source->ids != NULL;
}

static gboolean
import_file (Import *import, const gchar *path, GError **error)
{
  TpsBudget *budget = import->import->into->budget;
  Source source = { 0 };
  gboolean ok;

  source.file = tps_safetensors_reader_new_charged (import->import->disk, path, budget, error);
  if (source.file == NULL)
    return FALSE;
  ok = read_spec (import, &source, error) && find_ids (&source, error)
       && read_weight (import, &source, error) && read_state (import, &source, error);
  if (source.ids == NULL)
    g_array_append_val (import->origins, ((Origin) { path, source.shard }));
  tps_table_spec_clear (&source.spec);
  tps_safetensors_reader_free (source.file);
  return ok;
}

static gboolean
check_all_rows (const Import *import, GError **error)
{
  const TpsShard *shard = &import->table->spec.shard;

  for (gint64 slot = 0; slot < shard->n_rows; slot++)
    if ((import->has_row[slot / 8] & (1 << slot % 8)) == 0)
      return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                       "table %s: row %" G_GINT64_FORMAT " is not in any of the files",
                       import->table->spec.name, tps_shard_get_row (shard, slot));
  return TRUE;
}

TpsTable *
tps_table_import_read (const TpsTableImport *import, const TpsTableSpec *spec, GError **error)
{
  g_auto (TpsTableSpec) resolved = { 0 };
  g_auto (TpsCharge) charge = { import->into->budget, 0 };
  g_autoptr (TpsTable) table = NULL;
  g_autoptr (GArray) origins = g_array_new (FALSE, FALSE, sizeof (Origin));
  g_autofree guint8 *has_row = NULL;
  Import all;
  gsize n_bytes;

  tps_table_spec_copy (&resolved, spec);
  if (!tps_table_spec_resolve (&resolved, error))
    return NULL;
  g_strlcpy (resolved.place.device, "cpu", sizeof resolved.place.device);
  table = tps_table_store_make_unfilled (import->into, &resolved, error);
  n_bytes = (gsize) resolved.shard.n_rows / 8 + 1;
  if (table == NULL || !tps_charge_set (&charge, n_bytes + 2 * PIECE_BYTES, error))
    return NULL;
  has_row = g_malloc0 (n_bytes);
  all = (Import) { import, table, has_row, origins };
  for (guint i = 0; i < import->n_paths; i++)
    if (!import_file (&all, import->paths[i], error))
      return NULL;
  return check_all_rows (&all, error) ? g_steal_pointer (&table) : NULL;
}

/* Adds the table to the store. The incarnation of the table is a new LSN. */
static gboolean
publish (const TpsTableImport *import, TpsTable *table, GError **error)
{
  TpsSequencer *sequencer = import->into->sequencer;

  table->incarnation = tps_sequencer_get_lsn (sequencer) + 1;
  tps_table_set_progress (table, (TpsTableProgress) { table->incarnation, table->n_steps });
  if (!tps_table_store_adopt (import->into, table, error))
    return FALSE;
  tps_sequencer_set_lsn (sequencer, table->incarnation);
  return TRUE;
}

gboolean
tps_table_import (const TpsTableImport *import, const TpsTableSpec *spec, GError **error)
{
  g_autoptr (TpsTable) table = tps_table_import_read (import, spec, error);

  return table != NULL && publish (import, table, error);
}
