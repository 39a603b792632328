/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The two kinds of servers that hosts have: a loop with a thread for each connection, which C GLib
 * lacks and every host writes, and the library's ThriftSimpleServer. They listen on a free port of
 * the loopback interface. */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>
#include <thrift/c_glib/protocol/thrift_protocol_factory.h>
#include <thrift/c_glib/transport/thrift_transport_factory.h>

G_BEGIN_DECLS

typedef struct HostServer HostServer;

/* Starts a server. It takes references to all arguments. When the function returns, the server
 * listens. */
HostServer *host_server_start (gboolean simple, ThriftProcessor *processor,
                               ThriftTransportFactory *transports,
                               ThriftProtocolFactory *protocols);

guint16 host_server_get_port (const HostServer *server);

/* Closes all connections, joins all threads and frees the server. A simple server must not have an
 * open connection. */
void host_server_free (HostServer *server);

G_END_DECLS
