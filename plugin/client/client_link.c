/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/client_link.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "plugin/net/tls/tls_channel.h"
#include "plugin/wire/wire_failure.h"
#include "plugin/wire/wire_session.h"
#include "runtime/base/error.h"
#include "runtime/base/magazine.h"
#include "runtime/base/thread.h"

/* ---- calls in flight ------------------------------------------------------------------------ */

static guint
list_of (gint32 seqid)
{
  return (guint32) seqid % TPS_CALL_TABLE_LISTS;
}

void
tps_call_table_insert (TpsCallTable *table, TpsClientCall *call)
{
  TpsClientCall **list = &table->lists[list_of (call->seqid)];

  call->next_in_table = *list;
  *list = call;
  table->n_calls += call->bound == 0;
}

TpsClientCall *
tps_call_table_find (const TpsCallTable *table, gint32 seqid)
{
  TpsClientCall *call = table->lists[list_of (seqid)];

  while (call != NULL && call->seqid != seqid)
    call = call->next_in_table;
  return call;
}

void
tps_call_table_remove (TpsCallTable *table, TpsClientCall *call)
{
  TpsClientCall **link = &table->lists[list_of (call->seqid)];

  while (*link != NULL && *link != call)
    link = &(*link)->next_in_table;
  if (*link == NULL)
    return;
  *link = call->next_in_table;
  table->n_calls -= call->bound == 0;
}

TpsClientCall *
tps_call_table_get_next (const TpsCallTable *table, const TpsClientCall *call)
{
  guint list = 0;

  if (call != NULL && call->next_in_table != NULL)
    return call->next_in_table;
  if (call != NULL)
    list = list_of (call->seqid) + 1;
  while (list < TPS_CALL_TABLE_LISTS && table->lists[list] == NULL)
    list++;
  return list < TPS_CALL_TABLE_LISTS ? table->lists[list] : NULL;
}

/* ---- replies -------------------------------------------------------------------------------- */

#define APPLICATION_UNKNOWN_METHOD 1 /* TApplicationExceptionType of Thrift */

static void
read_service_error (TpsReader *in, GError **error)
{
  g_auto (TpsServiceError) failure = { 0 };

  tps_service_error_read (in, &failure);
  if (error == NULL)
    return;
  *error = g_error_new_literal (TPS_ERROR, tps_error_from_wire_code (failure.code),
                                failure.message != NULL ? failure.message
                                                        : "the peer's error has no message");
  if (failure.has_retry_after_ms && failure.retry_after_ms >= 0)
    tps_error_set_retry_after_ms (*error, failure.retry_after_ms);
}

static void
read_application_exception (TpsReader *in, GError **error)
{
  g_auto (TpsApplicationException) exception = { 0 };

  tps_application_exception_read (in, &exception);
  g_set_error (error, TPS_ERROR,
               exception.kind == APPLICATION_UNKNOWN_METHOD ? TPS_ERROR_NOT_FOUND
                                                            : TPS_ERROR_INTERNAL,
               "the peer cannot serve the call (application exception %d): %s", exception.kind,
               exception.message != NULL ? exception.message : "");
}

gboolean
tps_reply_has_name (const TpsMessage *reply, const gchar *sent_name)
{
  const gchar *method = strchr (sent_name, ':');

  return strcmp (reply->name, sent_name) == 0
         || (method != NULL && strcmp (reply->name, method + 1) == 0);
}

/* Opens a reply. Returns TRUE for a value: `in` is then positioned before the value, and `type` is
 * its wire type, TPS_WIRE_STOP if the result is void. Otherwise sets the error: the peer's error
 * with its TPS_ERROR code, including retry_after_ms; RESOURCE_EXHAUSTED if there was no memory for
 * the reply; INTERNAL if the result has an unknown field. The result struct has one field: field 0
 * is the value, and field 1 is the exception of the contract. That of a void method is empty. */
static gboolean
reply_open (const TpsMessage *reply, TpsReader *in, TpsWireType *type, GError **error)
{
  gint16 id;

  tps_reader_init (in, reply);
  if (reply->n_bytes_refused > 0)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                     "no memory for %" G_GSIZE_FORMAT " bytes of the reply",
                     reply->n_bytes_refused);
  if (reply->kind == TPS_MESSAGE_EXCEPTION)
    {
      read_application_exception (in, error);
      return FALSE;
    }
  tps_reader_struct_begin (in);
  if (!tps_reader_field (in, &id, type))
    {
      *type = TPS_WIRE_STOP;
      return TRUE;
    }
  if (id == 0)
    return TRUE;
  if (id != tps_failure_field.id || *type != TPS_WIRE_STRUCT)
    return tps_fail (error, TPS_ERROR_INTERNAL,
                     "the result has field %d, which this client does not know", id);
  read_service_error (in, error);
  return FALSE;
}

gchar *
tps_reply_dup_transfer (const TpsMessage *reply)
{
  g_auto (TpsServiceError) failure = { 0 };
  TpsWireType type;
  TpsReader in;
  gint16 id;

  if (reply->kind != TPS_MESSAGE_REPLY || reply->n_bytes_refused > 0)
    return NULL;
  tps_reader_init (&in, reply);
  tps_reader_struct_begin (&in);
  if (!tps_reader_field (&in, &id, &type) || id != tps_failure_field.id || type != TPS_WIRE_STRUCT)
    return NULL;
  tps_service_error_read (&in, &failure);
  return g_steal_pointer (&failure.transfer);
}

/* ---- a call --------------------------------------------------------------------------------- */

static void
destroy (gpointer data)
{
  TpsClientCall *call = data;

  g_string_free (call->name, TRUE);
  g_free (call);
}

static TpsDepot depot = TPS_DEPOT_INIT (destroy);
static _Thread_local TpsMagazine magazine;

TpsClientCall *
tps_client_call_new (TpsClient *client, gint64 deadline_ns, gpointer user_data)
{
  TpsClientCall *call = tps_magazine_take (&magazine, &depot);
  GString *name = call != NULL ? g_string_truncate (call->name, 0) : g_string_new (NULL);

  if (call == NULL)
    call = g_new (TpsClientCall, 1);
  *call = (TpsClientCall) {
    .client = client,
    .name = name,
    .started_ns = tps_clock_now_ns (),
    .deadline_ns = deadline_ns,
    .user_data = user_data,
    .node = { .data = call },
  };
  tps_refcount_init (&call->holds);
  atomic_init (&call->sending, TPS_CLIENT_WRITER_UNSENT);
  atomic_init (&call->writer_released, FALSE);
  return call;
}

void
tps_client_call_finish (gpointer user_data)
{
  TpsClientCall *call = user_data;
  TpsClient *client = call->client;
  TpsReader result;
  TpsWireType type;

  /* An answered call has stayed in the table until its writer was freed. */
  if (call->answered)
    {
      tps_mutex_lock (&client->lock);
      tps_call_table_remove (&client->calls, call);
      tps_mutex_unlock (&client->lock);
      call->answered = FALSE;
    }
  /* A reply of any kind, including an error, gives the segments back to the client. So does a call
   * that was never sent. */
  if (call->lease != NULL)
    tps_segment_lease_end (call->lease,
                           call->reply != NULL
                               || atomic_load (&call->sending) != TPS_CLIENT_WRITER_GIVEN);
  g_clear_pointer (&call->lease, tps_sharing_unref);
  if (call->goes_on != NULL && call->goes_on (call))
    return;
  if (call->delayed != NULL)
    call->delayed (call->user_data, call->error);
  else if (call->error == NULL && reply_open (call->reply, &result, &type, &call->error))
    call->done (call->user_data, &result, type, NULL);
  else
    call->done (call->user_data, NULL, TPS_WIRE_STOP, call->error);
  g_clear_pointer (&call->reply, tps_message_free);
  g_clear_error (&call->error);
  tps_magazine_put (&magazine, &depot, call);
  tps_mutex_lock (&client->lock);
  if (--client->n_calls == 0)
    tps_cond_broadcast (&client->idle);
  tps_mutex_unlock (&client->lock);
}

void
tps_client_call_decided (TpsClientCall *call)
{
  if (!tps_refcount_dec (&call->holds))
    return;
  if (tps_loop_is_current (call->client->loop))
    tps_client_call_finish (call);
  else
    tps_loop_post (call->client->loop, tps_client_call_finish, call);
}

void
tps_client_call_fail (TpsClientCall *call, GError *error_taken)
{
  call->error = error_taken;
  tps_client_call_decided (call);
}

/* ---- the message ---------------------------------------------------------------------------- */

void
tps_client_call_set_name (TpsClientCall *call, const gchar *service, const gchar *method)
{
  g_string_append (call->name, service);
  g_string_append_c (call->name, ':');
  g_string_append (call->name, method);
}

static void
write_header (TpsClientCall *call)
{
  TpsClient *client = call->client;
  gchar traceparent[TPS_TRACEPARENT_TEXT];

  if (!atomic_load_explicit (&client->is_traced, memory_order_relaxed))
    return;
  tps_mutex_lock (&client->lock);
  tps_trace_context_format (&client->context, traceparent);
  tps_mutex_unlock (&client->lock);
  tps_writer_set_header (call->writer, call->seqid);
  tps_writer_add_header (call->writer, TPS_TRACEPARENT, traceparent);
}

void
tps_client_call_write (TpsClientCall *call, TpsWriteArguments write, gconstpointer write_data)
{
  call->writer = tps_writer_new (call->is_large ? TPS_PROTOCOL_BINARY : call->client->protocol,
                                 TRUE);
  tps_writer_set_sharing (call->writer, call->lease);
  write_header (call);
  tps_writer_message_begin (call->writer, call->name->str, TPS_MESSAGE_CALL, call->seqid);
  tps_writer_struct_begin (call->writer);
  if (write != NULL)
    write (call->writer, write_data);
  tps_writer_struct_end (call->writer);
  if (call->lease != NULL)
    tps_segment_lease_written (call->lease);
}

/* Called when the writer has been freed. The connection may free it with a lock held, so the call
 * must not finish inside this function. */
static void
call_writer_released (gpointer user_data)
{
  TpsClientCall *call = user_data;

  atomic_store (&call->writer_released, TRUE);
  if (tps_refcount_dec (&call->holds))
    tps_loop_post (call->client->loop, tps_client_call_finish, call);
}

void
tps_client_call_written (TpsClientCall *call)
{
  /* The second reference, which call_writer_released() drops. */
  tps_refcount_inc (&call->holds);
  tps_writer_set_released (call->writer, call_writer_released, call);
}

void
tps_client_call_unwrite (TpsClientCall *call)
{
  g_clear_pointer (&call->writer, tps_writer_free);
  atomic_store (&call->writer_released, FALSE);
  if (call->lease != NULL)
    tps_segment_lease_end (call->lease, TRUE);
  g_clear_pointer (&call->lease, tps_sharing_unref);
}

/* ---- sending -------------------------------------------------------------------------------- */

static gboolean
call_claim_writer (TpsClientCall *call, int as)
{
  int unsent = TPS_CLIENT_WRITER_UNSENT;

  return atomic_compare_exchange_strong (&call->sending, &unsent, as);
}

void
tps_client_call_send (TpsClientCall *call, TpsConnection *connection)
{
  TpsWriter *writer = call->writer;

  if (!call_claim_writer (call, TPS_CLIENT_WRITER_GIVEN))
    {
      tps_writer_free (writer);
      return;
    }
  /* The writer of a background call borrows nothing, so the call need not wait for its release.
   * Later replies depend on the outcome of the call, so the outcome must be final when its own
   * reply has been processed. */
  if (call->bound != 0)
    {
      tps_writer_set_released (writer, NULL, NULL);
      call_writer_released (call);
    }
  tps_connection_send (connection, writer);
}

TpsWriter *
tps_client_call_forget (TpsClientCall *call)
{
  TpsWriter *orphan = NULL;

  if (call->queue != NULL)
    {
      g_queue_unlink (call->queue, &call->node);
      call->queue = NULL;
      orphan = call->writer;
    }
  if (call->writer != NULL)
    call_claim_writer (call, TPS_CLIENT_WRITER_DROPPED);
  tps_call_table_remove (&call->client->calls, call);
  return orphan;
}

gboolean
tps_client_call_is_being_sent (const TpsClientCall *call)
{
  return call->writer != NULL && atomic_load (&call->sending) == TPS_CLIENT_WRITER_GIVEN
         && !atomic_load (&call->writer_released);
}

/* ---- connecting a socket -------------------------------------------------------------------- */

/* One attempt to connect a socket, with a deadline. It never blocks the loop.
 *
 * The happy path: tps_address_connect() starts, the socket becomes writable, and `done` receives
 * it.
 *
 * A name lookup can block for longer than any deadline. If the address needs a lookup,
 * tps_address_connect() runs on a detached thread. This thread and the connector share the attempt,
 * and the last of the two frees it. */

/* Called with the connected, non-blocking `fd`, which the callee then owns, or with -1 and an
 * error, which is borrowed (CONNECTION_LOST; INVALID_ARGUMENT if the host does not exist). The
 * callee may free the connector. Thread: the loop's. */
typedef void (*ConnectorDone) (gpointer user_data, gint fd, const GError *error);

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
  ConnectorDone done;
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
  /* The error is reported by the timer, because `done` must not run within connector_new(). */
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

/* Starts an attempt to connect. The caller owns the result. `done` is called at most once, never
 * from within this function. Thread: the loop's. */
static TpsConnector *
connector_new (TpsLoop *loop, const TpsAddress *address, gint64 timeout_ns, ConnectorDone done,
               gpointer user_data)
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

/* Frees the connector. If the attempt is still running, it is cancelled, and `done` is not called.
 * Thread: the loop's. */
static void
connector_free (TpsConnector *connector)
{
  stop (connector);
  if (connector->fd >= 0)
    close (connector->fd);
  g_clear_error (&connector->error);
  g_free (connector->where);
  g_free (connector);
}

/* ---- link ----------------------------------------------------------------------------------- */

/* The sequence id of the request with the token. Calls never use 0: register_call() in client.c. */
#define TOKEN_SEQID 0

TPS_DEFINE_REF (TpsClientLink, tps_client_link)

void
tps_client_link_unref (TpsClientLink *link)
{
  TpsClient *client = link->client;

  if (!tps_refcount_dec (&link->refcount))
    return;
  g_clear_pointer (&link->connection, tps_connection_unref);
  g_clear_pointer (&link->pool, tps_segment_pool_unref);
  g_free (link);
  TPS_LOCK_SCOPE (&client->lock);
  if (--client->n_links == 0)
    tps_cond_broadcast (&client->idle);
}

/* Runs once, after the link is down. */
static void
link_tear_down (gpointer user_data)
{
  TpsClientLink *link = user_data;

  link->torn_down = TRUE;
  g_clear_pointer (&link->connector, connector_free);
  if (link->phase == TPS_CLIENT_LINK_UP)
    tps_connection_close (link->connection); /* on_closed() is the last event */
  else
    tps_client_link_unref (link);
}

/* Takes the link down. Its calls move from the table to `calls`, and their unsent writers to
 * `orphans`. The memory of the link stays until link_tear_down(), which the caller must post.
 * Returns FALSE if the link is already down. Must be called with client->lock held. */
static gboolean
link_take_down (TpsClientLink *link, GPtrArray *calls, GPtrArray *orphans)
{
  TpsClient *client = link->client;
  TpsClientCall *call = NULL;

  if (link->down)
    return FALSE;
  link->down = TRUE;
  if (client->link == link)
    client->link = NULL;
  if (link->pool != NULL)
    {
      tps_segment_pool_add_stats (link->pool, &client->past_stats);
      tps_segment_pool_shut_down (link->pool); /* the pool calls `wake` no more */
    }
  while ((call = tps_call_table_get_next (&client->calls, call)) != NULL)
    if (call->link == link && !call->answered)
      g_ptr_array_add (calls, call);
    else if (call->link == link)
      call->link = NULL; /* the call only waits until the connection frees its writer */
  for (guint i = 0; i < calls->len; i++)
    {
      TpsWriter *orphan = tps_client_call_forget (calls->pdata[i]);

      if (orphan != NULL)
        g_ptr_array_add (orphans, orphan);
    }
  return TRUE;
}

void
tps_client_lose_link (TpsClient *client, TpsClientLink *link, const GError *why)
{
  g_autoptr (GPtrArray) orphans = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_writer_free);
  g_autoptr (GPtrArray) calls = g_ptr_array_new ();
  gboolean taken;

  tps_mutex_lock (&client->lock);
  if (link == NULL)
    link = client->link;
  taken = link != NULL && link_take_down (link, calls, orphans);
  tps_mutex_unlock (&client->lock);
  if (!taken)
    return;
  /* The teardown is posted, because an event of the link may be running. */
  tps_loop_post (client->loop, link_tear_down, link);
  g_ptr_array_set_size (orphans, 0);
  for (guint i = 0; i < calls->len; i++)
    tps_client_call_fail (calls->pdata[i], g_error_copy (why));
}

G_GNUC_PRINTF (2, 3)
static void
link_lose_with (TpsClientLink *link, const gchar *format, ...)
{
  g_autoptr (GError) error = NULL;
  va_list arguments;

  va_start (arguments, format);
  error = g_error_new_valist (TPS_ERROR, TPS_ERROR_CONNECTION_LOST, format, arguments);
  va_end (arguments);
  tps_client_lose_link (link->client, link, error);
}

/* Returns the call to which the reply belongs. Removes it from the table, unless its writer still
 * has to be freed. Returns NULL if the call has ended or the reply takes the link down. */
static TpsClientCall *
take_answered (TpsClientLink *link, const TpsMessage *reply)
{
  TpsClient *client = link->client;
  gboolean was_issued, is_ours;
  TpsClientCall *call;

  tps_mutex_lock (&client->lock);
  call = tps_call_table_find (&client->calls, reply->seqid);
  was_issued = (guint32) reply->seqid - 1 < client->n_issued;
  if (call != NULL && call->answered)
    call = NULL; /* a second reply */
  is_ours = call != NULL && call->link == link && tps_reply_has_name (reply, call->name->str);
  if (is_ours && atomic_load (&call->writer_released))
    tps_client_call_forget (call);
  else if (is_ours)
    call->answered = TRUE;
  tps_mutex_unlock (&client->lock);
  if (is_ours)
    return call;
  if (call != NULL)
    link_lose_with (link, "%s replied to call %d under another name: \"%s\"", client->where,
                    reply->seqid, reply->name);
  else if (!was_issued)
    link_lose_with (link, "%s replied to call %d, which was never made", client->where,
                    reply->seqid);
  return NULL;
}

/* ---- authentication ------------------------------------------------------------------------- */

/* Sends the token as the first request of the connection. The server processes the calls of a
 * connection in their order, so later calls need not wait for the reply. */
static void
send_token (TpsClientLink *link)
{
  const TpsClient *client = link->client;
  TpsWriter *out;

  if (client->token == NULL)
    return;
  out = tps_writer_new (client->protocol, TRUE);
  tps_writer_message_begin (out, "Session:authenticate", TPS_MESSAGE_CALL, TOKEN_SEQID);
  tps_writer_struct_begin (out);
  tps_rpc_write_arguments (&tps_authenticate_rpc, out, &client->token);
  tps_writer_struct_end (out);
  tps_writer_message_end (out, NULL);
  tps_connection_send (link->connection, out);
}

/* If the server refuses the token, the link must go down before the replies to later calls arrive.
 * The calls then fail with the reason of the refusal. */
static void
take_token_reply (TpsClientLink *link, const TpsMessage *reply)
{
  g_autoptr (GError) error = NULL;
  TpsReader result;
  TpsWireType type;

  if (reply_open (reply, &result, &type, &error))
    return;
  g_prefix_error (&error, "%s: Session.authenticate: ", link->client->where);
  tps_client_lose_link (link->client, link, error);
}

static void
on_message (TpsConnection *connection, TpsMessage *message, gpointer user_data)
{
  g_autoptr (TpsMessage) reply = message;
  TpsClientLink *link = user_data;
  TpsClientCall *call;

  if (reply->kind != TPS_MESSAGE_REPLY && reply->kind != TPS_MESSAGE_EXCEPTION)
    {
      link_lose_with (link, "%s sent a call, expected a reply", link->client->where);
      return;
    }
  if (reply->seqid == TOKEN_SEQID && link->client->token != NULL)
    {
      take_token_reply (link, reply);
      return;
    }
  if (link->pool != NULL)
    reply->sharing = tps_segment_pool_receive (link->pool, reply);
  call = take_answered (link, reply);
  if (call == NULL)
    return;
  call->reply = g_steal_pointer (&reply);
  tps_client_call_decided (call);
}

static void
on_descriptor (TpsConnection *connection, gint fd, gpointer user_data)
{
  TpsClientLink *link = user_data;

  if (!tps_segment_pool_add_descriptor (link->pool, fd))
    link_lose_with (link, "%s sent an unexpected file descriptor", link->client->where);
}

static void
on_closed (TpsConnection *connection, const GError *error, gpointer user_data)
{
  TpsClientLink *link = user_data;

  link->phase = TPS_CLIENT_LINK_CLOSED;
  if (link->opening_timer != 0)
    tps_loop_cancel_timer (link->client->loop, link->opening_timer);
  link->opening_timer = 0;
  if (link->torn_down)
    {
      tps_client_link_unref (link);
      return;
    }
  if (g_error_matches (error, TPS_ERROR, TPS_ERROR_UNAUTHENTICATED))
    {
      g_autoptr (GError) refused = g_error_copy (error);

      /* Not CONNECTION_LOST: a retry would not help. */
      g_prefix_error (&refused, "%s: ", link->client->where);
      tps_client_lose_link (link->client, link, refused);
    }
  else
    link_lose_with (link, "connection to %s lost: %s", link->client->where,
                    error != NULL ? error->message : "the peer closed it");
}

/* Removes and returns the first unsent call. If there is none, marks the link as up and returns
 * NULL. From then on, callers send their calls themselves. They must not do so earlier, because the
 * calls of a thread must be sent in their order. */
static TpsClientCall *
pop_unsent (TpsClientLink *link)
{
  TpsClientCall *call = NULL;
  GList *node;

  TPS_LOCK_SCOPE (&link->client->lock);
  node = g_queue_pop_head_link (&link->unsent);
  if (node != NULL)
    {
      call = node->data;
      call->queue = NULL;
    }
  else
    link->up = TRUE;
  return call;
}

/* ---- handshake of an encrypted connection --------------------------------------------------- */

static void
check_opening (TpsClientLink *link)
{
  TpsConnectionPatience patience = { .moving_ns = TPS_CLIENT_NEVER,
                                     .half_closed_ns = TPS_CLIENT_NEVER,
                                     .opening_ns = link->client->connect_timeout_ns };

  tps_connection_check_progress (link->connection, tps_clock_now_ns (), &patience);
}

static void
on_opening_timer (gpointer user_data)
{
  TpsClientLink *link = user_data;

  link->opening_timer = 0;
  check_opening (link);
}

/* Must be called before the connection starts. FALSE: the connection cannot be encrypted. */
static gboolean
encrypt (TpsClientLink *link, GError **error)
{
  TpsClient *client = link->client;
  TpsNetChannel *channel;

  if (client->tls == NULL)
    return TRUE;
  channel = tps_tls_connect (client->tls, client->tls_peer, error);
  if (channel == NULL)
    return FALSE;
  tps_connection_set_channel (link->connection, channel);
  return TRUE;
}

/* Limits the time of the handshake. Must be called after the start of the connection. The first
 * check records the present time, and the timer runs the second check at the timeout. */
static void
limit_opening (TpsClientLink *link)
{
  TpsClient *client = link->client;

  if (client->tls == NULL)
    return;
  check_opening (link);
  link->opening_timer = tps_loop_add_timer (
      client->loop, tps_clock_now_ns () + client->connect_timeout_ns, on_opening_timer, link);
}

static void
link_go_up (TpsClientLink *link, gint fd)
{
  g_autoptr (GError) error = NULL;
  TpsConnectionEvents events = { .message = on_message, .closed = on_closed };
  TpsClient *client = link->client;
  TpsClientCall *call;

  if (link->pool != NULL)
    events.descriptor = on_descriptor;
  link->phase = TPS_CLIENT_LINK_UP;
  link->connection = tps_connection_new (client->loop, fd, &client->scanner, &events, link);
  if (!encrypt (link, &error))
    {
      g_clear_pointer (&link->connection, tps_connection_unref);
      link->phase = TPS_CLIENT_LINK_NEW;
      tps_client_lose_link (client, link, error);
      return;
    }
  tps_connection_start (link->connection);
  limit_opening (link);
  send_token (link);
  while ((call = pop_unsent (link)) != NULL)
    tps_client_call_send (call, link->connection);
}

static void
on_connected (gpointer user_data, gint fd, const GError *error)
{
  TpsClientLink *link = user_data;

  g_clear_pointer (&link->connector, connector_free);
  if (error == NULL)
    link_go_up (link, fd);
  else
    {
      link->phase = TPS_CLIENT_LINK_NEW;
      tps_client_lose_link (link->client, link, error);
    }
}

static void
link_connect (gpointer user_data)
{
  TpsClientLink *link = user_data;
  TpsClient *client = link->client;
  gboolean down;

  tps_mutex_lock (&client->lock);
  down = link->down;
  tps_mutex_unlock (&client->lock);
  if (down)
    return; /* link_tear_down() was posted */
  link->phase = TPS_CLIENT_LINK_CONNECTING;
  link->connector = connector_new (client->loop, &client->address, client->connect_timeout_ns,
                                   on_connected, link);
}

TpsClientLink *
tps_client_link_new (TpsClient *client)
{
  TpsClientLink *link = g_new0 (TpsClientLink, 1);
  TpsSegmentPoolOptions options = { .max_bytes = client->max_shared_bytes,
                                    .has_common_answers = client->shares_answers,
                                    .lookup_device = client->lookup_device,
                                    .wake = client->wake_pool,
                                    .user_data = link };

  tps_refcount_init (&link->refcount);
  link->client = client;
  g_queue_init (&link->unsent);
  client->n_links++;
  link->number = ++client->n_links_made;
  if (options.max_bytes > 0)
    link->pool = tps_segment_pool_new (&options);
  tps_loop_post (client->loop, link_connect, link);
  return link;
}
