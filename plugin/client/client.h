/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The asynchronous client (thriftps/client.h) below its calls by descriptor: raw calls, which are
 * never sent again, and delays. Messages are framed and multiplexed ("Service:method"). Each call
 * has its own sequence id. */

#pragma once

#include <thriftps/client.h>

#include "plugin/frame/message.h"
#include "plugin/frame/writer.h"
#include "plugin/memory/segment_pool.h"
#include "plugin/wire/descriptor.h"

G_BEGIN_DECLS

/* Sets the pool for tensors of replies; a reference is taken. Must precede the first call. */
void tps_client_set_bodies (TpsClient *client, TpsBufferPool *bodies);

/* Writes the arguments as the fields of the arguments struct. The client itself writes the
 * beginning and the end of the struct. */
typedef void (*TpsWriteArguments) (TpsWriter *out, gconstpointer user_data);

/* Called exactly once, on the I/O thread.
 *
 * On success, `result` is positioned before the value (field 0 of the result struct), and `type` is
 * its wire type (TPS_WIRE_STOP for void). Both are borrowed for the duration of the callback, which
 * may take references to the buffers of tensors and binaries.
 *
 * On failure, `result` is NULL. A ServiceError of the peer becomes the TPS_ERROR of its code. A
 * TApplicationException becomes TPS_ERROR_INTERNAL, or TPS_ERROR_NOT_FOUND if it is UNKNOWN_METHOD.
 * Errors of the client: DEADLINE_EXCEEDED, CONNECTION_LOST (including a peer that violates the
 * protocol), ABORTED, RESOURCE_EXHAUSTED (too many calls in flight, the message is too long, no
 * memory for the reply), INVALID_ARGUMENT (the host does not exist). */
typedef void (*TpsClientDone) (gpointer user_data, TpsReader *result, TpsWireType type,
                               const GError *error);

/* Calls "service:method" and never blocks. `write` runs before this returns. Data that the message
 * borrows must stay until `done`, which is called only when nothing refers to the data any more.
 * All errors are passed to `done`.
 *
 * `deadline_ns` is monotonic. At the deadline the call ends, and a late reply is dropped. If bytes
 * of the call are still unsent then, because the peer does not read, the client closes the
 * connection, and the other calls on it fail with CONNECTION_LOST. Thread: any. */
void tps_client_call (TpsClient *client, const gchar *service, const gchar *method,
                      TpsWriteArguments write, gconstpointer write_data, gint64 deadline_ns,
                      TpsClientDone done, gpointer user_data);

/* As tps_client_call(), but for a method of the contract. `arguments` must stay until `done`. */
void tps_client_call_rpc (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                          gint64 deadline_ns, TpsClientDone done, gpointer user_data);

/* Called on the I/O thread at the end of a delay. `error` is borrowed; NULL = the time has come. */
typedef void (*TpsClientDelayed) (gpointer user_data, const GError *error);
/* Calls `func` on the I/O thread at or soon after `until_ns` (monotonic), for a later retry. If the
 * client is cancelled before this time, it calls `func` with ABORTED. The delay counts as a call in
 * flight: beyond `max_in_flight`, `func` is called soon, with RESOURCE_EXHAUSTED. Thread: any. */
void tps_client_delay (TpsClient *client, gint64 until_ns, TpsClientDelayed func,
                       gpointer user_data);

/* Returns TRUE if tensors in memory of `device` may be sent without a copy to the host, as far as
 * is known. Over TCP, and for a device that cannot share memory, it returns FALSE. Otherwise it
 * returns TRUE until the client has met a server that does not accept such tensors. The caller may
 * send them in any case: if the server does not accept them, the client copies them to the host.
 * Thread: any. */
gboolean tps_client_may_share_device (TpsClient *client, TpsDevice *device);

/* Sets `stats` to the totals of tensors in shared memory; all zero over TCP. Thread: any. */
void tps_client_get_sharing_stats (TpsClient *client, TpsSharingStats *stats);

G_END_DECLS
