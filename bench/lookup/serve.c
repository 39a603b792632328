/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <stdio.h>
#include <unistd.h>

#include "bench/lookup/remote.h"
#include "plugin/plugin.h"

static void
wait_for_end_of_input (void)
{
  gchar chunk[64];

  while (read (STDIN_FILENO, chunk, sizeof chunk) > 0)
    continue;
}

static gint
fail (const GError *error)
{
  fprintf (stderr, "lookup: %s\n", error->message);
  return 1;
}

gint
tps_lookup_serve (const gchar *socket_dir)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *unix_address = g_strdup_printf ("unix:%s/lookup.sock", socket_dir);
  TpsPluginOptions options = { .name = "lookup", .parameter_server = { .n_trainers = 1 } };
  TpsServerOptions server_options = { .default_service = "EmbeddingTable" };
  g_autoptr (TpsPlugin) plugin = tps_plugin_new (&options, &error);
  g_autoptr (TpsServer) server = NULL;

  if (plugin == NULL)
    return fail (error);
  server = tps_plugin_new_server (plugin, &server_options);
  if (!tps_server_listen (server, unix_address, &error)
      || !tps_server_listen (server, "127.0.0.1:0", &error) || !tps_server_start (server, &error))
    return fail (error);
  for (guint i = 0; i < TPS_LOOKUP_N_TRANSPORTS; i++)
    printf ("listening on %s\n", tps_server_get_addresses (server)[i]);
  fflush (stdout);
  wait_for_end_of_input ();
  tps_server_stop (server);
  return 0;
}
