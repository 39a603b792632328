/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/chunks.thrift: arguments and results, named as in wire_parameter_server.h. */

#pragma once

#include "plugin/wire/fields.h"

G_BEGIN_DECLS

/* A chunk that came in. Its CRC has not been looked at. */
typedef struct
{
  gchar *transfer;
  gint32 index;
  gint32 count;
  gint32 crc32c;
  GBytes *data; /* a reference of the body, or a copy where it is small */
} TpsChunk;

/* A chunk that goes out: the pieces are borrowed until the writer lets go of them. */
typedef struct
{
  const gchar *transfer;
  gint32 index;
  gint32 count;
  gint32 crc32c;
  const struct iovec *pieces;
  guint n_pieces;
} TpsChunkPieces;

/* One struct for begin_transfer, run_transfer, get_chunk and end_transfer; each method uses its own fields. */
typedef struct
{
  gchar *transfer;
  gint64 bytes; /* begin */
  gint32 count; /* begin */
  gint32 index; /* get_chunk */
} TpsTransferArguments;

/* LargeAnswer, as it came in. */
typedef struct
{
  gint64 bytes;
  gint32 count;
  GBytes *message; /* NULL: absent */
} TpsLargeAnswer;

/* LargeAnswer, as it goes out: `pieces` are borrowed; with `count` 0 they are the message. */
typedef struct
{
  gint64 bytes;
  gint32 count;
  const struct iovec *pieces;
  guint n_pieces;
} TpsLargeAnswerPieces;

void tps_chunk_clear (TpsChunk *chunk);
void tps_transfer_arguments_clear (TpsTransferArguments *arguments);
void tps_large_answer_clear (TpsLargeAnswer *answer);

/* Into structs that are zero. */
gboolean tps_begin_transfer_arguments_decode (TpsReader *in, TpsTransferArguments *arguments,
                                              GError **error);
gboolean tps_put_chunk_arguments_decode (TpsReader *in, TpsChunk *chunk, GError **error);
gboolean tps_run_transfer_arguments_decode (TpsReader *in, TpsTransferArguments *arguments,
                                            GError **error);
gboolean tps_get_chunk_arguments_decode (TpsReader *in, TpsTransferArguments *arguments,
                                         GError **error);
gboolean tps_end_transfer_arguments_decode (TpsReader *in, TpsTransferArguments *arguments,
                                            GError **error);

/* `data`: const TpsTransferArguments *; of put_chunk const TpsChunkPieces *. */
void tps_begin_transfer_arguments_encode (TpsWriter *out, gconstpointer data);
void tps_put_chunk_arguments_encode (TpsWriter *out, gconstpointer data);
void tps_run_transfer_arguments_encode (TpsWriter *out, gconstpointer data);
void tps_get_chunk_arguments_encode (TpsWriter *out, gconstpointer data);
void tps_end_transfer_arguments_encode (TpsWriter *out, gconstpointer data);

/* `data`: const gint32 *, const TpsLargeAnswerPieces *, const TpsChunkPieces *. */
void tps_begin_transfer_result_encode (TpsWriter *out, gconstpointer received);
void tps_run_transfer_result_encode (TpsWriter *out, gconstpointer data);
void tps_get_chunk_result_encode (TpsWriter *out, gconstpointer data);

/* `received`: gint32 *; `answer`: TpsLargeAnswer *; `chunk`: TpsChunk *, both zero before. */
gboolean tps_begin_transfer_result_decode (TpsReader *in, TpsWireType type, gpointer received,
                                           GError **error);
gboolean tps_run_transfer_result_decode (TpsReader *in, TpsWireType type, gpointer answer,
                                         GError **error);
gboolean tps_get_chunk_result_decode (TpsReader *in, TpsWireType type, gpointer chunk,
                                      GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsChunk, tps_chunk_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTransferArguments, tps_transfer_arguments_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLargeAnswer, tps_large_answer_clear)

G_END_DECLS
