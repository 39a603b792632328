/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Direct writes must be whole blocks of 4 KiB, but tensors may begin and end at any byte. Each
 * tensor collects its inner blocks in a large block of its own. The write of a large block is
 * queued when it is full. A block at the beginning or the end of a tensor is an edge. Edges are
 * collected separately, because neighbouring tensors also write to them.
 *
 * The offset of the elements must be known before the first element is written, but the header is
 * written last. Therefore, the header is measured with the largest possible numbers, and is finally
 * padded with blanks. */

#include <string.h>

#include "runtime/base/crc32c.h"
#include "runtime/base/error.h"
#include "runtime/server/snapshot/json_reader.h"
#include "runtime/server/snapshot/safetensors.h"
#include "runtime/server/snapshot/write_behind.h"

#define BLOCK ((gint64) TPS_DISK_BLOCK)

/* The maximum value of an unknown dimension, for elements of at most 8 bytes. */
#define MAX_UNKNOWN_DIM ((gint64) 1 << 56)

/* A tensor that is being written. */
typedef struct
{
  TpsSafetensor tensor;
  gint64 saved_offsets[TPS_TENSOR_MAX_DIMS];
  gint64 at;      /* the offset of the next byte */
  guint8 *block;  /* NULL = no block is being collected */
  gsize n_filled; /* of `block` */
  gint64 block_at;
} Part;

/* A block at the beginning or the end of a tensor. */
typedef struct
{
  gint64 at; /* the offset of the block in the file; the key */
  gsize n_filled;
  guint8 data[TPS_DISK_BLOCK];
} Edge;

struct TpsSafetensorsWriter
{
  TpsDiskFile *file;
  TpsWriteBehind *behind;
  GString *metadata; /* members of the JSON object, each after a comma */
  GArray *parts;     /* of Part */
  GHashTable *edges; /* a set of Edge, by `at` */
  gint64 data_begin;
};

const gchar *
tps_safetensors_dtype (TpsDType dtype)
{
  switch (dtype)
    {
    case TPS_DTYPE_FLOAT32:
      return "F32";
    case TPS_DTYPE_FLOAT64:
      return "F64";
    case TPS_DTYPE_FLOAT16:
      return "F16";
    case TPS_DTYPE_BFLOAT16:
      return "BF16";
    case TPS_DTYPE_INT32:
      return "I32";
    case TPS_DTYPE_INT64:
      return "I64";
    }
  g_assert_not_reached ();
}

/* Returns the size of an element of a dtype that is written here. */
static gsize
element_bytes_of (const gchar *dtype)
{
  if (g_str_has_suffix (dtype, "64"))
    return 8;
  if (g_str_has_suffix (dtype, "32"))
    return 4;
  return g_str_has_suffix (dtype, "16") ? 2 : 1;
}

/* ---- life ------------------------------------------------------------------------------------ */

TpsSafetensorsWriter *
tps_safetensors_writer_new (TpsDisk *disk, const gchar *path, GError **error)
{
  TpsDiskFile *file = disk->open (disk, path,
                                  TPS_DISK_CREATE | TPS_DISK_DIRECT | TPS_DISK_BACKGROUND, error);
  TpsSafetensorsWriter *writer;

  if (file == NULL)
    return NULL;
  writer = g_new0 (TpsSafetensorsWriter, 1);
  writer->file = file;
  writer->metadata = g_string_new (NULL);
  writer->parts = g_array_new (FALSE, FALSE, sizeof (Part));
  writer->edges = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  return writer;
}

void
tps_safetensors_writer_free (TpsSafetensorsWriter *writer)
{
  for (guint i = 0; i < writer->parts->len; i++)
    {
      Part *part = &g_array_index (writer->parts, Part, i);

      if (part->block != NULL)
        tps_write_behind_return (writer->behind, part->block);
      g_free (part->tensor.name);
    }
  if (writer->behind != NULL)
    tps_write_behind_free (writer->behind);
  writer->file->disk->close (writer->file);
  g_array_unref (writer->parts);
  g_hash_table_unref (writer->edges);
  g_string_free (writer->metadata, TRUE);
  g_free (writer);
}

/* ---- the header ------------------------------------------------------------------------------ */

void
tps_safetensors_writer_add_metadata (TpsSafetensorsWriter *writer, const gchar *key,
                                     const gchar *value)
{
  g_string_append_c (writer->metadata, ',');
  tps_json_append_string (writer->metadata, key);
  g_string_append_c (writer->metadata, ':');
  tps_json_append_string (writer->metadata, value);
}

guint
tps_safetensors_writer_add_tensor (TpsSafetensorsWriter *writer, const gchar *name,
                                   const gchar *dtype, guint n_dims, const gint64 *dims,
                                   const gint64 *saved_offsets)
{
  Part part = { .tensor = { .name = g_strdup (name),
                            .dtype = dtype,
                            .element_bytes = element_bytes_of (dtype),
                            .n_dims = n_dims } };

  memcpy (part.tensor.dims, dims, n_dims * sizeof dims[0]);
  if (saved_offsets != NULL)
    memcpy (part.saved_offsets, saved_offsets, n_dims * sizeof saved_offsets[0]);
  g_array_append_val (writer->parts, part);
  return writer->parts->len - 1;
}

static void
append_list (GString *json, const gint64 *values, guint n)
{
  g_string_append_c (json, '[');
  for (guint i = 0; i < n; i++)
    g_string_append_printf (json, i > 0 ? ",%" G_GINT64_FORMAT : "%" G_GINT64_FORMAT, values[i]);
  g_string_append_c (json, ']');
}

/* Appends an object with a member for each tensor, as a text for the metadata. */
static void
append_map (GString *json, const TpsSafetensorsWriter *writer,
            void (*append_value) (GString *map, const Part *part))
{
  GString *map = g_string_new ("{");

  for (guint i = 0; i < writer->parts->len; i++)
    {
      const Part *part = &g_array_index (writer->parts, Part, i);

      if (i > 0)
        g_string_append_c (map, ',');
      tps_json_append_string (map, part->tensor.name);
      g_string_append_c (map, ':');
      append_value (map, part);
    }
  g_string_append_c (map, '}');
  tps_json_append_string (json, map->str);
  g_string_free (map, TRUE);
}

static void
append_crc (GString *map, const Part *part)
{
  g_string_append_printf (map, "\"%08x\"", part->tensor.crc32c);
}

static void
append_offsets (GString *map, const Part *part)
{
  g_string_append (map, "{\"saved_offsets\":");
  append_list (map, part->saved_offsets, part->tensor.n_dims);
  g_string_append_c (map, '}');
}

static GString *
make_header (const TpsSafetensorsWriter *writer)
{
  GString *json = g_string_new ("{\"__metadata__\":{\"format\":\"pt\",\"DCP_VERSION\":\"1.0\"");

  g_string_append (json, ",\"DCP_SHARDING_INFO\":");
  append_map (json, writer, append_offsets);
  g_string_append (json, ",\"crc32c\":");
  append_map (json, writer, append_crc);
  g_string_append (json, writer->metadata->str);
  g_string_append_c (json, '}');
  for (guint i = 0; i < writer->parts->len; i++)
    {
      const TpsSafetensor *tensor = &g_array_index (writer->parts, Part, i).tensor;
      gint64 offsets[2] = { tensor->begin - writer->data_begin, tensor->end - writer->data_begin };

      g_string_append_c (json, ',');
      tps_json_append_string (json, tensor->name);
      g_string_append_printf (json, ":{\"dtype\":\"%s\",\"shape\":", tensor->dtype);
      append_list (json, tensor->dims, tensor->n_dims);
      g_string_append (json, ",\"data_offsets\":");
      append_list (json, offsets, 2);
      g_string_append_c (json, '}');
    }
  g_string_append_c (json, '}');
  return json;
}

static gint64
count_bytes (const TpsSafetensor *tensor)
{
  gint64 n_bytes = (gint64) tensor->element_bytes;

  for (guint i = 0; i < tensor->n_dims; i++)
    n_bytes *= tensor->dims[i];
  return n_bytes;
}

/* Sets the offsets of all tensors. The first one begins at `begin`. */
static void
place_tensors (TpsSafetensorsWriter *writer, gint64 begin)
{
  writer->data_begin = begin;
  for (guint i = 0; i < writer->parts->len; i++)
    {
      Part *part = &g_array_index (writer->parts, Part, i);

      part->tensor.begin = part->at = begin;
      begin += count_bytes (&part->tensor);
      part->tensor.end = begin;
    }
}

/* Reserves the length of the file. Several writes can run at the same time only if the file does
 * not grow. */
static gboolean
reserve (TpsSafetensorsWriter *writer, gint64 end, GError **error)
{
  return writer->file->disk->preallocate (writer->file, (end + BLOCK - 1) / BLOCK * BLOCK, error);
}

gboolean
tps_safetensors_writer_begin (TpsSafetensorsWriter *writer, GError **error)
{
  TpsSafetensor *last = &g_array_index (writer->parts, Part, writer->parts->len - 1).tensor;
  gboolean is_open = last->dims[0] < 0;
  GString *header;
  gint64 n_bytes;

  /* The header is measured with an upper bound of the unknown dimension. */
  if (is_open)
    last->dims[0] = MAX_UNKNOWN_DIM;
  place_tensors (writer, 0);
  header = make_header (writer);
  n_bytes = (gint64) sizeof (guint64) + (gint64) header->len;
  g_string_free (header, TRUE);
  n_bytes = (n_bytes + TPS_SAFETENSORS_ALIGNMENT - 1) / TPS_SAFETENSORS_ALIGNMENT
            * TPS_SAFETENSORS_ALIGNMENT;
  place_tensors (writer, n_bytes);
  if (is_open)
    last->dims[0] = -1;
  if (n_bytes - (gint64) sizeof (guint64) > TPS_SAFETENSORS_MAX_HEADER)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "a file of %u tensors: its header would have %" G_GINT64_FORMAT
                   " bytes, safetensors allows %d",
                   writer->parts->len, n_bytes, TPS_SAFETENSORS_MAX_HEADER);
      return FALSE;
    }
  if (!is_open && !reserve (writer, last->end, error))
    return FALSE;
  writer->behind = tps_write_behind_new (writer->file, error);
  return writer->behind != NULL;
}

/* ---- elements -------------------------------------------------------------------------------- */

/* Queues the write of an edge. Although an edge is small, it takes a block of the queue. */
static void
write_edge (TpsSafetensorsWriter *writer, Edge *edge)
{
  guint8 *block = tps_write_behind_take (writer->behind);

  memcpy (block, edge->data, sizeof edge->data);
  tps_write_behind_submit (writer->behind, block, sizeof edge->data, edge->at);
}

static void
append_to_edge (TpsSafetensorsWriter *writer, gint64 at, gconstpointer data, gsize n_bytes)
{
  gint64 begin = at / BLOCK * BLOCK;
  Edge *edge = g_hash_table_lookup (writer->edges, &begin);

  if (edge == NULL)
    {
      edge = g_new0 (Edge, 1);
      edge->at = begin;
      g_hash_table_add (writer->edges, edge);
    }
  memcpy (edge->data + (at - begin), data, n_bytes);
  edge->n_filled += n_bytes;
  if (edge->n_filled < sizeof edge->data)
    return;
  write_edge (writer, edge);
  g_hash_table_remove (writer->edges, edge);
}

static void
submit_block (TpsSafetensorsWriter *writer, Part *part)
{
  tps_write_behind_submit (writer->behind, part->block, part->n_filled, part->block_at);
  part->block = NULL;
}

/* Copies bytes to the large block of a tensor. `inner_end` is the end of its inner blocks. Returns
 * the number of copied bytes. */
static gsize
append_to_block (TpsSafetensorsWriter *writer, Part *part, gint64 inner_end, const guint8 *data,
                 gsize n_bytes)
{
  if (part->block == NULL)
    {
      part->block = tps_write_behind_take (writer->behind);
      part->block_at = part->at;
      part->n_filled = 0;
    }
  n_bytes = MIN (n_bytes, (gsize) (inner_end - part->at));
  n_bytes = MIN (n_bytes, TPS_WRITE_BEHIND_BYTES - part->n_filled);
  memcpy (part->block + part->n_filled, data, n_bytes);
  part->n_filled += n_bytes;
  if (part->n_filled == TPS_WRITE_BEHIND_BYTES || part->at + (gint64) n_bytes == inner_end)
    submit_block (writer, part);
  return n_bytes;
}

static gsize
append_some (TpsSafetensorsWriter *writer, Part *part, const guint8 *data, gsize n_bytes)
{
  gint64 inner_begin = (part->tensor.begin + BLOCK - 1) / BLOCK * BLOCK;
  gint64 inner_end = part->tensor.end / BLOCK * BLOCK;

  if (part->at >= inner_begin && part->at < inner_end)
    return append_to_block (writer, part, inner_end, data, n_bytes);
  n_bytes = MIN (n_bytes, (gsize) (BLOCK - part->at % BLOCK));
  append_to_edge (writer, part->at, data, n_bytes);
  return n_bytes;
}

gboolean
tps_safetensors_writer_append (TpsSafetensorsWriter *writer, guint tensor, gconstpointer data,
                               gsize n_bytes)
{
  Part *part = &g_array_index (writer->parts, Part, tensor);
  const guint8 *next = data;

  g_assert (part->at + (gint64) n_bytes <= part->tensor.end);
  part->tensor.crc32c = tps_crc32c (part->tensor.crc32c, data, n_bytes);
  while (n_bytes > 0)
    {
      gsize n = append_some (writer, part, next, n_bytes);

      part->at += (gint64) n;
      next += n;
      n_bytes -= n;
    }
  return !tps_write_behind_has_failed (writer->behind);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Sets the length of the last tensor, if it was unknown, to the number of appended elements. */
static void
close_last (TpsSafetensorsWriter *writer)
{
  Part *part = &g_array_index (writer->parts, Part, writer->parts->len - 1);
  gint64 row = (gint64) part->tensor.element_bytes;

  if (part->tensor.dims[0] >= 0)
    return;
  for (guint i = 1; i < part->tensor.n_dims; i++)
    row *= part->tensor.dims[i];
  part->tensor.end = part->at;
  part->tensor.dims[0] = (part->at - part->tensor.begin) / row;
  if (part->block == NULL)
    return;
  /* The whole blocks are written, and the rest of the last one becomes an edge. */
  if (part->n_filled % TPS_DISK_BLOCK > 0)
    append_to_edge (writer, part->at / BLOCK * BLOCK,
                    part->block + part->n_filled / TPS_DISK_BLOCK * TPS_DISK_BLOCK,
                    part->n_filled % TPS_DISK_BLOCK);
  part->n_filled -= part->n_filled % TPS_DISK_BLOCK;
  if (part->n_filled > 0)
    submit_block (writer, part);
}

/* Queues the write of the header, padded with blanks. */
static void
write_header (TpsSafetensorsWriter *writer, guint32 *crc32c)
{
  GString *json = make_header (writer);
  guint64 n_bytes = GUINT64_TO_LE ((guint64) writer->data_begin - sizeof n_bytes);
  guint32 crc = 0;
  gint64 n_now;

  g_assert (json->len + sizeof n_bytes <= (gsize) writer->data_begin);
  g_string_insert_len (json, 0, (const gchar *) &n_bytes, sizeof n_bytes);
  while (json->len < (gsize) writer->data_begin)
    g_string_append_c (json, ' ');
  for (gint64 at = 0; at < writer->data_begin; at += n_now)
    {
      guint8 *block = tps_write_behind_take (writer->behind);

      n_now = MIN (writer->data_begin - at, (gint64) TPS_WRITE_BEHIND_BYTES);
      memcpy (block, json->str + at, (gsize) n_now);
      crc = tps_crc32c (crc, block, (gsize) n_now);
      tps_write_behind_submit (writer->behind, block, (gsize) n_now, at);
    }
  g_string_free (json, TRUE);
  if (crc32c != NULL)
    *crc32c = crc;
}

gboolean
tps_safetensors_writer_finish (TpsSafetensorsWriter *writer, guint64 *n_bytes,
                               guint32 *header_crc32c, GError **error)
{
  TpsDisk *disk = writer->file->disk;
  GHashTableIter edges;
  gpointer edge;
  gint64 end;

  close_last (writer);
  end = g_array_index (writer->parts, Part, writer->parts->len - 1).tensor.end;
  g_hash_table_iter_init (&edges, writer->edges);
  while (g_hash_table_iter_next (&edges, &edge, NULL))
    write_edge (writer, edge);
  write_header (writer, header_crc32c);
  if (!tps_write_behind_drain (writer->behind, error) || !disk->truncate (writer->file, end, error)
      || !disk->sync (writer->file, error))
    return FALSE;
  if (n_bytes != NULL)
    *n_bytes = (guint64) end;
  return TRUE;
}
