/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Files in the safetensors format: 8 bytes with the length of the header, the header (JSON), and
 * the elements of all tensors without holes. FORMAT.md describes the additions of ThriftPS:
 * padding, checksums, sharding.
 *
 * The writer takes the elements of several tensors at the same time, each in order, and writes the
 * header last. The reader checks the header at once, and a tensor's checksum when its last byte has
 * been read. Thread: one at a time.
 */

#pragma once

#include "runtime/base/budget.h"
#include "runtime/server/log/disk.h"
#include "runtime/server/log/read_ahead.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* The maximum length of a header that the format allows, in bytes. */
#define TPS_SAFETENSORS_MAX_HEADER 100000000

/* Elements begin at a multiple of this, so that they can be read and mapped directly. */
#define TPS_SAFETENSORS_ALIGNMENT 4096

typedef struct
{
  gchar *name;
  const gchar *dtype; /* static: "F32", "BF16", "I64", "U8", ... */
  gsize element_bytes;
  guint n_dims;
  gint64 dims[TPS_TENSOR_MAX_DIMS];
  gint64 begin, end; /* in the file */
  gboolean has_crc;
  guint32 crc32c;
} TpsSafetensor;

/* Returns the name of a dtype in the format: "F32" for TPS_DTYPE_FLOAT32 and so on; static. */
const gchar *tps_safetensors_dtype (TpsDType dtype);

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct TpsSafetensorsWriter TpsSafetensorsWriter;

/* Creates file `path` of `disk` (borrowed). The caller owns the writer. Errors: of the disk. */
TpsSafetensorsWriter *tps_safetensors_writer_new (TpsDisk *disk, const gchar *path, GError **error);
/* Closes the file, complete or not, and frees the writer. */
void tps_safetensors_writer_free (TpsSafetensorsWriter *writer);

/* Adds a text to the metadata. Must be called before begin(). */
void tps_safetensors_writer_add_metadata (TpsSafetensorsWriter *writer, const gchar *key,
                                          const gchar *value);

/* Adds a tensor after the previous ones, and returns its number. `dtype` is as in TpsSafetensor.
 * Names must differ. dims[0] of the last tensor may be -1: the number of appended elements then
 * determines it. `saved_offsets` [n_dims] is the place of the tensor in a larger tensor of which
 * it is a part (for torch.distributed.checkpoint); NULL = the tensor is whole. Must be called
 * before begin(). */
guint tps_safetensors_writer_add_tensor (TpsSafetensorsWriter *writer, const gchar *name,
                                         const gchar *dtype, guint n_dims, const gint64 *dims,
                                         const gint64 *saved_offsets);

/* Decides the places of all tensors. Errors: INVALID_ARGUMENT (the header is too long),
 * RESOURCE_EXHAUSTED. */
gboolean tps_safetensors_writer_begin (TpsSafetensorsWriter *writer, GError **error);

/* Appends the next `n_bytes` of a tensor, which are copied. At most five tensors of more than 4 KiB
 * may be incomplete at a time. FALSE: the disk has failed, so further elements need not be
 * appended; finish() reports the error. */
gboolean tps_safetensors_writer_append (TpsSafetensorsWriter *writer, guint tensor,
                                        gconstpointer data, gsize n_bytes);

/* Writes the header and syncs the file; all elements must have been appended. `n_bytes` and
 * `header_crc32c` (may be NULL) receive the length of the file, and the CRC32C of all bytes before
 * the elements. Errors: those of the disk. */
gboolean tps_safetensors_writer_finish (TpsSafetensorsWriter *writer, guint64 *n_bytes,
                                        guint32 *header_crc32c, GError **error);

/* ---- reading --------------------------------------------------------------------------------- */

/* `path` and `header_crc32c` may be read by users; the other fields are private. */
typedef struct
{
  gchar *path;
  TpsDiskFile *file;
  TpsCharge charge;    /* for the header */
  TpsDiskFile *direct; /* the same file; NULL until a tensor is read ahead */
  TpsReadAhead *ahead; /* for whole blocks of `ahead_tensor`; NULL = none */
  const TpsSafetensor *ahead_tensor;
  gint64 n_bytes;
  gint64 data_begin;
  guint32 header_crc32c; /* of all bytes before the elements */
  GArray *tensors;       /* of TpsSafetensor, in the order of their elements */
  GHashTable *by_name;   /* number + 1, by name */
  GHashTable *metadata;  /* texts, by key */
} TpsSafetensorsReader;

/* Opens file `path` of `disk` (borrowed) and reads its header, which needs up to 16 times its size
 * in memory. The caller owns the reader. Errors: those of the disk; ABORTED, which names the offset
 * (not a safetensors file, holes, overlaps, a size that is not that of the file). */
TpsSafetensorsReader *tps_safetensors_reader_new (TpsDisk *disk, const gchar *path, GError **error);
/* Opens an untrusted file: a .npy file, which has one tensor, "array", without a checksum, if its
 * name ends with ".npy"; otherwise a safetensors file.
 * The memory of the header is charged to `budget` (borrowed). Errors: those of
 * tps_safetensors_reader_new(), RESOURCE_EXHAUSTED. */
TpsSafetensorsReader *tps_safetensors_reader_new_charged (TpsDisk *disk, const gchar *path,
                                                          TpsBudget *budget, GError **error);
void tps_safetensors_reader_free (TpsSafetensorsReader *reader);

/* Returns a tensor by its name; NULL = there is none. Borrowed. */
const TpsSafetensor *tps_safetensors_reader_find_tensor (TpsSafetensorsReader *reader,
                                                         const gchar *name);

/* As tps_safetensors_reader_find_tensor(), but `dtype`, `n_dims` and `dims` must match (a dim of
 * -1: any). Errors: ABORTED, naming file and tensor. */
const TpsSafetensor *tps_safetensors_reader_require (TpsSafetensorsReader *reader,
                                                     const gchar *name, const gchar *dtype,
                                                     guint n_dims, const gint64 *dims,
                                                     GError **error);

/* Reads one tensor sequentially. */
typedef struct
{
  TpsSafetensorsReader *reader;
  const TpsSafetensor *tensor;
  gint64 at; /* in the file */
  guint32 crc32c;
} TpsSafetensorStream;

/* Begins before the first element of `tensor`. Borrows `reader` and `tensor`. */
void tps_safetensor_stream_init (TpsSafetensorStream *stream, TpsSafetensorsReader *reader,
                                 const TpsSafetensor *tensor);

/* Reads the next `n_bytes`, which the tensor must have. After the last byte, the checksum of the
 * tensor is compared, if there is one. Errors: those of the disk; ABORTED, naming file, tensor and
 * offset. */
gboolean tps_safetensor_stream_read (TpsSafetensorStream *stream, gpointer data, gsize n_bytes,
                                     GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSafetensorsWriter, tps_safetensors_writer_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSafetensorsReader, tps_safetensors_reader_free)

G_END_DECLS
