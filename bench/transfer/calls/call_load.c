/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/calls/call_load.h"

#include <string.h>
#include <unistd.h>

#include "bench/transfer/limits/stream.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* The length; strict binary protocol, version 1, with the kind "call"; the name; the sequence id; a
 * struct of arguments without fields. */
static const guint8 request[] = "\x00\x00\x00\x1a"
                                "\x80\x01\x00\x01"
                                "\x00\x00\x00\x0d"
                                "clear_metrics"
                                "\x00\x00\x00\x01";
/* The same with the kind "reply" and a result struct without fields. */
static const guint8 reply[] = "\x00\x00\x00\x1a"
                              "\x80\x01\x00\x02"
                              "\x00\x00\x00\x0d"
                              "clear_metrics"
                              "\x00\x00\x00\x01";

typedef struct
{
  gint fd;
  gint64 until_ns;
  guint64 n_calls;
  gboolean wrong;
  TpsThread thread;
} Client;

/* The arrays end with the stop byte of the struct: it is the terminating zero of the literal. */
gboolean
tps_call_load_call (gint fd)
{
  guint8 received[sizeof reply];

  return tps_stream_send_all (fd, request, sizeof request)
         && tps_stream_receive_all (fd, received, sizeof received)
         && memcmp (received, reply, sizeof reply) == 0;
}

static gpointer
run_client (gpointer data)
{
  Client *client = data;

  while (!client->wrong && tps_clock_now_ns () < client->until_ns)
    if (tps_call_load_call (client->fd))
      client->n_calls++;
    else
      client->wrong = TRUE;
  return NULL;
}

static void
close_first (const Client *clients, guint n)
{
  for (guint i = 0; i < n; i++)
    close (clients[i].fd);
}

gdouble
tps_call_load_run (const gchar *address, guint n_clients, gdouble seconds, GError **error)
{
  g_autofree Client *clients = g_new0 (Client, n_clients);
  gint64 start_ns;
  guint64 n_calls = 0;
  gboolean wrong = FALSE;

  for (guint i = 0; i < n_clients; i++)
    {
      clients[i].fd = tps_stream_connect (address, error);
      if (clients[i].fd < 0)
        {
          close_first (clients, i);
          return -1;
        }
    }
  start_ns = tps_clock_now_ns ();
  for (guint i = 0; i < n_clients; i++)
    {
      clients[i].until_ns = start_ns + (gint64) (seconds * 1e9);
      tps_sync_check (pthread_create (&clients[i].thread, NULL, run_client, &clients[i]));
    }
  for (guint i = 0; i < n_clients; i++)
    {
      tps_sync_check (pthread_join (clients[i].thread, NULL));
      close (clients[i].fd);
      n_calls += clients[i].n_calls;
      wrong = wrong || clients[i].wrong;
    }
  if (wrong)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "the server at %s sent a wrong reply",
                   address);
      return -1;
    }
  return (gdouble) n_calls / ((gdouble) (tps_clock_now_ns () - start_ns) / 1e9);
}
