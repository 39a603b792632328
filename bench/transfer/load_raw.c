/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <stdio.h>
#include <unistd.h>

#include "bench/transfer/load.h"
#include "bench/transfer/row.h"
#include "bench/transfer/stream.h"
#include "bench/transfer/tensor.h"
#include "runtime/error.h"
#include "runtime/sync.h"

typedef struct
{
  const TpsTransferRow *row;
  gint fd;
  guint8 *memory;
  gint64 *ns;
  guint n_calls;
  gboolean failed;
  TpsThread thread;
} Connection;

typedef struct
{
  const gchar *address;
  GArray *fds;         /* connections stay from row to row */
  GPtrArray *memories; /* one a connection */
} Loader;

static gboolean
send_request (Connection *connection)
{
  const TpsTransferRow *row = connection->row;
  guint64 head[2] = { row->op, row->n_bytes };

  return tps_stream_send_all (connection->fd, head, sizeof head)
         && (row->op == TPS_TRANSFER_PULL
             || tps_stream_send_all (connection->fd, connection->memory, row->n_bytes));
}

static gboolean
receive_answer (Connection *connection)
{
  const TpsTransferRow *row = connection->row;

  return tps_stream_receive_all (connection->fd, connection->memory,
                                 row->op == TPS_TRANSFER_PUSH ? 1 : row->n_bytes);
}

/* A window of requests is out; each answer lets the next one go. */
static gpointer
run_connection (gpointer data)
{
  Connection *connection = data;
  guint window = MIN (connection->row->n_in_flight, connection->n_calls);
  g_autofree gint64 *started = g_new0 (gint64, connection->n_calls + 1);
  guint n_sent = 0;

  for (guint n_done = 0; n_done < connection->n_calls && !connection->failed; n_done++)
    {
      while (n_sent < connection->n_calls && n_sent < n_done + window && !connection->failed)
        {
          started[n_sent++] = tps_clock_now_ns ();
          connection->failed = !send_request (connection);
        }
      connection->failed = connection->failed || !receive_answer (connection);
      connection->ns[n_done] = tps_clock_now_ns () - started[n_done];
    }
  return NULL;
}

static gboolean
connect_all (Loader *loader, guint n, GError **error)
{
  while (loader->fds->len < n)
    {
      gint fd = tps_stream_connect (loader->address, error);

      if (fd < 0)
        return FALSE;
      g_array_append_val (loader->fds, fd);
      g_ptr_array_add (loader->memories, g_malloc0 (TPS_TRANSFER_MAX_BYTES));
    }
  return TRUE;
}

/* The first connections take one call more where they do not divide. */
static gboolean
run_connections (Loader *loader, const TpsTransferRow *row, gint64 *ns)
{
  guint n = MIN (row->n_connections, row->n_calls);
  g_autofree Connection *connections = g_new0 (Connection, n);
  gboolean failed = FALSE;

  for (guint i = 0; i < n; i++)
    {
      Connection *connection = &connections[i];

      *connection = (Connection) { .row = row,
                                   .fd = g_array_index (loader->fds, gint, i),
                                   .memory = loader->memories->pdata[i],
                                   .ns = ns,
                                   .n_calls = row->n_calls / n + (i < row->n_calls % n) };
      ns += connection->n_calls;
      tps_sync_check (pthread_create (&connection->thread, NULL, run_connection, connection));
    }
  for (guint i = 0; i < n; i++)
    {
      tps_sync_check (pthread_join (connections[i].thread, NULL));
      failed = failed || connections[i].failed;
    }
  return !failed;
}

static gint64
run_row (gpointer user_data, const TpsTransferRow *row, gint64 *ns, GError **error)
{
  Loader *loader = user_data;
  gint64 start_ns;

  if (row->op == TPS_TRANSFER_ECHO && row->n_in_flight > 1)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "both sides of a blocking socket would send and wait for each other");
      return -1;
    }
  if (!connect_all (loader, row->n_connections, error))
    return -1;
  start_ns = tps_clock_now_ns ();
  if (run_connections (loader, row, ns))
    return tps_clock_now_ns () - start_ns;
  g_set_error (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "the server is gone");
  return -1;
}

gint
tps_transfer_load_raw (const gchar *address)
{
  g_autoptr (GArray) fds = g_array_new (FALSE, FALSE, sizeof (gint));
  g_autoptr (GPtrArray) memories = g_ptr_array_new_with_free_func (g_free);
  Loader loader = { address, fds, memories };
  gint status = tps_transfer_serve_rows (run_row, &loader);

  for (guint i = 0; i < fds->len; i++)
    close (g_array_index (fds, gint, i));
  return status;
}
