/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <string.h>
#include <unistd.h>

#include "bench/transfer/limits/raw.h"
#include "bench/transfer/limits/shared_memory.h"
#include "bench/transfer/limits/stream.h"
#include "bench/transfer/system/pattern.h"
#include "bench/transfer/system/row.h"
#include "bench/transfer/system/serve.h"
#include "runtime/base/sync.h"

/* A listening socket, or a connection. */
typedef struct
{
  gint fd;
  gboolean is_shared;
  gsize max_bytes;
  const guint8 *pulled; /* [max_bytes] */
} Socket;

static const guint8 ack = 1;

static gboolean
answer_inline (const Socket *connection, guint8 *memory, const TpsTransferRawHead *head)
{
  gint fd = connection->fd;

  if (head->op == TPS_TRANSFER_PULL)
    return tps_stream_send_all (fd, connection->pulled, head->n_bytes);
  if (!tps_stream_receive_all (fd, memory, head->n_bytes))
    return FALSE;
  return head->op == TPS_TRANSFER_PUSH ? tps_stream_send_all (fd, &ack, 1)
                                       : tps_stream_send_all (fd, memory, head->n_bytes);
}

static gpointer
serve_inline (gpointer data)
{
  g_autofree Socket *connection = data;
  g_autoptr (TpsBuffer) memory = tps_buffer_new (connection->max_bytes);
  TpsTransferRawHead head;

  while (tps_stream_receive_all (connection->fd, &head, sizeof head)
         && head.n_bytes <= connection->max_bytes
         && answer_inline (connection, tps_buffer_get_data (memory), &head))
    continue;
  close (connection->fd);
  return NULL;
}

static gboolean
answer_shared (const Socket *connection, const TpsTransferSharedMemory *shared,
               const TpsTransferRawHead *head)
{
  if (head->offset > connection->max_bytes - head->n_bytes)
    return FALSE;
  if (head->op == TPS_TRANSFER_PULL)
    memcpy (shared->answers + head->offset, connection->pulled, head->n_bytes);
  else if (head->op == TPS_TRANSFER_ECHO)
    memcpy (shared->answers + head->offset, shared->requests + head->offset, head->n_bytes);
  return tps_stream_send_all (connection->fd, &ack, 1);
}

static gpointer
serve_shared (gpointer data)
{
  g_autofree Socket *connection = data;
  TpsTransferSharedMemory shared = { 0 };
  TpsTransferRawHead head;

  if (tps_transfer_shared_memory_accept (&shared, connection->max_bytes, connection->fd))
    while (tps_stream_receive_all (connection->fd, &head, sizeof head)
           && head.n_bytes <= connection->max_bytes && answer_shared (connection, &shared, &head))
      continue;
  tps_transfer_shared_memory_clear (&shared);
  close (connection->fd);
  return NULL;
}

static gpointer
accept_connections (gpointer data)
{
  const Socket *listener = data;
  gint fd;

  while ((fd = tps_stream_accept (listener->fd)) >= 0)
    {
      Socket *connection = g_new (Socket, 1);
      TpsThread thread;

      *connection = *listener;
      connection->fd = fd;
      tps_sync_check (pthread_create (
          &thread, NULL, listener->is_shared ? serve_shared : serve_inline, connection));
      tps_sync_check (pthread_detach (thread));
    }
  return NULL;
}

/* Runs the server until the end of the standard input. The threads end with the process. */
static gint
serve (const gchar *address, gsize max_bytes, gboolean is_shared)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *bound = NULL;
  g_autoptr (TpsBuffer) pulled = tps_transfer_pattern_new (max_bytes);
  Socket listener = { .fd = tps_stream_listen (address, &bound, &error),
                      .is_shared = is_shared,
                      .max_bytes = max_bytes,
                      .pulled = tps_buffer_get_data (pulled) };
  TpsThread thread;

  if (listener.fd < 0)
    return tps_transfer_fail (error);
  tps_transfer_announce (bound);
  tps_sync_check (pthread_create (&thread, NULL, accept_connections, &listener));
  tps_transfer_wait_for_end ();
  _exit (0);
}

gint
tps_transfer_serve_raw (const gchar *address, gsize max_bytes)
{
  return serve (address, max_bytes, FALSE);
}

gint
tps_transfer_serve_raw_shared (const gchar *address, gsize max_bytes)
{
  return serve (address, max_bytes, TRUE);
}
