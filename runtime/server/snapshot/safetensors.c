/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Writing. Direct writes must be whole blocks of 4 KiB, but tensors may begin and end at any byte.
 * Each tensor collects its inner blocks in a large block of its own. The write of a large block is
 * queued when it is full. A block at the beginning or the end of a tensor is an edge. Edges are
 * collected separately, because neighbouring tensors also write to them.
 *
 * The offset of the elements must be known before the first element is written, but the header is
 * written last. Therefore, the header is measured with the largest possible numbers, and is finally
 * padded with blanks. */

#include "runtime/server/snapshot/safetensors.h"

#include <string.h>

#include "runtime/base/crc32c.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/thread.h"
#include "runtime/server/log/disk.h"
#include "runtime/server/log/read_ahead.h"
#include "runtime/server/snapshot/json_reader.h"
#include "runtime/server/snapshot/npy.h"

#define BLOCK ((gint64) TPS_DISK_BLOCK)

/* The maximum value of an unknown dimension, for elements of at most 8 bytes. */
#define MAX_UNKNOWN_DIM ((gint64) 1 << 56)

/* ---- writing by threads ---------------------------------------------------------------------- */

/* Writes to one file, with threads of its own, so that the caller can prepare the next piece during
 * the writes. There is one thread for each concurrent write that the disk supports, at most four.
 * Memory: at most BEHIND_BLOCKS blocks of BEHIND_BYTES.
 *
 * Thread: one at a time.
 */

#define BEHIND_BYTES ((gsize) 2 << 20)
#define BEHIND_BLOCKS 8

#define MAX_THREADS 4

typedef struct
{
  guint8 *block;
  gsize n_bytes;
  gint64 offset;
} Write;

typedef struct
{
  TpsDiskFile *file;
  guint n_threads;
  TpsThread threads[MAX_THREADS];

  TpsMutex lock; /* guards the following */
  TpsCond changed;
  /* [n_free]: the free blocks; a block is allocated when it is first needed */
  guint8 *blocks[BEHIND_BLOCKS];
  guint n_free, n_made;       /* free blocks, allocated blocks */
  Write queue[BEHIND_BLOCKS]; /* a ring that begins at `first` */
  guint first, n_queued;
  guint n_writing; /* writes in progress */
  gboolean is_end; /* the threads end when the queue is empty */
  GError *error;
} WriteBehind;

/* Removes the first write from the queue, and does it unless an earlier write has failed. The lock
 * is held, but is released during the write. */
static void
write_first (WriteBehind *behind)
{
  Write write = behind->queue[behind->first];
  gboolean has_failed = behind->error != NULL;
  GError *error = NULL;

  behind->first = (behind->first + 1) % BEHIND_BLOCKS;
  behind->n_queued--;
  behind->n_writing++;
  tps_mutex_unlock (&behind->lock);
  if (!has_failed)
    behind->file->disk->write (behind->file, write.block, write.n_bytes, write.offset, FALSE,
                               &error);
  tps_mutex_lock (&behind->lock);
  behind->n_writing--;
  if (behind->error == NULL)
    behind->error = error;
  else
    g_clear_error (&error);
  behind->blocks[behind->n_free++] = write.block;
  tps_cond_broadcast (&behind->changed);
}

static gpointer
write_all (gpointer user_data)
{
  WriteBehind *behind = user_data;

  TPS_LOCK_SCOPE (&behind->lock);
  while (behind->n_queued > 0 || !behind->is_end)
    if (behind->n_queued > 0)
      write_first (behind);
    else
      tps_cond_wait (&behind->changed, &behind->lock);
  return NULL;
}

/* Waits for the queued writes, and frees. All blocks must have been submitted or returned. */
static void
write_behind_free (WriteBehind *behind)
{
  tps_mutex_lock (&behind->lock);
  behind->is_end = TRUE;
  tps_cond_broadcast (&behind->changed);
  tps_mutex_unlock (&behind->lock);
  for (guint i = 0; i < behind->n_threads; i++)
    tps_sync_check (pthread_join (behind->threads[i], NULL));
  for (guint i = 0; i < behind->n_free; i++)
    g_aligned_free (behind->blocks[i]);
  g_clear_error (&behind->error);
  tps_cond_clear (&behind->changed);
  tps_mutex_clear (&behind->lock);
  g_free (behind);
}

/* Starts the threads. `file` is borrowed, and must not be used for anything else until
 * write_behind_free(). Errors: RESOURCE_EXHAUSTED (no thread). */
static WriteBehind *
write_behind_new (TpsDiskFile *file, GError **error)
{
  WriteBehind *behind = g_new0 (WriteBehind, 1);
  guint n_threads = CLAMP (file->disk->n_writers, 1, MAX_THREADS);
  GError *failure = NULL;

  behind->file = file;
  tps_mutex_init (&behind->lock);
  tps_cond_init (&behind->changed);
  while (behind->n_threads < n_threads
         && tps_thread_start (&behind->threads[behind->n_threads], "tps-write", write_all, behind,
                              &failure))
    behind->n_threads++;
  if (behind->n_threads == 0)
    {
      g_propagate_error (error, failure);
      write_behind_free (behind);
      return NULL;
    }
  g_clear_error (&failure); /* one thread suffices */
  return behind;
}

/* Returns a block of BEHIND_BYTES, aligned for direct writes, with undefined contents.
 * The caller must submit or return it. Waits until a block is free, so the caller must hold fewer
 * than BEHIND_BLOCKS. */
static guint8 *
write_behind_take (WriteBehind *behind)
{
  TPS_LOCK_SCOPE (&behind->lock);
  if (behind->n_free == 0 && behind->n_made < BEHIND_BLOCKS)
    {
      behind->blocks[behind->n_free++] = g_aligned_alloc (1, BEHIND_BYTES, TPS_DISK_BLOCK);
      behind->n_made++;
    }
  while (behind->n_free == 0)
    tps_cond_wait (&behind->changed, &behind->lock);
  return behind->blocks[--behind->n_free];
}

/* Queues the write of the first `n_bytes` of a block, which the caller must not use any more.
 * Writes may take place in any order. After a failure, later blocks are not written. */
static void
write_behind_submit (WriteBehind *behind, guint8 *block, gsize n_bytes, gint64 offset)
{
  TPS_LOCK_SCOPE (&behind->lock);
  behind->queue[(behind->first + behind->n_queued++) % BEHIND_BLOCKS] = (Write) { block, n_bytes,
                                                                                  offset };
  tps_cond_broadcast (&behind->changed);
}

/* Waits for the queued writes. Errors: the first error of the disk. */
static gboolean
write_behind_drain (WriteBehind *behind, GError **error)
{
  GError *failure;

  tps_mutex_lock (&behind->lock);
  while (behind->n_queued > 0 || behind->n_writing > 0)
    tps_cond_wait (&behind->changed, &behind->lock);
  failure = behind->error != NULL ? g_error_copy (behind->error) : NULL;
  tps_mutex_unlock (&behind->lock);
  if (failure == NULL)
    return TRUE;
  g_propagate_error (error, failure);
  return FALSE;
}

/* ---- files ----------------------------------------------------------------------------------- */

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
  WriteBehind *behind;
  GString *metadata; /* members of the JSON object, each after a comma */
  GArray *parts;     /* of Part */
  GHashTable *edges; /* a set of Edge, by `at` */
  gint64 data_begin;
};

/* The number of bytes before the dictionary in version 1. Later versions have two more bytes, which
 * are not text. */
#define MIN_NPY_HEADER 10
#define MAX_NPY_HEADER (1 << 20) /* NumPy writes less than 200 bytes for an array of numbers */

/* The maximum memory of a parsed header for each byte of its text. The worst cases are many short
 * texts and many small tensors. */
#define HEADER_COST 16
/* A tensor of at least this size is read ahead with direct reads, because the page cache would take
 * more time than the disk. */
#define MIN_AHEAD_BYTES ((gint64) 8 << 20)

typedef struct
{
  const gchar *name;
  gsize element_bytes;
} DType;

static const DType dtypes[] = {
  { "F32", 4 }, { "F16", 2 }, { "BF16", 2 },    { "F64", 8 },     { "I64", 8 }, { "I32", 4 },
  { "I16", 2 }, { "I8", 1 },  { "U8", 1 },      { "BOOL", 1 },    { "U16", 2 }, { "U32", 4 },
  { "U64", 8 }, { "C64", 8 }, { "F8_E4M3", 1 }, { "F8_E5M2", 1 },
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

static const DType *
find_dtype (const gchar *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (dtypes); i++)
    if (g_str_equal (name, dtypes[i].name))
      return &dtypes[i];
  return NULL;
}

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
        {
          tps_mutex_lock (&writer->behind->lock);
          writer->behind->blocks[writer->behind->n_free++] = part->block;
          tps_cond_broadcast (&writer->behind->changed);
          tps_mutex_unlock (&writer->behind->lock);
        }
      g_free (part->tensor.name);
    }
  if (writer->behind != NULL)
    write_behind_free (writer->behind);
  writer->file->disk->close (writer->file);
  g_array_unref (writer->parts);
  g_hash_table_unref (writer->edges);
  g_string_free (writer->metadata, TRUE);
  g_free (writer);
}

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
                            .element_bytes = find_dtype (dtype)->element_bytes,
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

static void
place_parts (TpsSafetensorsWriter *writer, gint64 begin)
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
  place_parts (writer, 0);
  header = make_header (writer);
  n_bytes = (gint64) sizeof (guint64) + (gint64) header->len;
  g_string_free (header, TRUE);
  n_bytes = (n_bytes + TPS_SAFETENSORS_ALIGNMENT - 1) / TPS_SAFETENSORS_ALIGNMENT
            * TPS_SAFETENSORS_ALIGNMENT;
  place_parts (writer, n_bytes);
  if (is_open)
    last->dims[0] = -1;
  if (n_bytes - (gint64) sizeof (guint64) > TPS_SAFETENSORS_MAX_HEADER)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "a file of %u tensors: its header would have %" G_GINT64_FORMAT
                     " bytes, safetensors allows %d",
                     writer->parts->len, n_bytes, TPS_SAFETENSORS_MAX_HEADER);
  /* Several writes can run at the same time only if the file does not grow. */
  if (!is_open
      && !writer->file->disk->preallocate (writer->file, (last->end + BLOCK - 1) / BLOCK * BLOCK,
                                           error))
    return FALSE;
  writer->behind = write_behind_new (writer->file, error);
  return writer->behind != NULL;
}

/* Queues the write of an edge. Although an edge is small, it takes a block of the queue. */
static void
write_edge (TpsSafetensorsWriter *writer, Edge *edge)
{
  guint8 *block = write_behind_take (writer->behind);

  memcpy (block, edge->data, sizeof edge->data);
  write_behind_submit (writer->behind, block, sizeof edge->data, edge->at);
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
  write_behind_submit (writer->behind, part->block, part->n_filled, part->block_at);
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
      part->block = write_behind_take (writer->behind);
      part->block_at = part->at;
      part->n_filled = 0;
    }
  n_bytes = MIN (n_bytes, (gsize) (inner_end - part->at));
  n_bytes = MIN (n_bytes, BEHIND_BYTES - part->n_filled);
  memcpy (part->block + part->n_filled, data, n_bytes);
  part->n_filled += n_bytes;
  if (part->n_filled == BEHIND_BYTES || part->at + (gint64) n_bytes == inner_end)
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
  TPS_LOCK_SCOPE (&writer->behind->lock);
  return writer->behind->error == NULL;
}

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
      guint8 *block = write_behind_take (writer->behind);

      n_now = MIN (writer->data_begin - at, (gint64) BEHIND_BYTES);
      memcpy (block, json->str + at, (gsize) n_now);
      crc = tps_crc32c (crc, block, (gsize) n_now);
      write_behind_submit (writer->behind, block, (gsize) n_now, at);
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
  if (!write_behind_drain (writer->behind, error) || !disk->truncate (writer->file, end, error)
      || !disk->sync (writer->file, error))
    return FALSE;
  if (n_bytes != NULL)
    *n_bytes = (guint64) end;
  return TRUE;
}

static gboolean
fail (const gchar *path, gint64 offset, const gchar *problem, GError **error)
{
  return tps_fail (error, TPS_ERROR_ABORTED, "%s: %s at offset %" G_GINT64_FORMAT, path, problem,
                   offset);
}

static void
read_dtype (TpsJsonReader *json, GString *text, TpsSafetensor *tensor)
{
  const DType *dtype;

  tps_json_read_string (json, text);
  dtype = find_dtype (text->str);
  if (dtype == NULL)
    {
      tps_json_fail (json, "an unknown element type");
      return;
    }
  tensor->dtype = dtype->name;
  tensor->element_bytes = dtype->element_bytes;
}

static void
read_offsets (TpsJsonReader *json, TpsSafetensor *tensor)
{
  gint64 offsets[2] = { 0, -1 };
  guint n = 0;

  tps_json_begin_array (json);
  while (tps_json_next_element (json))
    {
      gint64 offset = tps_json_read_i64 (json);

      if (n == G_N_ELEMENTS (offsets))
        tps_json_fail (json, "more than two offsets");
      else
        offsets[n++] = offset;
    }
  tensor->begin = offsets[0];
  tensor->end = offsets[1];
}

static gboolean
has_its_size (const TpsSafetensor *tensor)
{
  gint64 n_bytes = (gint64) tensor->element_bytes;

  for (guint i = 0; i < tensor->n_dims; i++)
    if (__builtin_mul_overflow (n_bytes, tensor->dims[i], &n_bytes))
      return FALSE;
  return tensor->begin >= 0 && tensor->end >= tensor->begin
         && tensor->end - tensor->begin == n_bytes;
}

static void
read_tensor (TpsSafetensorsReader *reader, TpsJsonReader *json, GString *text)
{
  TpsSafetensor tensor = { .name = g_strdup (text->str), .end = -1 };

  tps_json_begin_object (json);
  while (tps_json_next_member (json, text))
    if (g_str_equal (text->str, "dtype"))
      read_dtype (json, text, &tensor);
    else if (g_str_equal (text->str, "shape"))
      {
        tensor.n_dims = 0;
        tps_json_begin_array (json);
        while (tps_json_next_element (json))
          {
            gint64 dim = tps_json_read_i64 (json);

            if (tensor.n_dims == TPS_TENSOR_MAX_DIMS || dim < 0)
              tps_json_fail (json, "a shape with a negative dimension or too many dimensions");
            else
              tensor.dims[tensor.n_dims++] = dim;
          }
      }
    else if (g_str_equal (text->str, "data_offsets"))
      read_offsets (json, &tensor);
    else
      tps_json_fail (json, "a tensor with an unknown member");
  if (json->problem == NULL && (tensor.dtype == NULL || !has_its_size (&tensor)))
    tps_json_fail (json, "a tensor whose size is not that of its elements");
  g_array_append_val (reader->tensors, tensor);
}

static gint
compare_begins (gconstpointer a, gconstpointer b)
{
  const TpsSafetensor *left = a;
  const TpsSafetensor *right = b;

  if (left->begin != right->begin)
    return left->begin < right->begin ? -1 : 1;
  return (left->end > right->end) - (left->end < right->end); /* empty tensors first */
}

/* Reads the checksums of tensors. Only files written by ThriftPS have them. */
static gboolean
read_checksums (TpsSafetensorsReader *reader, GError **error)
{
  const gchar *map = g_hash_table_lookup (reader->metadata, "crc32c");
  g_autofree gchar *what = g_strconcat (reader->path, ": checksums in the header", NULL);
  GString *text;
  TpsJsonReader json;
  gboolean ok;

  if (map == NULL)
    return TRUE;
  text = g_string_new (NULL);
  tps_json_reader_init (&json, map, strlen (map));
  tps_json_begin_object (&json);
  while (tps_json_next_member (&json, text))
    {
      guint number = GPOINTER_TO_UINT (g_hash_table_lookup (reader->by_name, text->str));
      guint64 crc;

      tps_json_read_string (&json, text);
      if (number == 0 || !g_ascii_string_to_unsigned (text->str, 16, 0, G_MAXUINT32, &crc, NULL))
        {
          tps_json_fail (&json, "not the checksum of a tensor");
          continue;
        }
      g_array_index (reader->tensors, TpsSafetensor, number - 1).has_crc = TRUE;
      g_array_index (reader->tensors, TpsSafetensor, number - 1).crc32c = (guint32) crc;
    }
  ok = tps_json_end (&json, what, error);
  g_string_free (text, TRUE);
  return ok;
}

/* Sorts the tensors by their offsets, and converts these to offsets in the file. The tensors must
 * fill the file without holes or overlaps. */
static gboolean
place_tensors (TpsSafetensorsReader *reader, GError **error)
{
  gint64 end = 0;

  g_array_sort (reader->tensors, compare_begins);
  for (guint i = 0; i < reader->tensors->len; i++)
    {
      TpsSafetensor *tensor = &g_array_index (reader->tensors, TpsSafetensor, i);

      if (tensor->begin != end)
        return fail (reader->path, reader->data_begin + end, "a hole or an overlap of tensors",
                     error);
      end = tensor->end;
      tensor->begin += reader->data_begin;
      tensor->end += reader->data_begin;
      if (!g_hash_table_insert (reader->by_name, tensor->name, GUINT_TO_POINTER (i + 1)))
        return fail (reader->path, 8, "two tensors of one name in the header", error);
    }
  if (end != reader->n_bytes - reader->data_begin)
    return fail (reader->path, reader->n_bytes,
                 end > reader->n_bytes - reader->data_begin
                     ? "the file ends before its tensors"
                     : "the file continues after its tensors",
                 error);
  return TRUE;
}

static gboolean
parse_header (TpsSafetensorsReader *reader, const gchar *header, gsize n_bytes, GError **error)
{
  g_autofree gchar *what = g_strconcat (reader->path, ": header", NULL);
  GString *text = g_string_new (NULL);
  TpsJsonReader json;
  gboolean ok;

  tps_json_reader_init (&json, header, n_bytes);
  tps_json_begin_object (&json);
  while (tps_json_next_member (&json, text))
    if (g_str_equal (text->str, "__metadata__"))
      {
        tps_json_begin_object (&json);
        while (tps_json_next_member (&json, text))
          {
            g_autofree gchar *key = g_strdup (text->str);

            tps_json_read_string (&json, text);
            if (!g_hash_table_insert (reader->metadata, g_steal_pointer (&key),
                                      g_strdup (text->str)))
              tps_json_fail (&json, "two values of one key in the metadata");
          }
      }
    else
      read_tensor (reader, &json, text);
  ok = tps_json_end (&json, what, error);
  g_string_free (text, TRUE);
  return ok && place_tensors (reader, error) && read_checksums (reader, error);
}

static gboolean
read_exactly (TpsSafetensorsReader *reader, gpointer data, gsize n_bytes, gint64 offset,
              GError **error)
{
  gssize n_read = reader->file->disk->read (reader->file, data, n_bytes, offset, error);

  if (n_read < 0)
    return FALSE;
  return (gsize) n_read == n_bytes
         || fail (reader->path, offset + n_read, "the file is truncated", error);
}

static gboolean
read_header (TpsSafetensorsReader *reader, GError **error)
{
  g_autofree gchar *header = NULL;
  guint64 n_bytes;

  reader->n_bytes = reader->file->disk->get_size (reader->file, error);
  if (reader->n_bytes < 0 || !read_exactly (reader, &n_bytes, sizeof n_bytes, 0, error))
    return FALSE;
  reader->header_crc32c = tps_crc32c (0, &n_bytes, sizeof n_bytes);
  n_bytes = GUINT64_FROM_LE (n_bytes);
  if (n_bytes > TPS_SAFETENSORS_MAX_HEADER || n_bytes > (guint64) reader->n_bytes - sizeof n_bytes)
    return fail (reader->path, 0, "the header is longer than the file, or than 100 MB", error);
  if (!tps_charge_set (&reader->charge, n_bytes * HEADER_COST, error))
    {
      g_prefix_error (error, "%s: header of %" G_GUINT64_FORMAT " bytes: ", reader->path, n_bytes);
      return FALSE;
    }
  header = g_try_malloc (n_bytes + 1);
  if (header == NULL)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                     "%s: no memory for a header of %" G_GUINT64_FORMAT " bytes", reader->path,
                     n_bytes);
  if (!read_exactly (reader, header, n_bytes, sizeof n_bytes, error))
    return FALSE;
  reader->header_crc32c = tps_crc32c (reader->header_crc32c, header, n_bytes);
  reader->data_begin = (gint64) (n_bytes + sizeof n_bytes);
  return parse_header (reader, header, n_bytes, error);
}

static gboolean
parse_npy (TpsSafetensorsReader *reader, const gchar *header, gsize n_bytes, GError **error)
{
  TpsSafetensor array = { .name = g_strdup ("array") };
  gboolean ok = tps_npy_parse (header, n_bytes, &array);

  array.end = reader->n_bytes - reader->data_begin;
  g_array_append_val (reader->tensors, array);
  if (!ok)
    return fail (reader->path, 0, "not an array of little-endian floating-point numbers in C order",
                 error);
  if (!has_its_size (&array))
    return fail (reader->path, reader->n_bytes, "the length of the file does not match its array",
                 error);
  return place_tensors (reader, error);
}

static gboolean
read_npy_header (TpsSafetensorsReader *reader, GError **error)
{
  guint8 prefix[TPS_NPY_PREFIX_BYTES];
  g_autofree gchar *header = NULL;

  reader->n_bytes = reader->file->disk->get_size (reader->file, error);
  if (reader->n_bytes < 0 || !read_exactly (reader, prefix, sizeof prefix, 0, error))
    return FALSE;
  reader->data_begin = tps_npy_get_data_begin (prefix);
  if (reader->data_begin < MIN_NPY_HEADER || reader->data_begin > reader->n_bytes
      || reader->data_begin > MAX_NPY_HEADER)
    return fail (reader->path, 0, "not a .npy file", error);
  header = g_malloc ((gsize) reader->data_begin);
  return read_exactly (reader, header, (gsize) reader->data_begin, 0, error)
         && parse_npy (reader, header + MIN_NPY_HEADER, (gsize) reader->data_begin - MIN_NPY_HEADER,
                       error);
}

static void
clear_tensor (gpointer tensor)
{
  g_free (((TpsSafetensor *) tensor)->name);
}

static TpsSafetensorsReader *
reader_new (TpsDisk *disk, const gchar *path, TpsBudget *budget,
            gboolean (*read_file_header) (TpsSafetensorsReader *reader, GError **error),
            GError **error)
{
  TpsDiskFile *file = disk->open (disk, path, TPS_DISK_READ_ONLY, error);
  g_autoptr (TpsSafetensorsReader) reader = NULL;

  if (file == NULL)
    return NULL;
  reader = g_new0 (TpsSafetensorsReader, 1);
  reader->path = g_strdup (path);
  reader->file = file;
  reader->charge.budget = budget;
  reader->tensors = g_array_new (FALSE, FALSE, sizeof (TpsSafetensor));
  g_array_set_clear_func (reader->tensors, clear_tensor);
  reader->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  reader->metadata = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  return read_file_header (reader, error) ? g_steal_pointer (&reader) : NULL;
}

TpsSafetensorsReader *
tps_safetensors_reader_new (TpsDisk *disk, const gchar *path, GError **error)
{
  return reader_new (disk, path, NULL, read_header, error);
}

TpsSafetensorsReader *
tps_safetensors_reader_new_charged (TpsDisk *disk, const gchar *path, TpsBudget *budget,
                                    GError **error)
{
  return reader_new (disk, path, budget,
                     g_str_has_suffix (path, ".npy") ? read_npy_header : read_header, error);
}

void
tps_safetensors_reader_free (TpsSafetensorsReader *reader)
{
  g_clear_pointer (&reader->ahead, tps_read_ahead_free);
  if (reader->direct != NULL)
    reader->direct->disk->close (reader->direct);
  reader->file->disk->close (reader->file);
  g_hash_table_unref (reader->metadata);
  g_hash_table_unref (reader->by_name);
  g_array_unref (reader->tensors);
  tps_charge_clear (&reader->charge);
  g_free (reader->path);
  g_free (reader);
}

const TpsSafetensor *
tps_safetensors_reader_find_tensor (TpsSafetensorsReader *reader, const gchar *name)
{
  guint number = GPOINTER_TO_UINT (g_hash_table_lookup (reader->by_name, name));

  return number > 0 ? &g_array_index (reader->tensors, TpsSafetensor, number - 1) : NULL;
}

static gboolean
has_shape (const TpsSafetensor *tensor, guint n_dims, const gint64 *dims)
{
  if (tensor->n_dims != n_dims)
    return FALSE;
  for (guint i = 0; i < n_dims; i++)
    if (dims[i] >= 0 && tensor->dims[i] != dims[i])
      return FALSE;
  return TRUE;
}

const TpsSafetensor *
tps_safetensors_reader_require (TpsSafetensorsReader *reader, const gchar *name, const gchar *dtype,
                                guint n_dims, const gint64 *dims, GError **error)
{
  const TpsSafetensor *tensor = tps_safetensors_reader_find_tensor (reader, name);

  if (tensor != NULL && g_str_equal (tensor->dtype, dtype) && has_shape (tensor, n_dims, dims))
    return tensor;
  return tps_fail_null (error, TPS_ERROR_ABORTED,
                        "%s: there is no tensor %s of type %s and the expected shape", reader->path,
                        name, dtype);
}

void
tps_safetensor_stream_init (TpsSafetensorStream *stream, TpsSafetensorsReader *reader,
                            const TpsSafetensor *tensor)
{
  *stream = (TpsSafetensorStream) { .reader = reader, .tensor = tensor, .at = tensor->begin };
}

/* Begins to read [begin, end) of `tensor` ahead, and ends the read-ahead of a different tensor.
 * After an error, `ahead` is NULL, and the elements are read when they are needed. */
static void
begin_ahead (TpsSafetensorsReader *reader, const TpsSafetensor *tensor, gint64 begin, gint64 end)
{
  TpsDisk *disk = reader->file->disk;

  g_clear_pointer (&reader->ahead, tps_read_ahead_free);
  if (reader->direct == NULL)
    reader->direct = disk->open (disk, reader->path, TPS_DISK_READ_ONLY | TPS_DISK_DIRECT, NULL);
  if (reader->direct != NULL)
    reader->ahead = tps_read_ahead_new (reader->direct, begin, end, NULL);
  reader->ahead_tensor = tensor;
}

static gboolean
is_ahead (const TpsSafetensorStream *stream)
{
  const TpsSafetensorsReader *reader = stream->reader;

  return reader->ahead != NULL && reader->ahead_tensor == stream->tensor
         && tps_read_ahead_get_position (reader->ahead) == stream->at;
}

/* Reads up to `*n_bytes`, and sets `*n_bytes` to the number of bytes read. Blocks that a tensor
 * shares with its neighbours are read separately, because read-ahead takes only whole blocks. */
static gboolean
read_some (TpsSafetensorStream *stream, gpointer data, gsize *n_bytes, GError **error)
{
  TpsSafetensorsReader *reader = stream->reader;
  const TpsSafetensor *tensor = stream->tensor;
  gint64 inner_begin = (tensor->begin + BLOCK - 1) / BLOCK * BLOCK;
  gint64 inner_end = tensor->end / BLOCK * BLOCK;

  if (inner_end - inner_begin < MIN_AHEAD_BYTES || stream->at >= inner_end)
    return read_exactly (reader, data, *n_bytes, stream->at, error);
  if (stream->at < inner_begin)
    {
      *n_bytes = MIN (*n_bytes, (gsize) (inner_begin - stream->at));
      return read_exactly (reader, data, *n_bytes, stream->at, error);
    }
  if (stream->at == inner_begin && !is_ahead (stream))
    begin_ahead (reader, tensor, inner_begin, inner_end);
  *n_bytes = MIN (*n_bytes, (gsize) (inner_end - stream->at));
  if (!is_ahead (stream))
    return read_exactly (reader, data, *n_bytes, stream->at, error);
  if (!tps_read_ahead_read (reader->ahead, data, *n_bytes, error))
    {
      g_clear_pointer (&reader->ahead, tps_read_ahead_free);
      g_prefix_error (error, "%s: ", reader->path);
      return FALSE;
    }
  if (tps_read_ahead_get_position (reader->ahead) == inner_end)
    g_clear_pointer (&reader->ahead, tps_read_ahead_free);
  return TRUE;
}

static gboolean
read_bytes (TpsSafetensorStream *stream, guint8 *data, gsize n_bytes, GError **error)
{
  gsize n;

  for (; n_bytes > 0; n_bytes -= n)
    {
      n = n_bytes;
      if (!read_some (stream, data, &n, error))
        return FALSE;
      stream->at += (gint64) n;
      data += n;
    }
  return TRUE;
}

gboolean
tps_safetensor_stream_read (TpsSafetensorStream *stream, gpointer data, gsize n_bytes,
                            GError **error)
{
  const TpsSafetensor *tensor = stream->tensor;

  if (n_bytes == 0)
    return TRUE;
  g_assert (stream->at + (gint64) n_bytes <= tensor->end);
  if (!read_bytes (stream, data, n_bytes, error))
    return FALSE;
  if (!tensor->has_crc)
    return TRUE;
  stream->crc32c = tps_crc32c (stream->crc32c, data, n_bytes);
  if (stream->at < tensor->end || stream->crc32c == tensor->crc32c)
    return TRUE;
  return tps_fail (error, TPS_ERROR_ABORTED,
                   "%s: tensor %s at offset %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT
                   " is damaged: its CRC32C is %08x, the header says %08x",
                   stream->reader->path, tensor->name, tensor->begin, tensor->end, stream->crc32c,
                   tensor->crc32c);
}
