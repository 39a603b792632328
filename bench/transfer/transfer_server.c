/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/transfer_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/transfer/tcp.h"
#include "plugin/plugin.h"

/* The gradient has been received whole by now; there is nothing to do with it. */
static void
handle_push (TpsCall *call, gpointer object)
{
  tps_call_reply (call, NULL, NULL);
}

static const TpsMethod sink_methods[] = { { .name = "push", .handle = handle_push }, { 0 } };

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
  fprintf (stderr, "transfer: %s\n", error->message);
  return 1;
}

gint
tps_transfer_serve_ours (void)
{
  g_autoptr (GError) error = NULL;
  TpsPluginOptions options = { .name = "transfer", .parameter_server = { .n_trainers = 1 } };
  TpsServerOptions server_options = { .default_service = "Node" };
  const TpsService sink = { .name = "Sink", .methods = sink_methods };
  g_autoptr (TpsPlugin) plugin = tps_plugin_new (&options, &error);
  g_autoptr (TpsServer) server = NULL;

  if (plugin == NULL)
    return fail (error);
  tps_plugin_add_service (plugin, &sink);
  server = tps_plugin_new_server (plugin, &server_options);
  if (!tps_server_listen (server, "127.0.0.1:0", &error) || !tps_server_start (server, &error))
    return fail (error);
  printf ("listening on %s\n", tps_server_get_addresses (server)[0]);
  fflush (stdout);
  wait_for_end_of_input ();
  tps_server_stop (server);
  return 0;
}

gint
tps_transfer_serve_raw (gsize n_bytes)
{
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *buffer = g_malloc (n_bytes);
  guint16 port;
  gint listener = tps_tcp_listen (&port, &error);
  gint fd;

  if (listener < 0)
    return fail (error);
  printf ("listening on 127.0.0.1:%u\n", port);
  fflush (stdout);
  fd = tps_tcp_accept (listener);
  while (tps_tcp_receive_all (fd, buffer, n_bytes))
    if (!tps_tcp_send_all (fd, buffer, 1))
      break;
  close (fd);
  close (listener);
  return 0;
}
