/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/chunks.thrift: the methods as TpsRpcs (rpc.h), with their arguments and results. */

#pragma once

#include <sys/uio.h>

#include "plugin/wire/rpc.h"

G_BEGIN_DECLS

/* Bytes in one of two forms, or none. A writer borrows either form until it releases the bytes. */
typedef struct
{
  GBytes *received;           /* a reference to the body, or a copy if it is small */
  const struct iovec *pieces; /* outgoing bytes in their own memory */
  guint n_pieces;
} TpsChunkData;

/* A chunk; its CRC has not been checked. */
typedef struct
{
  gchar *transfer;
  gint32 index;
  gint32 count;
  gint32 crc32c;
  TpsChunkData data;
} TpsChunk;

/* The arguments of begin_transfer, run_transfer, get_chunk and end_transfer; each method uses its
 * own fields. */
typedef struct
{
  gchar *transfer;
  gint64 bytes; /* begin */
  gint32 count; /* begin */
  gint32 index; /* get_chunk */
} TpsTransferArguments;

/* The result of run_transfer: the reply itself, or its size if it must be fetched in `count`
 * chunks. */
typedef struct
{
  gint64 bytes;
  gint32 count;
  TpsChunkData message;
} TpsLargeAnswer;

/* Free the members of structs that were read. */
void tps_chunk_clear (TpsChunk *chunk);
void tps_transfer_arguments_clear (TpsTransferArguments *arguments);
void tps_large_answer_clear (TpsLargeAnswer *answer);

/* TpsTransferArguments -> gint32, the number of received chunks */
extern const TpsRpc tps_begin_transfer_rpc;
extern const TpsRpc tps_put_chunk_rpc;    /* TpsChunk */
extern const TpsRpc tps_run_transfer_rpc; /* TpsTransferArguments -> TpsLargeAnswer */
extern const TpsRpc tps_get_chunk_rpc;    /* TpsTransferArguments -> TpsChunk */
extern const TpsRpc tps_end_transfer_rpc; /* TpsTransferArguments */

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsChunk, tps_chunk_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTransferArguments, tps_transfer_arguments_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLargeAnswer, tps_large_answer_clear)

G_END_DECLS
