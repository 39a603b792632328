/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/calls/calls.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/process/interrupt.h"
#include "bench/process/runfiles.h"
#include "bench/transfer/limits/stream.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* -- call load -- */

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

/* -- idle -- */

#define POLL_US 10000

/* -- the child -- */

static gboolean
open_all (GArray *fds, const gchar *address, guint n, GError **error)
{
  while (fds->len < n)
    {
      gint fd = tps_stream_connect (address, error);

      if (fd < 0)
        return FALSE;
      g_array_append_val (fds, fd);
      if (tps_call_load_call (fd))
        continue;
      g_set_error (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST,
                   "the server closed connection %u, or sent a wrong reply", fds->len);
      return FALSE;
    }
  return TRUE;
}

static void
close_all (GArray *fds)
{
  for (guint i = 0; i < fds->len; i++)
    close (g_array_index (fds, gint, i));
  g_array_set_size (fds, 0);
}

gint
tps_transfer_load_idle (const gchar *address, G_GNUC_UNUSED gsize max_bytes,
                        G_GNUC_UNUSED const gchar *certificate)
{
  g_autoptr (GArray) fds = g_array_new (FALSE, FALSE, sizeof (gint));
  gchar line[64];

  while (fgets (line, sizeof line, stdin) != NULL)
    {
      g_autoptr (GError) error = NULL;
      guint n;

      if (sscanf (line, "open %u", &n) != 1)
        close_all (fds);
      else
        open_all (fds, address, n, &error);
      if (error != NULL)
        printf ("error %s\n", error->message);
      else
        puts ("ok");
      fflush (stdout);
    }
  close_all (fds);
  return 0;
}

/* -- the launcher -- */

static gboolean
order (TpsChild *child, const gchar *line, GError **error)
{
  g_autofree gchar *answer = tps_child_ask (child, line, error);

  if (answer == NULL || g_str_equal (answer, "ok"))
    return answer != NULL;
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "idle connections: %s", answer);
  return FALSE;
}

/* Waits until the server has closed its ends. Nothing is measured meanwhile. */
static gboolean
wait_until_closed (const TpsChild *server, guint n_descriptors, GError **error)
{
  while (tps_child_count_descriptors (server) > n_descriptors)
    {
      if (!tps_interrupt_check (error))
        return FALSE;
      g_usleep (POLL_US);
    }
  return TRUE;
}

static gboolean
measure_calls (const TpsTransferIdle *idle, GArray *calls_per_s, GError **error)
{
  gdouble rate = tps_call_load_run (idle->address, TPS_CALL_LOAD_N_CLIENTS, idle->seconds, error);

  if (rate < 0)
    return FALSE;
  g_array_append_val (calls_per_s, rate);
  return TRUE;
}

gboolean
tps_transfer_idle_measure_alone (TpsTransferIdle *idle, GError **error)
{
  return measure_calls (idle, idle->alone, error);
}

gboolean
tps_transfer_idle_measure_beside (TpsTransferIdle *idle, GError **error)
{
  g_autofree gchar *open_order = g_strdup_printf ("open %u", idle->n_idle);
  guint n_descriptors = tps_child_count_descriptors (idle->server);
  gsize before = tps_child_get_resident_bytes (idle->server);

  if (!order (idle->child, open_order, error))
    return FALSE;
  idle->bytes = MAX (idle->bytes,
                     (gdouble) tps_child_get_resident_bytes (idle->server) - (gdouble) before);
  return measure_calls (idle, idle->beside, error) && order (idle->child, "close", error)
         && wait_until_closed (idle->server, n_descriptors + TPS_CALL_LOAD_N_CLIENTS, error);
}

gboolean
tps_transfer_idle_start (TpsTransferIdle *idle, TpsSupervisor *supervisor, const TpsChild *server,
                         const gchar *address, gdouble seconds, GError **error)
{
  g_autofree gchar *program = tps_bench_find_program ();
  g_auto (GStrv) argv = tps_argv_format ("%s\n--load=idle\n--address=%s", program, address);

  idle->server = server;
  idle->address = address;
  idle->seconds = seconds;
  idle->child = tps_child_start (supervisor, "idle connections", argv, error);
  return idle->child != NULL;
}

void
tps_transfer_idle_stop (TpsTransferIdle *idle)
{
  g_clear_pointer (&idle->child, tps_child_free);
}

void
tps_transfer_idle_init (TpsTransferIdle *idle, guint n_idle)
{
  *idle = (TpsTransferIdle) { .n_idle = n_idle,
                              .alone = g_array_new (FALSE, FALSE, sizeof (gdouble)),
                              .beside = g_array_new (FALSE, FALSE, sizeof (gdouble)) };
}

void
tps_transfer_idle_clear (TpsTransferIdle *idle)
{
  g_clear_pointer (&idle->alone, g_array_unref);
  g_clear_pointer (&idle->beside, g_array_unref);
}
