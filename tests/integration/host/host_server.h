/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Servers as hosts have them: a loop with a thread for each connection, which C GLib lacks and
 * every host writes, and the library's ThriftSimpleServer. They listen on a free port of the
 * loopback. */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>
#include <thrift/c_glib/protocol/thrift_protocol_factory.h>
#include <thrift/c_glib/transport/thrift_transport_factory.h>

G_BEGIN_DECLS

typedef struct HostServer HostServer;

/* Takes references of all arguments. The server listens when this returns. */
HostServer *host_server_start (gboolean simple, ThriftProcessor *processor,
                               ThriftTransportFactory *transports,
                               ThriftProtocolFactory *protocols);

guint16 host_server_get_port (const HostServer *server);

/* Closes all connections and joins all threads. A simple server must have no open connection. */
void host_server_free (HostServer *server);

G_END_DECLS
