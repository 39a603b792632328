/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <string.h>
#include <unistd.h>

#include "bench/transfer/limits/raw.h"
#include "bench/transfer/limits/shared_memory.h"
#include "bench/transfer/limits/stream.h"
#include "bench/transfer/system/pattern.h"
#include "bench/transfer/system/row.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

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

/* Returns the offset of a call in shared memory. Requests that are in flight at the same time have
 * different places. */
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
  guint8 ack;

  return run->link->shared.requests != NULL || run->row->op == TPS_TRANSFER_PUSH
             ? tps_stream_receive_all (run->link->fd, &ack, 1)
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
tps_transfer_load_raw (const gchar *address, gsize max_bytes)
{
  return load (address, max_bytes, FALSE);
}

gint
tps_transfer_load_raw_shared (const gchar *address, gsize max_bytes)
{
  return load (address, max_bytes, TRUE);
}
