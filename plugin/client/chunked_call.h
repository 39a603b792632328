/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The client's side of thrift/chunks.thrift: one call that is sent in chunks, or whose reply is
 * fetched in chunks, over the calls of a client.
 *
 *   send    begin_transfer, put_chunk ... (some in flight), run_transfer, then the reply: in one
 *           piece, or as fetch
 *   fetch   get_chunk ... (some in flight); a scanner assembles them as they arrive
 *   end     end_transfer, without waiting for its reply
 *
 * After a refused chunk (wrong CRC, a gap) or a lost connection, begin_transfer returns the
 * position of the server, and the transfer continues there. After lost connections, the call
 * retries until the deadline. After refusals, it gives up when three retries in a row have made no
 * progress. If a busy server refuses a chunk with retry_after_ms, the call retries after that time,
 * until the deadline. Once run_transfer has been sent, only run_transfer itself is repeated,
 * because it runs a call once. If the server no longer has the transfer at that time, the call
 * fails as after a lost connection, because it is unknown whether the call was executed.
 */

#pragma once

#include "plugin/client/client.h"
#include "runtime/base/buffer.h"

G_BEGIN_DECLS

/* The operations of a client that a chunked call needs; `client` is their first argument. They have
 * the contracts of tps_client_call_rpc() and tps_client_delay(), and callbacks run later, one at a
 * time, never inside the operation. */
typedef struct
{
  void (*call) (gpointer client, const TpsRpc *rpc, gconstpointer arguments, gint64 deadline_ns,
                TpsClientDone done, gpointer user_data);
  void (*delay) (gpointer client, gint64 until_ns, TpsClientDelayed func, gpointer user_data);
  gint64 (*get_now_ns) (gpointer client);
} TpsChunkedOps;

typedef struct
{
  const TpsChunkedOps *ops;
  gpointer client;
  const gchar *name;     /* name of the call for error messages; copied */
  gsize max_frame_bytes; /* limit of a message to the peer; 0 = unknown */
  gint64 deadline_ns;
  /* for the tensors of the reply; must outlive the call; NULL = the default pool */
  TpsBufferPool *bodies;
} TpsChunkedOptions;

/* Called exactly once, when nothing refers to the message any more. Takes ownership of the reply,
 * or of the error, which is one of those of tps_client_call(). */
typedef void (*TpsChunkedDone) (gpointer user_data, TpsMessage *answer, GError *error);

/* Call both functions on the thread that runs the client's callbacks. */

/* Sends `message`, which must have been ended for a transfer. It is borrowed until `done`. */
void tps_chunked_call_send (const TpsChunkedOptions *options, TpsWriter *message,
                            TpsChunkedDone done, gpointer user_data);

/* Fetches the reply that the server keeps under the name `transfer`, which is copied. */
void tps_chunked_call_fetch (const TpsChunkedOptions *options, const gchar *transfer,
                             TpsChunkedDone done, gpointer user_data);

G_END_DECLS
