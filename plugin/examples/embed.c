/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A program with a parameter server and embedding tables of its own. It prints its metrics when its
 * input ends, and keeps its tables in the data directory, if there is one.
 *
 *   embed ADDRESS [FOLDER]        for example 127.0.0.1:7070 or unix:/run/ps.sock */

#include <stdio.h>
#include <thriftps/plugin.h>

/* Called on a thread of the plugin. */
static void
recovered (gpointer user_data, const GError *error)
{
  (void) user_data;
  g_print ("%s\n", error != NULL ? error->message : "recovered");
}

int
main (int argc, char **argv)
{
  TpsPluginOptions options = TPS_INIT (TpsPluginOptions);
  g_autoptr (GError) error = NULL;
  g_autofree gchar *metrics = NULL;
  TpsPlugin *plugin;
  TpsServer *server;

  options.name = "embedded";
  options.n_trainers = 2;
  options.max_table_bytes = (gsize) 1 << 30;
  options.data_folder = argc > 2 ? argv[2] : NULL;
  options.recovered = recovered;
  plugin = tps_plugin_new (&options, &error);
  if (plugin == NULL)
    g_error ("%s", error->message);

  server = tps_plugin_new_server (plugin, NULL);
  if (!tps_server_listen (server, argc > 1 ? argv[1] : "127.0.0.1:7070", &error)
      || !tps_server_start (server, &error))
    g_error ("%s", error->message);
  g_print ("listening on %s\n", tps_server_get_addresses (server)[0]);

  while (getchar () != EOF)
    ;
  metrics = tps_plugin_dup_metrics (plugin);
  g_print ("%s", metrics);
  tps_plugin_shut_down (plugin);
  tps_server_stop (server);
  g_object_unref (server);
  if (!tps_plugin_close (plugin, &error))
    g_error ("%s", error->message);
  return 0;
}
