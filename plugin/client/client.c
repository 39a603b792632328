/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/client.h"

#include "plugin/client/client_private.h"
#include "runtime/base/error.h"

#define DEFAULT_MAX_MESSAGE_BYTES \
  ((gsize) G_MAXINT32) /* what a frame can hold; longer ones come in chunks */
#define DEFAULT_ASK_BYTES ((gsize) 32 << 20)
#define DEFAULT_CONNECT_TIMEOUT_NS ((gint64) 10 * 1000000000)
#define DEFAULT_MAX_IN_FLIGHT 1024
#define DEFAULT_MAX_SHARED_BYTES ((gsize) 1 << 30)

static gsize
max_shared_bytes (const TpsClientOptions *options, const TpsAddress *address)
{
  if (address->path == NULL || options->no_shared_memory)
    return 0;
  return options->max_shared_bytes > 0 ? options->max_shared_bytes : DEFAULT_MAX_SHARED_BYTES;
}

TpsClient *
tps_client_new (const TpsClientOptions *options, GError **error)
{
  g_auto (TpsAddress) address = { 0 };
  TpsLoop *loop;
  TpsClient *client;

  if (!tps_address_parse (options->address, &address, error))
    return NULL;
  loop = tps_loop_new ("tps-client", error);
  if (loop == NULL)
    return NULL;
  client = g_new0 (TpsClient, 1);
  client->loop = loop;
  client->where = tps_address_to_string (&address);
  client->max_shared_bytes = max_shared_bytes (options, &address);
  client->address = address;
  address = (TpsAddress) { 0 };
  client->scanner.max_message_bytes = options->max_message_bytes > 0 ? options->max_message_bytes
                                                                     : DEFAULT_MAX_MESSAGE_BYTES;
  client->scanner.bodies = options->bodies != NULL ? tps_buffer_pool_ref (options->bodies) : NULL;
  client->connect_timeout_ns = options->connect_timeout_ns > 0 ? options->connect_timeout_ns
                                                               : DEFAULT_CONNECT_TIMEOUT_NS;
  client->max_in_flight = options->max_in_flight > 0 ? options->max_in_flight
                                                     : DEFAULT_MAX_IN_FLIGHT;
  client->ask_bytes = options->ask_bytes > 0 ? options->ask_bytes : DEFAULT_ASK_BYTES;
  client->protocol = options->protocol != 0 ? options->protocol : TPS_PROTOCOL_BINARY;
  tps_mutex_init (&client->lock);
  tps_cond_init (&client->idle);
  client->wake_ns = TPS_CLIENT_NEVER;
  return client;
}

static GError *
cancelled_error (const TpsClient *client)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_ABORTED, "the client of %s was cancelled",
                      client->where);
}

/* Everything that uses the client from outside its loop stands between these two: freeing waits for them. */
static void
client_enter (TpsClient *client)
{
  tps_mutex_lock (&client->lock);
  client->n_callers++;
  tps_mutex_unlock (&client->lock);
}

static void
client_leave (TpsClient *client)
{
  tps_mutex_lock (&client->lock);
  if (--client->n_callers == 0)
    tps_cond_broadcast (&client->idle);
  tps_mutex_unlock (&client->lock);
}

static GPtrArray *
take_delays (TpsClient *client)
{
  GPtrArray *delays = g_ptr_array_new ();
  TpsClientCall *call = NULL;

  while ((call = tps_call_table_get_next (&client->calls, call)) != NULL)
    if (call->delayed != NULL)
      g_ptr_array_add (delays, call);
  for (guint i = 0; i < delays->len; i++)
    tps_call_table_remove (&client->calls, delays->pdata[i]);
  return delays;
}

void
tps_client_cancel (TpsClient *client)
{
  g_autoptr (GPtrArray) delays = NULL;
  g_autoptr (GError) error = cancelled_error (client);

  client_enter (client);
  tps_mutex_lock (&client->lock);
  client->cancelled = TRUE;
  delays = take_delays (client);
  tps_mutex_unlock (&client->lock);
  for (guint i = 0; i < delays->len; i++)
    tps_client_call_fail (delays->pdata[i], g_error_copy (error));
  tps_client_lose_link (client, NULL, error);
  client_leave (client);
}

void
tps_client_free (TpsClient *client)
{
  if (client == NULL)
    return;
  tps_client_cancel (client);
  tps_mutex_lock (&client->lock);
  while (client->n_callers > 0 || client->n_calls > 0 || client->n_links > 0)
    tps_cond_wait (&client->idle, &client->lock);
  tps_mutex_unlock (&client->lock);
  tps_loop_post (client->loop, tps_client_clear_timer, client);
  tps_loop_free (client->loop);
  tps_cond_clear (&client->idle);
  tps_mutex_clear (&client->lock);
  tps_address_clear (&client->address);
  g_clear_pointer (&client->scanner.bodies, tps_buffer_pool_unref);
  g_free (client->where);
  g_free (client);
}

/* A background call is never refused: the two sides would not agree any more on whose a segment is. */
static GError *
check_in_flight (const TpsClientCall *call)
{
  const TpsClient *client = call->client;

  if (call->bound != NULL || client->calls.n_calls < client->max_in_flight)
    return NULL;
  return g_error_new (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                      "%u calls to %s are in flight, no more are allowed", client->max_in_flight,
                      client->where);
}

/* Counts the call and gives it a sequence id. Never 0: that is what peers use that do not tell calls apart. */
static GError *
call_register (TpsClientCall *call)
{
  TpsClient *client = call->client;
  GError *error = NULL;

  tps_mutex_lock (&client->lock);
  if (client->cancelled)
    error = cancelled_error (client);
  else
    error = check_in_flight (call);
  client->n_calls++;
  do
    call->seqid = (gint32) ++client->n_issued;
  while (call->seqid == 0 || tps_call_table_find (&client->calls, call->seqid) != NULL);
  tps_mutex_unlock (&client->lock);
  return error;
}

/* For tensors that are about to be written. The link is made now, so that they can be for it. */
static void
call_take_lease (TpsClientCall *call)
{
  TpsClient *client = call->client;
  g_autoptr (TpsSegmentPool) pool = NULL;
  guint64 number = 0;

  if (client->max_shared_bytes == 0 || call->bound != NULL)
    return;
  tps_mutex_lock (&client->lock);
  if (client->link == NULL && !client->cancelled)
    client->link = tps_client_link_new (client);
  if (client->link != NULL && client->link->pool != NULL)
    {
      pool = tps_segment_pool_ref (client->link->pool);
      number = client->link->number;
    }
  tps_mutex_unlock (&client->lock);
  if (pool == NULL)
    return;
  /* What was let go of is the server's again before it has the call. */
  tps_client_share_memory (client, pool, number);
  call->lease = tps_segment_pool_lease (pool);
}

static void call_unwrite (TpsClientCall *call);

static GError *
call_write (TpsClientCall *call, TpsWriteArguments write, gconstpointer write_data)
{
  GError *error = NULL;

  if (call->deadline_ns <= call->started_ns)
    return g_error_new (TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED,
                        "%s: the deadline had passed before the call was made", call->name->str);
  call->writer = tps_writer_new (call->is_large ? TPS_PROTOCOL_BINARY : call->client->protocol,
                                 TRUE);
  if (!call->is_large)
    call_take_lease (call);
  tps_writer_set_sharing (call->writer, call->lease);
  tps_writer_message_begin (call->writer, call->name->str, TPS_MESSAGE_CALL, call->seqid);
  tps_writer_struct_begin (call->writer);
  if (write != NULL)
    write (call->writer, write_data);
  tps_writer_struct_end (call->writer);
  if (call->lease != NULL)
    tps_segment_lease_written (call->lease);
  if (!call->is_large
      && (!tps_writer_message_end (call->writer, NULL) || tps_client_call_may_be_too_large (call)))
    {
      call_unwrite (call);
      call->is_large = TRUE;
      return call_write (call, write, write_data);
    }
  if (call->is_large && !tps_client_call_end_large (call, &error))
    {
      g_clear_pointer (&call->writer, tps_writer_free);
      return error;
    }
  tps_refcount_inc (&call->holds);
  tps_writer_set_released (call->writer, tps_client_call_writer_released, call);
  return NULL;
}

/* Back to before the call was written. */
static void
call_unwrite (TpsClientCall *call)
{
  g_clear_pointer (&call->writer, tps_writer_free);
  atomic_store (&call->writer_released, FALSE);
  if (call->lease != NULL)
    tps_segment_lease_end (call->lease, TRUE);
  g_clear_pointer (&call->lease, tps_sharing_unref);
}

/* Under the lock. Whether the client's link is not the one that the call was written for. */
static gboolean
call_is_for_another_link (const TpsClientCall *call)
{
  const TpsClientLink *link = call->client->link;

  return call->lease != NULL
         && (link == NULL || !tps_segment_lease_is_of (call->lease, link->pool));
}

static GError *
check_bound (const TpsClientCall *call)
{
  const TpsClient *client = call->client;

  if (call->bound == NULL || (client->link != NULL && client->link->pool == call->bound))
    return NULL;
  return g_error_new (TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "the connection of %s has gone",
                      call->name->str);
}

/* Puts the call into the table, and into the link's queue while that is not up. Sets `connection` (a reference) where
 * the caller is to send, and `wake` where the timer stands too late. */
static GError *
call_enter_table (TpsClientCall *call, TpsConnection **connection, gboolean *wake)
{
  TpsClient *client = call->client;
  TpsClientLink *link;
  GError *error = client->cancelled ? cancelled_error (client) : check_in_flight (call);

  if (error == NULL)
    error = check_bound (call);
  if (error != NULL)
    return error;
  tps_call_table_insert (&client->calls, call);
  *wake = call->deadline_ns < client->wake_ns;
  if (*wake)
    client->wake_ns = call->deadline_ns;
  if (call->delayed != NULL)
    return NULL;
  if (client->link == NULL)
    client->link = tps_client_link_new (client);
  call->link = link = client->link;
  if (link->pool != NULL && call->lease == NULL && call->bound == NULL)
    call->lease = tps_segment_pool_lease (link->pool); /* a large call: its answer may be shared */
  if (link->up)
    *connection = tps_connection_ref (link->connection);
  else
    {
      g_queue_push_tail_link (&link->unsent, &call->node);
      call->queued = TRUE;
    }
  return NULL;
}

/* From here on the loop may end the call at any time. With FALSE nothing has happened. */
gboolean
tps_client_call_submit (TpsClientCall *call)
{
  TpsClient *client = call->client;
  g_autoptr (TpsConnection) connection = NULL;
  gboolean wake = FALSE;
  GError *error;

  tps_mutex_lock (&client->lock);
  if (!client->cancelled && call_is_for_another_link (call))
    {
      tps_mutex_unlock (&client->lock);
      return FALSE;
    }
  error = call_enter_table (call, &connection, &wake);
  tps_mutex_unlock (&client->lock);
  if (wake)
    tps_loop_post (client->loop, tps_client_set_timer, client);
  if (connection != NULL)
    tps_client_call_send (call, connection);
  if (error == NULL)
    return TRUE;
  g_clear_pointer (&call->writer, tps_writer_free);
  call->error = error;
  tps_loop_post (client->loop, tps_client_call_finish, call);
  return TRUE;
}

static void
call_start (TpsClientCall *call, TpsWriteArguments write, gconstpointer write_data)
{
  TpsClient *client = call->client;

  client_enter (client);
  call->error = call_register (call);
  for (;;)
    {
      if (call->error == NULL && call->delayed == NULL)
        call->error = call_write (call, write, write_data);
      if (call->error != NULL)
        {
          tps_loop_post (client->loop, tps_client_call_finish, call);
          break;
        }
      if (call->is_large)
        {
          tps_client_call_send_large (call);
          break;
        }
      if (tps_client_call_submit (call))
        break;
      call_unwrite (call);
    }
  client_leave (client);
}

static void
call_set_name (TpsClientCall *call, const gchar *service, const gchar *method)
{
  g_string_append (call->name, service);
  g_string_append_c (call->name, ':');
  g_string_append (call->name, method);
}

void
tps_client_call (TpsClient *client, const gchar *service, const gchar *method,
                 TpsWriteArguments write, gconstpointer write_data, gint64 deadline_ns,
                 TpsClientDone done, gpointer user_data)
{
  TpsClientCall *call = tps_client_call_new (client, deadline_ns, user_data);

  call_set_name (call, service, method);
  call->done = done;
  call_start (call, write, write_data);
}

void
tps_client_call_rpc (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                     gint64 deadline_ns, TpsClientDone done, gpointer user_data)
{
  TpsRpcValue value = { rpc, arguments };

  tps_client_call (client, rpc->service, rpc->name, tps_rpc_value_write_arguments, &value,
                   deadline_ns, done, user_data);
}

void
tps_client_delay (TpsClient *client, gint64 until_ns, TpsClientDelayed func, gpointer user_data)
{
  TpsClientCall *call = tps_client_call_new (client, until_ns, user_data);

  call->delayed = func;
  call_start (call, NULL, NULL);
}

void
tps_client_call_bound (TpsClient *client, TpsSegmentPool *pool, const TpsRpc *rpc,
                       gconstpointer arguments, TpsClientDone done, gpointer user_data)
{
  TpsClientCall *call = tps_client_call_new (client, TPS_CLIENT_NEVER, user_data);
  TpsRpcValue value = { rpc, arguments };

  call_set_name (call, rpc->service, rpc->name);
  call->bound = tps_segment_pool_ref (pool);
  call->done = done;
  call_start (call, tps_rpc_value_write_arguments, &value);
}

void
tps_client_get_sharing_stats (TpsClient *client, TpsSharingStats *stats)
{
  tps_mutex_lock (&client->lock);
  *stats = client->past_stats;
  if (client->link != NULL && client->link->pool != NULL)
    tps_segment_pool_add_stats (client->link->pool, stats);
  tps_mutex_unlock (&client->lock);
}
