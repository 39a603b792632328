/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/limits/raw.h"

#include <string.h>
#include <unistd.h>

#include "bench/transfer/limits/shared_memory.h"
#include "bench/transfer/limits/stream.h"
#include "bench/transfer/system/row.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* -- the server -- */

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
tps_transfer_serve_raw (const gchar *address, gsize max_bytes,
                        G_GNUC_UNUSED const gchar *certificate)
{
  return serve (address, max_bytes, FALSE);
}

gint
tps_transfer_serve_raw_shared (const gchar *address, gsize max_bytes,
                               G_GNUC_UNUSED const gchar *certificate)
{
  return serve (address, max_bytes, TRUE);
}

/* -- the load generator -- */

/* A connection, which later rows use again. It has either `shared` or `received`. */
typedef struct
{
  gint fd;
  TpsTransferSharedMemory shared; /* memory for requests and replies */
  TpsBuffer *received;            /* memory for replies */
} Link;

/* The calls of a row on one link. */
typedef struct
{
  const TpsTransferRow *row;
  const guint8 *sent;
  Link *link;
  gint64 *ns;
  guint window; /* maximum number of requests in flight; each reply allows the next request */
  guint n_calls;
  gboolean failed, wrong;
  TpsThread thread;
} Run;

typedef struct
{
  const gchar *address;
  gboolean is_shared;
  TpsBuffer *sent;  /* the maximum that may be in flight on a link */
  GPtrArray *links; /* of Link */
} Loader;

/* -- links -- */

static void
link_free (gpointer data)
{
  Link *link = data;

  if (link->fd >= 0)
    close (link->fd);
  tps_transfer_shared_memory_clear (&link->shared);
  g_clear_pointer (&link->received, tps_buffer_unref);
  g_free (link);
}

static gboolean
add_link (Loader *loader, GError **error)
{
  Link *link = g_new0 (Link, 1);
  gsize max_bytes = tps_buffer_get_size (loader->sent);

  g_ptr_array_add (loader->links, link);
  link->fd = tps_stream_connect (loader->address, error);
  if (link->fd < 0)
    return FALSE;
  if (!loader->is_shared)
    link->received = tps_buffer_new (max_bytes);
  else if (!tps_transfer_shared_memory_offer (&link->shared, max_bytes, link->fd))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED, "no memory to share");
      return FALSE;
    }
  return TRUE;
}

static gboolean
add_links (Loader *loader, guint n, GError **error)
{
  while (loader->links->len < n)
    if (!add_link (loader, error))
      {
        g_ptr_array_set_size (loader->links, (gint) loader->links->len - 1);
        return FALSE;
      }
  return TRUE;
}

/* -- calls -- */

/* Returns the offset of a call in shared memory, different for all requests in flight. */
static gsize
get_offset (const Run *run, guint call)
{
  return run->link->shared.requests != NULL ? call % MAX (run->window, 1) * run->row->n_bytes : 0;
}

static gboolean
send_request (const Run *run, guint call)
{
  const TpsTransferRow *row = run->row;
  TpsTransferRawHead head = { row->op, row->n_bytes, get_offset (run, call) };
  gboolean has_bytes = row->op != TPS_TRANSFER_PULL;

  if (run->link->shared.requests == NULL)
    return tps_stream_send_all (run->link->fd, &head, sizeof head)
           && (!has_bytes || tps_stream_send_all (run->link->fd, run->sent, row->n_bytes));
  if (has_bytes)
    memcpy (run->link->shared.requests + head.offset, run->sent, row->n_bytes);
  return tps_stream_send_all (run->link->fd, &head, sizeof head);
}

static guint8 *
get_answer (const Run *run, guint call)
{
  return run->link->received != NULL ? tps_buffer_get_data (run->link->received)
                                     : run->link->shared.answers + get_offset (run, call);
}

static gboolean
receive_answer (const Run *run, guint call)
{
  guint8 byte;

  return run->link->shared.requests != NULL || run->row->op == TPS_TRANSFER_PUSH
             ? tps_stream_receive_all (run->link->fd, &byte, 1)
             : tps_stream_receive_all (run->link->fd, get_answer (run, call), run->row->n_bytes);
}

static gpointer
run_calls (gpointer data)
{
  Run *run = data;
  g_autofree gint64 *started = g_new0 (gint64, run->n_calls + 1);
  guint n_sent = 0;

  if (run->row->is_check)
    memset (get_answer (run, 0), 0, run->row->n_bytes);
  for (guint n_done = 0; n_done < run->n_calls && !run->failed; n_done++)
    {
      while (n_sent < run->n_calls && n_sent < n_done + run->window && !run->failed)
        {
          started[n_sent] = tps_clock_now_ns ();
          run->failed = !send_request (run, n_sent++);
        }
      run->failed = run->failed || !receive_answer (run, n_done);
      run->ns[n_done] = tps_clock_now_ns () - started[n_done];
    }
  run->wrong = run->row->is_check && !run->failed
               && !tps_transfer_pattern_matches (get_answer (run, 0), run->row->n_bytes);
  return NULL;
}

/* -- rows -- */

static gboolean
check_row (const Loader *loader, const TpsTransferRow *row, GError **error)
{
  const gchar *reason = NULL;

  if (!loader->is_shared && row->op == TPS_TRANSFER_ECHO && row->n_in_flight > 1)
    reason = "both sides of a blocking socket would send and wait for each other";
  else if (row->n_bytes * row->n_in_flight > tps_buffer_get_size (loader->sent))
    reason = "more than may be in flight on a connection";
  if (reason != NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s", reason);
  return reason == NULL;
}

static gboolean
join (Run *runs, guint n, GError **error)
{
  gboolean failed = FALSE, wrong = FALSE;

  for (guint i = 0; i < n; i++)
    {
      tps_sync_check (pthread_join (runs[i].thread, NULL));
      failed = failed || runs[i].failed;
      wrong = wrong || runs[i].wrong;
    }
  if (failed)
    g_set_error (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "the server is gone");
  else if (wrong)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "a wrong reply");
  return !failed && !wrong;
}

/* Runs a row. If the links do not divide the calls evenly, the first links make one more call. */
static gint64
run_row (gpointer user_data, const TpsTransferRow *row, gint64 *ns, GError **error)
{
  Loader *loader = user_data;
  guint n = MIN (row->n_connections, row->n_calls);
  g_autofree Run *runs = g_new0 (Run, n);
  gint64 start_ns;

  if (!check_row (loader, row, error) || !add_links (loader, n, error))
    return -1;
  start_ns = tps_clock_now_ns ();
  for (guint i = 0; i < n; i++)
    {
      guint n_calls = row->n_calls / n + (i < row->n_calls % n);

      runs[i] = (Run) { .row = row,
                        .sent = tps_buffer_get_data (loader->sent),
                        .link = loader->links->pdata[i],
                        .ns = ns,
                        .window = MIN (row->n_in_flight, n_calls),
                        .n_calls = n_calls };
      ns += n_calls;
      tps_sync_check (pthread_create (&runs[i].thread, NULL, run_calls, &runs[i]));
    }
  return join (runs, n, error) ? tps_clock_now_ns () - start_ns : -1;
}

static gint
load (const gchar *address, gsize max_bytes, gboolean is_shared)
{
  g_autoptr (TpsBuffer) sent = tps_transfer_pattern_new (max_bytes);
  g_autoptr (GPtrArray) links = g_ptr_array_new_with_free_func (link_free);
  Loader loader = { address, is_shared, sent, links };

  return tps_transfer_serve_rows (run_row, &loader);
}

gint
tps_transfer_load_raw (const gchar *address, gsize max_bytes,
                       G_GNUC_UNUSED const gchar *certificate)
{
  return load (address, max_bytes, FALSE);
}

gint
tps_transfer_load_raw_shared (const gchar *address, gsize max_bytes,
                              G_GNUC_UNUSED const gchar *certificate)
{
  return load (address, max_bytes, TRUE);
}

/* -- memcpy() without a server -- */

typedef struct
{
  TpsBuffer *from, *to, *back;
} Copies;

static void
copy (TpsBuffer *to, TpsBuffer *from, gsize n_bytes)
{
  guint8 *data = tps_buffer_get_data (to);

  memcpy (data, tps_buffer_get_data (from), n_bytes);
  __asm__ volatile("" : : "r"(data) : "memory"); /* so that the compiler keeps the copy */
}

static gint64
run_copies (gpointer user_data, const TpsTransferRow *row, gint64 *ns, G_GNUC_UNUSED GError **error)
{
  const Copies *copies = user_data;
  gint64 start_ns = tps_clock_now_ns (), before_ns = start_ns;

  for (guint i = 0; i < row->n_calls; i++)
    {
      gint64 after_ns;

      copy (copies->to, copies->from, row->n_bytes);
      if (row->op == TPS_TRANSFER_ECHO)
        copy (copies->back, copies->to, row->n_bytes);
      after_ns = tps_clock_now_ns ();
      ns[i] = after_ns - before_ns;
      before_ns = after_ns;
    }
  return before_ns - start_ns;
}

gint
tps_transfer_load_memcpy (G_GNUC_UNUSED const gchar *address, gsize max_bytes,
                          G_GNUC_UNUSED const gchar *certificate)
{
  g_autoptr (TpsBuffer) from = tps_transfer_pattern_new (max_bytes);
  g_autoptr (TpsBuffer) to = tps_buffer_new (max_bytes);
  g_autoptr (TpsBuffer) back = tps_buffer_new (max_bytes);
  Copies copies = { from, to, back };

  return tps_transfer_serve_rows (run_copies, &copies);
}
