/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The client's side of thrift/chunks.thrift: one call that is sent in chunks, or whose reply is
 * fetched in chunks, over the calls of a client.
 *
 *   send    begin_transfer, put_chunk ... (some in flight), run_transfer; its reply contains the
 *           reply of the call, or the number of chunks, which are then fetched as below
 *   fetch   get_chunk ... (some in flight); a scanner assembles them as they arrive
 *   end     end_transfer, without waiting for its reply
 *
 * After a refused chunk (wrong CRC, a gap) or a lost connection, begin_transfer returns the number
 * of chunks that the server has, and the transfer continues there. After lost connections, the call
 * retries until the deadline. After refusals, it gives up when three consecutive retries have made
 * no progress. If a busy server refuses a chunk with retry_after_ms, the call retries after this
 * time, until the deadline.
 *
 * Once run_transfer has been sent, no chunk of the call is sent again, but run_transfer itself may
 * be repeated, because the server runs the call of a transfer only once. If run_transfer or
 * get_chunk finds no transfer, the call fails with CONNECTION_LOST, because the server may have
 * executed it.
 */

#pragma once

#include "plugin/client/client.h"
#include "runtime/base/buffer.h"

G_BEGIN_DECLS

/* The operations of a client that a chunked call needs; `client` is their first argument. `call`
 * and `delay` have the contracts of tps_client_call_rpc() and tps_client_delay(). Their callbacks
 * run later, one at a time, never inside the operation. */
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

/* Called exactly once, when nothing refers to the message any more. Takes ownership of the reply
 * (`answer`) or the error; the other one is NULL. The errors are those of tps_client_call(). */
typedef void (*TpsChunkedDone) (gpointer user_data, TpsMessage *answer, GError *error);

/* Both functions below must be called on the thread that runs the client's callbacks. */

/* Sends `message` in chunks and receives the reply. The message must have been ended for a transfer
 * (tps_writer_message_end_transferred()), and is borrowed until `done`. */
void tps_chunked_call_send (const TpsChunkedOptions *options, TpsWriter *message,
                            TpsChunkedDone done, gpointer user_data);

/* Fetches the reply that the server keeps under the name `transfer`. The name is copied. */
void tps_chunked_call_fetch (const TpsChunkedOptions *options, const gchar *transfer,
                             TpsChunkedDone done, gpointer user_data);

G_END_DECLS
