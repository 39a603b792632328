/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/connector.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/thread.h"

/* The happy path: tps_address_connect() starts, the socket becomes writable, and `done` receives
 * it.
 *
 * A name lookup can block for longer than any deadline. If the address needs a lookup,
 * tps_address_connect() runs on a detached thread. This thread and the connector share the attempt,
 * and the last of the two frees it. */

typedef struct
{
  TpsRefcount refcount;
  TpsAddress address;
  TpsLoop *loop;

  TpsMutex lock;           /* guards the next line */
  TpsConnector *connector; /* NULL = cancelled; the loop may be freed */

  /* Written by the thread before it posts: */
  gint fd;
  gboolean in_progress;
  GError *error;
} Attempt;

struct TpsConnector
{
  TpsLoop *loop;
  gchar *where;
  gint64 timeout_ns;
  TpsConnectorDone done;
  gpointer user_data;

  Attempt *attempt; /* set while a thread runs */
  gint fd;          /* the socket, while connecting */
  TpsWatch *watch;
  guint64 timer_id;
  GError *error; /* the error that the timer reports; NULL = a timeout */
};

static void
attempt_unref (Attempt *attempt)
{
  if (!tps_refcount_dec (&attempt->refcount))
    return;
  if (attempt->fd >= 0)
    close (attempt->fd);
  g_clear_error (&attempt->error);
  tps_address_clear (&attempt->address);
  tps_mutex_clear (&attempt->lock);
  g_free (attempt);
}

static void
stop (TpsConnector *connector)
{
  if (connector->watch != NULL)
    tps_loop_remove_watch (connector->loop, connector->watch);
  connector->watch = NULL;
  if (connector->timer_id != 0)
    tps_loop_cancel_timer (connector->loop, connector->timer_id);
  connector->timer_id = 0;
  if (connector->attempt != NULL)
    {
      tps_mutex_lock (&connector->attempt->lock);
      connector->attempt->connector = NULL;
      tps_mutex_unlock (&connector->attempt->lock);
      attempt_unref (connector->attempt);
    }
  connector->attempt = NULL;
}

static void
finish (TpsConnector *connector, GError *error_taken)
{
  g_autoptr (GError) error = error_taken;
  gint fd = error == NULL ? connector->fd : -1;

  stop (connector);
  if (error == NULL)
    connector->fd = -1;
  connector->done (connector->user_data, fd, error);
}

static void
on_writable (guint32 epoll_events, gpointer user_data)
{
  TpsConnector *connector = user_data;
  GError *error = NULL;

  tps_socket_check (connector->fd, connector->where, &error);
  finish (connector, error);
}

static void
on_timer (gpointer user_data)
{
  TpsConnector *connector = user_data;
  GError *error = g_steal_pointer (&connector->error);

  connector->timer_id = 0;
  if (error == NULL)
    error = g_error_new (TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "cannot connect to %s within %.3g s",
                         connector->where, (gdouble) connector->timeout_ns / 1e9);
  finish (connector, error);
}

/* Takes ownership of the result of tps_address_connect(). */
static void
begin (TpsConnector *connector, gint fd, GError *error)
{
  connector->fd = fd;
  if (fd >= 0)
    {
      /* A socket that is already connected is writable at once. */
      connector->watch = tps_loop_add_watch (connector->loop, fd, EPOLLOUT, on_writable, connector,
                                             &error);
      if (connector->watch != NULL)
        return;
    }
  /* The error is reported by the timer, because `done` must not run within tps_connector_new(). */
  connector->error = error;
  if (connector->timer_id != 0)
    tps_loop_cancel_timer (connector->loop, connector->timer_id);
  connector->timer_id = tps_loop_add_timer (connector->loop, 0, on_timer, connector);
}

static void
on_attempted (gpointer user_data)
{
  Attempt *attempt = user_data;
  TpsConnector *connector;

  tps_mutex_lock (&attempt->lock);
  connector = attempt->connector;
  tps_mutex_unlock (&attempt->lock);
  if (connector != NULL)
    {
      gint fd = attempt->fd;

      attempt->fd = -1;
      connector->attempt = NULL;
      attempt_unref (attempt);
      begin (connector, fd, g_steal_pointer (&attempt->error));
    }
  attempt_unref (attempt);
}

static gpointer
attempt_thread (gpointer user_data)
{
  Attempt *attempt = user_data;

  attempt->fd = tps_address_connect (&attempt->address, &attempt->in_progress, &attempt->error);
  tps_mutex_lock (&attempt->lock);
  if (attempt->connector != NULL)
    {
      tps_refcount_inc (&attempt->refcount);
      tps_loop_post (attempt->loop, on_attempted, attempt);
    }
  tps_mutex_unlock (&attempt->lock);
  attempt_unref (attempt);
  return NULL;
}

static void
attempt_on_thread (TpsConnector *connector, const TpsAddress *address)
{
  Attempt *attempt = g_new0 (Attempt, 1);
  GError *failure = NULL;

  tps_refcount_init (&attempt->refcount);
  tps_refcount_inc (&attempt->refcount);
  tps_mutex_init (&attempt->lock);
  attempt->address = (TpsAddress) { .host = g_strdup (address->host), .port = address->port };
  attempt->loop = connector->loop;
  attempt->connector = connector;
  attempt->fd = -1;
  connector->attempt = attempt;
  if (tps_thread_start_detached ("tps-connect", attempt_thread, attempt, &failure))
    return;
  attempt_unref (attempt);
  connector->attempt = NULL;
  attempt_unref (attempt);
  failure->code = TPS_ERROR_CONNECTION_LOST;
  g_prefix_error (&failure, "cannot connect to %s: ", connector->where);
  begin (connector, -1, failure);
}

/* Returns TRUE if the address needs no name lookup, so that tps_address_connect() cannot block. */
static gboolean
needs_no_resolver (const TpsAddress *address)
{
  struct in6_addr parsed;

  return address->path != NULL || address->host[0] == '\0'
         || strcmp (address->host, "localhost") == 0
         || inet_pton (AF_INET, address->host, &parsed) == 1
         || inet_pton (AF_INET6, address->host, &parsed) == 1;
}

TpsConnector *
tps_connector_new (TpsLoop *loop, const TpsAddress *address, gint64 timeout_ns,
                   TpsConnectorDone done, gpointer user_data)
{
  TpsConnector *connector = g_new0 (TpsConnector, 1);
  gboolean in_progress;
  GError *error = NULL;
  gint fd;

  connector->loop = loop;
  connector->where = tps_address_to_string (address);
  connector->timeout_ns = timeout_ns;
  connector->done = done;
  connector->user_data = user_data;
  connector->fd = -1;
  connector->timer_id = tps_loop_add_timer (loop, tps_clock_now_ns () + timeout_ns, on_timer,
                                            connector);
  if (!needs_no_resolver (address))
    {
      attempt_on_thread (connector, address);
      return connector;
    }
  fd = tps_address_connect (address, &in_progress, &error);
  begin (connector, fd, error);
  return connector;
}

void
tps_connector_free (TpsConnector *connector)
{
  stop (connector);
  if (connector->fd >= 0)
    close (connector->fd);
  g_clear_error (&connector->error);
  g_free (connector->where);
  g_free (connector);
}
