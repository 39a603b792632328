/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The client's side of thrift/chunks.thrift: one call that is sent in chunks, or whose answer is
 * fetched in chunks, over the calls of a client.
 *
 *   send    begin_transfer, put_chunk ... (some in flight), run_transfer, then the answer: in one
 *           piece, or as fetch
 *   fetch   get_chunk ... (some in flight), put together by a scanner as they come
 *   and     end_transfer, which nobody waits for
 *
 * What goes wrong on the way: a chunk that was refused (wrong CRC, a gap) or a lost connection has
 * begin_transfer say how far the server is, and goes on there; lost connections until the deadline,
 * refusals a few times without getting further. A server that was too busy for a chunk, and says
 * for how long, is asked again after that time, until the deadline. Once run_transfer has been sent
 * nothing is sent twice but run_transfer itself, which runs a call once; a server that has
 * forgotten the transfer then is a lost connection: whether the call has been done is not known.
 */

#pragma once

#include "plugin/client/client.h"
#include "runtime/base/buffer.h"

G_BEGIN_DECLS

/* What it takes from a client; `client` is what the options say. As tps_client_call_rpc() and
 * tps_client_delay(): callbacks come later, one at a time, never from within. */
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
  const gchar *name;     /* of the call, for errors; copied */
  gsize max_frame_bytes; /* of a message to the peer; 0 = not said */
  gint64 deadline_ns;
  TpsBufferPool *bodies; /* for the answer's tensors; NULL = the default pool. Outlives the call */
} TpsChunkedOptions;

/* Called exactly once, when nothing refers to the message any more. Takes over the answer, or the
 * error: those of tps_client_call(). */
typedef void (*TpsChunkedDone) (gpointer user_data, TpsMessage *answer, GError *error);

/* Both: on the thread that the client's callbacks run on. */

/* Sends `message`, which was ended for a transfer and is borrowed until `done`. */
void tps_chunked_call_send (const TpsChunkedOptions *options, TpsWriter *message,
                            TpsChunkedDone done, gpointer user_data);

/* Fetches the answer that waits under the name `transfer`, copied. */
void tps_chunked_call_fetch (const TpsChunkedOptions *options, const gchar *transfer,
                             TpsChunkedDone done, gpointer user_data);

G_END_DECLS
