/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The asynchronous client: many calls in flight on one connection, each with a deadline and typed
 * errors.
 *
 * A client connects with its first call, and reconnects with the first call after a lost
 * connection. Calls that were in flight on a lost connection fail with CONNECTION_LOST; the caller
 * decides whether to send them again. Messages are framed and multiplexed ("Service:method"). They
 * use the binary protocol unless `protocol` selects another. The calls of one thread over one
 * connection are sent in their order, except that later calls may overtake calls in chunks. Each
 * call has its own sequence id, so that replies may arrive in any order. Before the client sends a
 * message of more than `ask_bytes`, it asks for the server's frame limit. A message that exceeds
 * this limit is sent in chunks if the server has the service Chunks (thrift/chunks.thrift). A reply
 * that is too large for a frame is received in chunks. Chunked requests and replies continue after
 * lost connections, until the deadline of the call.
 *
 * Callbacks run on the client's I/O thread and must not block. All functions may be called from any
 * thread, unless their comment says otherwise.
 *
 * On a Unix socket, large tensors pass through shared memory if the server offers it, and inline
 * otherwise, with the same bytes. Tensors of a reply are then views that keep the server's memory
 * in use. Copy a tensor that you keep for long. The views may outlive the client. Tensors may also
 * be in memory of a device that the server's process shares (tps_client_may_share_device()). The
 * program must release tensors in such memory before the server's process exits. */

#pragma once

#include <glib.h>
#include <thriftps/access.h>

#include "plugin/frame/reader.h"
#include "plugin/frame/writer.h"
#include "plugin/memory/segment_pool.h"
#include "plugin/wire/rpc.h"

G_BEGIN_DECLS

typedef struct TpsClient TpsClient;

typedef struct
{
  const gchar *address;      /* of the server: HOST:PORT or unix:PATH; required */
  gsize max_message_bytes;   /* limit of a reply in one frame; 0 = the maximum, 2^31 - 1 */
  gsize ask_bytes;           /* above this size, the client asks for the frame limit; 0 = 32 MiB */
  gint64 connect_timeout_ns; /* 0 = 10 s */
  guint max_in_flight;       /* 0 = 1024; further calls fail with RESOURCE_EXHAUSTED */
  TpsProtocolKind protocol;  /* 0 = binary */
  gboolean no_shared_memory; /* all tensors travel through the socket */
  gsize max_shared_bytes;    /* limit of the memory shared with the server; 0 = 1 GiB */
  /* TRUE: several clients receive the same tensors (averages), and may map the same memory to read
   * them. */
  gboolean shares_answers;
  /* Results of lookups may lie in memory of this device, which the server shares (see
   * plugin/memory/segment_pool.h); borrowed. Other tensors in memory of devices are copied to the
   * host. NULL: results of lookups lie in host memory. */
  TpsDevice *lookup_device;
  TpsTls *tls; /* encrypts TCP connections; a reference is taken; NULL = no encryption */
  /* The name that the server's certificate must have: a host name, an IP address, or a URI such as
   * "spiffe://cluster/ps". NULL = the host of `address`. Calls to a server without such a
   * certificate fail with UNAUTHENTICATED. */
  const gchar *tls_peer;
  /* A token that the client sends with Session.authenticate on each new connection, before other
   * calls; copied; NULL = none. The token is readable on a plain connection: set `tls` for
   * connections between hosts. If the server does not know the token, calls fail with
   * UNAUTHENTICATED. */
  const gchar *token;
  /* The pool for the tensors of replies; a reference is taken; NULL = the default pool. */
  TpsBufferPool *bodies;
} TpsClientOptions;

/* Creates a client; it does not connect yet. The caller owns it. Errors: INVALID_ARGUMENT if the
 * address cannot be parsed; RESOURCE_EXHAUSTED (descriptors, threads). */
TpsClient *tps_client_new (const TpsClientOptions *options, GError **error);

/* Ends pending calls with ABORTED, waits until no callback runs, and frees the client, which may be
 * NULL. Must not be called from a callback. */
void tps_client_free (TpsClient *client);

/* Ends pending calls with ABORTED. Later calls fail with ABORTED, too. Thread: any. */
void tps_client_cancel (TpsClient *client);

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

/* Reads the result of a call; `type` is its wire type, as for TpsClientDone. FALSE: the call fails
 * with the error. */
typedef gboolean (*TpsReadResult) (TpsReader *result, TpsWireType type, gpointer user_data,
                                   GError **error);
/* As tps_client_call(), but waits for the reply. `read` (may be NULL) is called with the result, on
 * the I/O thread, before this returns. Must not be called from a callback. */
gboolean tps_client_call_sync (TpsClient *client, const gchar *service, const gchar *method,
                               TpsWriteArguments write, gconstpointer write_data,
                               gint64 deadline_ns, TpsReadResult read, gpointer read_data,
                               GError **error);

/* Makes all calls that begin from now on part of a trace. They carry `traceparent` (W3C Trace
 * Context; copied; NULL = none) in the header of a THeader frame, which the server must support.
 * The trace applies to calls of all threads, so a program with several traces at the same time
 * needs a client for each trace. Errors: INVALID_ARGUMENT if `traceparent` cannot be parsed.
 * Thread: any. */
gboolean tps_client_set_traceparent (TpsClient *client, const gchar *traceparent, GError **error);

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

/* Returns memory of `n_bytes` bytes that the server maps, too. Tensors that begin at multiples of
 * 64 bytes in this memory are sent without a copy. The caller must not change the bytes of a call
 * before the call has ended. `current` is the result of an earlier call of this function, any other
 * buffer, or NULL. If the server still maps `current`, and its size is `n_bytes`, the result is a
 * new reference to `current`. After the connection has been lost, the memory stays valid, but
 * tensors in it are copied. The caller owns the result. NULL: no such memory is available now; it
 * may be later. Does not block. Thread: any. */
TpsBuffer *tps_client_get_send_memory (TpsClient *client, gsize n_bytes, TpsBuffer *current);

/* Sets `stats` to the totals of the tensors sent and received through shared memory; all zero over
 * TCP. Thread: any. */
void tps_client_get_sharing_stats (TpsClient *client, TpsSharingStats *stats);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsClient, tps_client_free)

G_END_DECLS
