/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A ThriftTransport for hosts that protects them from malformed bytes. It accepts peers with and
 * without framing, and transfers whole messages only.
 *
 * It must be used with TpsHostProtocol (plugin/host/protocol.h), which receives messages from it
 * and passes finished replies to it; flush() sends them. read() and write(), which other protocols
 * call, fail with INVALID_ARGUMENT.
 *
 *   ThriftTransportFactory *transports = tps_host_transport_factory_new (NULL);
 *   ThriftProtocolFactory *protocols = tps_host_protocol_factory_new ();
 *   g_object_new (THRIFT_TYPE_SIMPLE_SERVER, "processor", …, "server_transport", …,
 *                 "input_transport_factory", transports, "output_transport_factory", transports,
 *                 "input_protocol_factory", protocols, "output_protocol_factory", protocols, NULL);
 *
 * Unlike the library's wrapping transports, the transport holds a reference to the underlying
 * transport. Like every ThriftTransport, it is not thread-safe: only the thread of its connection
 * may use it.
 */

#pragma once

#include <thriftps/plugin.h>

#include "plugin/host/stream.h"

G_BEGIN_DECLS

#define TPS_TYPE_HOST_TRANSPORT (tps_host_transport_get_type ())
#define TPS_HOST_TRANSPORT(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST ((obj), TPS_TYPE_HOST_TRANSPORT, TpsHostTransport))
#define TPS_IS_HOST_TRANSPORT(obj) (G_TYPE_CHECK_INSTANCE_TYPE ((obj), TPS_TYPE_HOST_TRANSPORT))

typedef struct TpsHostTransport TpsHostTransport;

GType tps_host_transport_get_type (void);

/* Creates a transport on `inner`, usually a ThriftSocket, to which a reference is taken. The caller
 * owns the result. `options` NULL = defaults. */
ThriftTransport *tps_host_transport_new (ThriftTransport *inner, const TpsHostOptions *options);

/* Creates a box, a transport without a connection: there are no messages to read, and a written
 * message is kept until tps_host_transport_steal_reply(). The caller owns the box. Copies `form`,
 * and takes a reference to its budget. */
ThriftTransport *tps_host_transport_new_box (const TpsWriterForm *form);

/* Removes and returns the finished message that a box keeps, or that has not been flushed. The
 * caller owns it. NULL = there is none. */
TpsWriter *tps_host_transport_steal_reply (TpsHostTransport *transport);

/* Creates a box for messages that must be dropped. The caller owns it. */
ThriftTransport *tps_host_transport_new_sink (void);

/* For TpsHostProtocol. */

/* Returns the stream of the connection, borrowed; NULL for a box. */
TpsHostStream *tps_host_transport_get_stream (TpsHostTransport *transport);

void tps_host_transport_get_form (TpsHostTransport *transport, TpsWriterForm *form);

/* Takes ownership of a finished message, which the next flush sends. If an earlier message has not
 * been flushed, it is sent first; a box drops the earlier message. Errors: those of
 * tps_host_stream_send(). */
gboolean tps_host_transport_take_reply (TpsHostTransport *transport, TpsWriter *out,
                                        GError **error);

G_END_DECLS
