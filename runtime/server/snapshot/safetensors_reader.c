/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "runtime/base/crc32c.h"
#include "runtime/base/error.h"
#include "runtime/server/snapshot/json_reader.h"
#include "runtime/server/snapshot/npy.h"
#include "runtime/server/log/read_ahead.h"
#include "runtime/server/snapshot/safetensors.h"

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
#define BLOCK ((gint64) TPS_DISK_BLOCK)

struct TpsSafetensorsReader
{
  gchar *path;
  TpsDiskFile *file;
  TpsCharge charge;    /* for the header */
  TpsDiskFile *direct; /* the same file; NULL until a tensor is read ahead */
  TpsReadAhead *ahead; /* for whole blocks of `ahead_tensor`; NULL = none */
  const TpsSafetensor *ahead_tensor;
  gint64 n_bytes;
  gint64 data_begin;
  guint32 header_crc32c;
  GArray *tensors;      /* of TpsSafetensor, in the order of their elements */
  GHashTable *by_name;  /* number + 1, by name */
  GHashTable *metadata; /* texts, by key */
};

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

static gboolean
fail (const gchar *path, gint64 offset, const gchar *problem, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED, "%s: %s at offset %" G_GINT64_FORMAT, path,
               problem, offset);
  return FALSE;
}

/* ---- the header ------------------------------------------------------------------------------ */

static void
read_metadata (TpsSafetensorsReader *reader, TpsJsonReader *json, GString *text)
{
  tps_json_begin_object (json);
  while (tps_json_next_member (json, text))
    {
      g_autofree gchar *key = g_strdup (text->str);

      tps_json_read_string (json, text);
      if (!g_hash_table_insert (reader->metadata, g_steal_pointer (&key), g_strdup (text->str)))
        tps_json_fail (json, "two values of one key in the metadata");
    }
}

static void
read_dtype (TpsJsonReader *json, GString *text, TpsSafetensor *tensor)
{
  tps_json_read_string (json, text);
  for (guint i = 0; i < G_N_ELEMENTS (dtypes); i++)
    if (g_str_equal (text->str, dtypes[i].name))
      {
        tensor->dtype = dtypes[i].name;
        tensor->element_bytes = dtypes[i].element_bytes;
        return;
      }
  tps_json_fail (json, "an unknown element type");
}

static void
read_shape (TpsJsonReader *json, TpsSafetensor *tensor)
{
  tensor->n_dims = 0;
  tps_json_begin_array (json);
  while (tps_json_next_element (json))
    {
      gint64 dim = tps_json_read_i64 (json);

      if (tensor->n_dims == TPS_TENSOR_MAX_DIMS || dim < 0)
        tps_json_fail (json, "a shape with a negative dimension or too many dimensions");
      else
        tensor->dims[tensor->n_dims++] = dim;
    }
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
      read_shape (json, &tensor);
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
      read_metadata (reader, &json, text);
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
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "%s: no memory for a header of %" G_GUINT64_FORMAT " bytes", reader->path,
                   n_bytes);
      return FALSE;
    }
  if (!read_exactly (reader, header, n_bytes, sizeof n_bytes, error))
    return FALSE;
  reader->header_crc32c = tps_crc32c (reader->header_crc32c, header, n_bytes);
  reader->data_begin = (gint64) (n_bytes + sizeof n_bytes);
  return parse_header (reader, header, n_bytes, error);
}

/* ---- .npy ------------------------------------------------------------------------------------ */

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

/* ---- life ------------------------------------------------------------------------------------ */

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
tps_safetensors_reader_new_npy (TpsDisk *disk, const gchar *path, GError **error)
{
  return reader_new (disk, path, NULL, read_npy_header, error);
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

/* ---- contents -------------------------------------------------------------------------------- */

const gchar *
tps_safetensors_reader_get_path (TpsSafetensorsReader *reader)
{
  return reader->path;
}

guint64
tps_safetensors_reader_get_n_bytes (TpsSafetensorsReader *reader)
{
  return (guint64) reader->n_bytes;
}

guint32
tps_safetensors_reader_get_header_crc32c (TpsSafetensorsReader *reader)
{
  return reader->header_crc32c;
}

guint
tps_safetensors_reader_get_n_tensors (TpsSafetensorsReader *reader)
{
  return reader->tensors->len;
}

const TpsSafetensor *
tps_safetensors_reader_get_tensor (TpsSafetensorsReader *reader, guint tensor)
{
  return &g_array_index (reader->tensors, TpsSafetensor, tensor);
}

const TpsSafetensor *
tps_safetensors_reader_find_tensor (TpsSafetensorsReader *reader, const gchar *name)
{
  guint number = GPOINTER_TO_UINT (g_hash_table_lookup (reader->by_name, name));

  return number > 0 ? tps_safetensors_reader_get_tensor (reader, number - 1) : NULL;
}

const gchar *
tps_safetensors_reader_get_metadata (TpsSafetensorsReader *reader, const gchar *key)
{
  return g_hash_table_lookup (reader->metadata, key);
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
  g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED,
               "%s: there is no tensor %s of type %s and the expected shape", reader->path, name,
               dtype);
  return NULL;
}

/* ---- elements -------------------------------------------------------------------------------- */

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
  g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED,
               "%s: tensor %s at offset %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT
               " is damaged: its CRC32C is %08x, the header says %08x",
               stream->reader->path, tensor->name, tensor->begin, tensor->end, stream->crc32c,
               tensor->crc32c);
  return FALSE;
}
