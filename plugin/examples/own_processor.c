/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A processor that Thrift's compiler has generated (greeter.c), in our server: clients call
 * "Greeter:greet", or "greet" alone, because Greeter is the default service.
 *
 *   own_processor ADDRESS         for example 127.0.0.1:7070; ends with its input */

#include <stdio.h>

#include "greeter.h"

int
main (int argc, char **argv)
{
  TpsPluginOptions options = TPS_INIT (TpsPluginOptions);
  TpsServerOptions serving = TPS_INIT (TpsServerOptions);
  g_autoptr (GError) error = NULL;
  g_autoptr (TpsPlugin) plugin = NULL;
  g_autoptr (TpsServer) server = NULL; /* freed before the plugin */
  ThriftProcessor *greeter;

  options.n_trainers = 1;
  plugin = tps_plugin_new (&options, &error);
  if (plugin == NULL)
    g_error ("%s", error->message);

  serving.default_service = "Greeter";
  server = tps_plugin_new_server (plugin, &serving);
  tps_register_types (greeter_get_types, greeter_n_get_types);
  greeter = greeter_processor_new ();
  tps_server_add_processor (server, "Greeter", greeter);
  g_object_unref (greeter);

  if (!tps_server_listen (server, argc > 1 ? argv[1] : "127.0.0.1:7070", &error)
      || !tps_server_start (server, &error))
    g_error ("%s", error->message);
  g_print ("listening on %s\n", tps_server_get_addresses (server)[0]);

  while (getchar () != EOF)
    ;
  tps_plugin_shut_down (plugin);
  tps_server_stop (server);
  return 0;
}
