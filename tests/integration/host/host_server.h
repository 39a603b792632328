/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Servers as hosts have them: a loop with a thread for each connection (C GLib has none, so
 * everybody writes it), and the library's ThriftSimpleServer. On a free port of the loopback. */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>
#include <thrift/c_glib/protocol/thrift_protocol_factory.h>
#include <thrift/c_glib/transport/thrift_transport_factory.h>

G_BEGIN_DECLS

typedef struct HostServer HostServer;

/* References of all are taken. Listens when this returns. */
HostServer *host_server_start (gboolean simple, ThriftProcessor *processor,
                               ThriftTransportFactory *transports,
                               ThriftProtocolFactory *protocols);

guint16 host_server_get_port (const HostServer *server);

/* Closes what is open and joins all threads. A simple server must have no connection open. */
void host_server_free (HostServer *server);

G_END_DECLS
