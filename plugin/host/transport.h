/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A ThriftTransport for hosts that survives hostile bytes. It accepts peers with and without
 * framing, and carries whole messages only.
 *
 * It must be used with TpsHostProtocol (plugin/host/protocol.h), which reads messages from it and
 * passes finished replies to it; flush sends them. It carries messages, not bytes: read and write
 * of other protocols fail with a clear error.
 *
 *   ThriftTransportFactory *transports = tps_host_transport_factory_new (NULL);
 *   ThriftProtocolFactory *protocols = tps_host_protocol_factory_new ();
 *   g_object_new (THRIFT_TYPE_SIMPLE_SERVER, "processor", …, "server_transport", …,
 *                 "input_transport_factory", transports, "output_transport_factory", transports,
 *                 "input_protocol_factory", protocols, "output_protocol_factory", protocols, NULL);
 *
 * Unlike the library's wrapping transports, it holds a reference to the underlying transport. Not
 * thread-safe, like every ThriftTransport: it belongs to its connection's thread.
 */

#pragma once

#include <thrift/c_glib/transport/thrift_transport.h>
#include <thrift/c_glib/transport/thrift_transport_factory.h>

#include "plugin/host/stream.h"

G_BEGIN_DECLS

#define TPS_TYPE_HOST_TRANSPORT (tps_host_transport_get_type ())
#define TPS_HOST_TRANSPORT(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST ((obj), TPS_TYPE_HOST_TRANSPORT, TpsHostTransport))
#define TPS_IS_HOST_TRANSPORT(obj) (G_TYPE_CHECK_INSTANCE_TYPE ((obj), TPS_TYPE_HOST_TRANSPORT))

typedef struct TpsHostTransport TpsHostTransport;

/* The GType of TpsHostTransport. Thread: any. */
GType tps_host_transport_get_type (void);

/* Creates a transport on `inner` (usually a ThriftSocket; a reference is taken). `options` NULL =
 * defaults. */
ThriftTransport *tps_host_transport_new (ThriftTransport *inner, const TpsHostOptions *options);

/* Creates a transport without a connection, a box: there are no messages to read, and a message
 * that is written stays until tps_host_transport_steal_reply(). A reference of the budget is
 * taken. */
ThriftTransport *tps_host_transport_new_box (const TpsWriterForm *form);

/* Removes and returns the last message that was written and finished; NULL = there is none. */
TpsWriter *tps_host_transport_steal_reply (TpsHostTransport *transport);

/* A box for messages that are dropped. */
ThriftTransport *tps_host_transport_new_sink (void);

/* A factory that creates a TpsHostTransport on every accepted transport. `options` is copied. */
ThriftTransportFactory *tps_host_transport_factory_new (const TpsHostOptions *options);

/* For TpsHostProtocol. */

/* Borrowed; NULL for a box. */
TpsHostStream *tps_host_transport_get_stream (TpsHostTransport *transport);

/* Sets `form` to the form that the next written message must have. */
void tps_host_transport_get_form (TpsHostTransport *transport, TpsWriterForm *form);

/* Takes over a finished message, which the next flush sends. If an earlier message was not
 * flushed, it is sent first; a box drops the earlier message. */
gboolean tps_host_transport_take_reply (TpsHostTransport *transport, TpsWriter *out,
                                        GError **error);

G_END_DECLS
