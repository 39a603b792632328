/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Our services in a server of Thrift C GLib, next to its own Greeter (greeter.c), and with our
 * transports, protocols and checks. ThriftSimpleServer serves one connection at a time; a server
 * with a thread for each connection passes TPS_HOST_THREADED.
 *
 *   foreign_server PATH           of a Unix socket; serves until it is killed */

#include <thrift/c_glib/server/thrift_simple_server.h>
#include <thrift/c_glib/transport/thrift_server_socket.h>

#include "greeter.h"

int
main (int argc, char **argv)
{
  TpsPluginOptions options = TPS_INIT (TpsPluginOptions);
  g_autoptr (GError) error = NULL;
  TpsPlugin *plugin;
  ThriftProcessor *greeter, *services, *hardened;
  ThriftTransportFactory *transports = tps_host_transport_factory_new (NULL);
  ThriftProtocolFactory *protocols = tps_host_protocol_factory_new ();
  gpointer listener, server;

  options.n_trainers = 1;
  plugin = tps_plugin_new (&options, &error);
  if (plugin == NULL)
    g_error ("%s", error->message);

  /* The first processor is the default, for clients that do not multiplex. */
  tps_register_types (greeter_get_types, greeter_n_get_types);
  greeter = greeter_processor_new ();
  services = THRIFT_PROCESSOR (g_object_new (THRIFT_TYPE_MULTIPLEXED_PROCESSOR, NULL));
  thrift_multiplexed_processor_register_processor (services, "Greeter", greeter, NULL);
  if (!tps_plugin_register (plugin, THRIFT_MULTIPLEXED_PROCESSOR (services), "ps.",
                            TPS_HOST_SINGLE_CONNECTION, &error))
    g_error ("%s", error->message);
  hardened = tps_harden_processor (services, NULL);

  listener = g_object_new (THRIFT_TYPE_SERVER_SOCKET, "path", argc > 1 ? argv[1] : "server.sock",
                           NULL);
  server = g_object_new (THRIFT_TYPE_SIMPLE_SERVER, "processor", hardened, "server_transport",
                         listener, "input_transport_factory", transports,
                         "output_transport_factory", transports, "input_protocol_factory",
                         protocols, "output_protocol_factory", protocols, NULL);
  if (!thrift_server_serve (THRIFT_SERVER (server), &error))
    g_error ("%s", error != NULL ? error->message : "the socket is in use");
  return 0;
}
