/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The asynchronous client: many calls in flight on one connection, each with a deadline, errors
 * typed.
 *
 * A client connects by itself on its first call, and again after a lost connection (calls that were
 * in flight then have failed with CONNECTION_LOST: whether to send again is for the caller to
 * decide). Calls go out framed, binary protocol, multiplexed ("Service:method"), each with its own
 * sequence id, so that answers may come in any order. A message that is larger than what the server
 * reads in a frame goes in chunks where the server has the service (thrift/chunks.thrift), and an
 * answer that no frame can hold comes in chunks; both outlive lost connections up to the deadline.
 * Callbacks run on the client's I/O thread and must not block. All functions: thread any.
 *
 * On a Unix socket large tensors pass through memory that both processes map, where the server
 * offers it, and inline otherwise: the bytes are the same. Tensors of an answer are then views that
 * keep the server's memory in use: what is to be kept for long is copied. They may outlive the
 * client. The same holds for tensors in memory of a device that the server's process shares
 * (tps_client_may_share_device()); these must be let go of before that process ends.
 */

#pragma once

#include <glib.h>

#include "plugin/frame/reader.h"
#include "plugin/frame/writer.h"
#include "plugin/memory/segment_pool.h"
#include "plugin/net/tls/tls.h"
#include "plugin/wire/rpc.h"

G_BEGIN_DECLS

typedef struct TpsClient TpsClient;

typedef struct
{
  const gchar *address;    /* "host:port", "[v6]:port" or "unix:/path" */
  gsize max_message_bytes; /* of an answer in one frame; 0 = what a frame can hold, 2^31 - 1 */
  gsize ask_bytes; /* a longer message waits until the server has said what it reads; 0 = 32 MiB */
  gint64 connect_timeout_ns; /* 0 = 10 s */
  guint max_in_flight;       /* 0 = 1024; more are refused with RESOURCE_EXHAUSTED */
  TpsProtocolKind protocol;  /* 0 = binary */
  gboolean no_shared_memory; /* all tensors travel through the socket */
  gsize max_shared_bytes;    /* of the memory shared with the server; 0 = 1 GiB */
  TpsTls *tls; /* encrypts TCP connections; a reference is taken; NULL = they are plain */
  /* The name that the certificate of the server must have: a host name, an IP address, or a URI
   * such as "spiffe://cluster/ps". NULL = the host of `address`. A server without such a
   * certificate: UNAUTHENTICATED. */
  const gchar *tls_peer;
  /* Sent with Session.authenticate on each new connection, before other calls; copied; NULL = none.
   * A reader of the connection learns it: use `tls` between hosts. If the server does not know it,
   * calls fail with UNAUTHENTICATED. */
  const gchar *token;
  /* where tensors of answers are received; a reference is taken; NULL = the default pool */
  TpsBufferPool *bodies;
} TpsClientOptions;

/* Errors: INVALID_ARGUMENT for an address that cannot be understood. Does not connect yet. */
TpsClient *tps_client_new (const TpsClientOptions *options, GError **error);

/* Ends calls in flight with ABORTED, waits until no callback runs. Not from a callback. */
void tps_client_free (TpsClient *client);

/* Ends calls in flight with ABORTED; later calls fail with it. */
void tps_client_cancel (TpsClient *client);

/* Writes the arguments as the fields of the arguments struct (struct begin and end are written for
 * it). */
typedef void (*TpsWriteArguments) (TpsWriter *out, gconstpointer user_data);

/* Called exactly once. On success `result` stands before the value (field 0 of the result struct)
 * and `type` is its wire type (TPS_WIRE_STOP for void); both borrowed for the call, but bodies may
 * be kept by reference. On failure `result` is NULL: a ServiceError of the peer comes as the
 * TPS_ERROR of that code, a TApplicationException as TPS_ERROR_INTERNAL (UNKNOWN_METHOD:
 * TPS_ERROR_NOT_FOUND), the rest is DEADLINE_EXCEEDED, CONNECTION_LOST (also for a peer that does
 * not keep to the protocol), ABORTED, RESOURCE_EXHAUSTED (too many calls in flight, too long a
 * message, no memory for the answer), INVALID_ARGUMENT (a host that does not exist). */
typedef void (*TpsClientDone) (gpointer user_data, TpsReader *result, TpsWireType type,
                               const GError *error);

/* Sends "service:method". `write` runs before this returns; what it borrows must stay until `done`,
 * which comes only when nothing refers to it any more. `deadline_ns`: monotonic. At the deadline
 * the call is forgotten and a late answer dropped; where bytes of the call are still unsent then,
 * because the peer does not read, the connection is closed, and the other calls on it fail with
 * CONNECTION_LOST. Never blocks. */
void tps_client_call (TpsClient *client, const gchar *service, const gchar *method,
                      TpsWriteArguments write, gconstpointer write_data, gint64 deadline_ns,
                      TpsClientDone done, gpointer user_data);

/* The same for a method of the contract: `arguments` stay until `done`. */
void tps_client_call_rpc (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                          gint64 deadline_ns, TpsClientDone done, gpointer user_data);

/* tps_client_call(), waiting for the answer. `read` (may be NULL) is called with the result before
 * this returns. Not from a callback. */
typedef gboolean (*TpsReadResult) (TpsReader *result, TpsWireType type, gpointer user_data,
                                   GError **error);
gboolean tps_client_call_sync (TpsClient *client, const gchar *service, const gchar *method,
                               TpsWriteArguments write, gconstpointer write_data,
                               gint64 deadline_ns, TpsReadResult read, gpointer read_data,
                               GError **error);

/* Has calls that begin from now on belong to a trace: they carry `traceparent` (W3C Trace Context,
 * copied; NULL = none) in the header of a THeader frame, which the server must be able to read.
 * Calls of other threads carry it too: a program with several traces at a time needs a client for
 * each. Errors: INVALID_ARGUMENT (it is no traceparent). */
gboolean tps_client_set_traceparent (TpsClient *client, const gchar *traceparent, GError **error);

/* Calls `func` on the I/O thread at or soon after `until_ns`, or with an ABORTED error when the
 * client is cancelled before: for trying again later. Counts as a call in flight. */
typedef void (*TpsClientDelayed) (gpointer user_data, const GError *error);
void tps_client_delay (TpsClient *client, gint64 until_ns, TpsClientDelayed func,
                       gpointer user_data);

/* Whether tensors in memory of `device` may be sent without coming to the host, as far as is known:
 * TRUE until a server has been found that does not take them. The others come to the host, so they
 * may be sent in any case. */
gboolean tps_client_may_share_device (TpsClient *client, TpsDevice *device);

/* What has been sent and received so far; all zero where memory is not shared (TCP). */
void tps_client_get_sharing_stats (TpsClient *client, TpsSharingStats *stats);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsClient, tps_client_free)

G_END_DECLS
