/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/channel.h"

#include "plugin/client/client_call.h"
#include "plugin/client/deadlines.h"
#include "runtime/base/error.h"

void
tps_channel_enter (TpsClient *client)
{
  tps_mutex_lock (&client->lock);
  client->n_callers++;
  tps_mutex_unlock (&client->lock);
}

void
tps_channel_leave (TpsClient *client)
{
  tps_mutex_lock (&client->lock);
  if (--client->n_callers == 0)
    tps_cond_broadcast (&client->idle);
  tps_mutex_unlock (&client->lock);
}

TpsClientLink *
tps_channel_get_link (TpsClient *client)
{
  if (client->link == NULL)
    client->link = tps_client_link_new (client);
  return client->link;
}

/* ---- refused calls -------------------------------------------------------------------------- */

GError *
tps_channel_cancelled_error (const TpsClient *client)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_ABORTED, "the client of %s was cancelled",
                      client->where);
}

static GError *
check_bound (const TpsClientCall *call)
{
  const TpsClientLink *link = call->client->link;

  if (link != NULL && link->number == call->bound)
    return NULL;
  return g_error_new (TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "%s: the connection is closed",
                      call->name->str);
}

/* Background calls are not limited. If such a call were refused, the client and the server would
 * disagree about the owner of a segment. */
static GError *
check_call (const TpsClientCall *call)
{
  const TpsClient *client = call->client;

  if (client->cancelled)
    return tps_channel_cancelled_error (client);
  if (call->bound != 0)
    return check_bound (call);
  if (client->calls.n_calls < client->max_in_flight)
    return NULL;
  return g_error_new (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                      "%s: %u calls are in flight, which is the limit (max_in_flight)",
                      client->where, client->max_in_flight);
}

static GError *
check_deadline (const TpsClientCall *call)
{
  if (call->delayed != NULL || call->deadline_ns > call->started_ns)
    return NULL;
  return g_error_new (TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED,
                      "%s: the deadline had passed before the call was made", call->name->str);
}

/* Returns TRUE if the call was written for a link that is no longer the client's link. Must be
 * called with client->lock held. */
static gboolean
is_for_another_link (const TpsClientCall *call)
{
  const TpsClientLink *link = call->client->link;

  return call->lease != NULL
         && (link == NULL || !tps_segment_lease_is_of (call->lease, link->pool));
}

/* ---- registration and submission ------------------------------------------------------------ */

GError *
tps_channel_register (TpsClientCall *call)
{
  TpsClient *client = call->client;
  GError *error;

  tps_mutex_lock (&client->lock);
  error = check_call (call);
  client->n_calls++;
  do /* skips 0, the id of peers that do not distinguish calls, and of the token's request */
    call->seqid = (gint32) ++client->n_issued;
  while (call->seqid == 0 || tps_call_table_find (&client->calls, call->seqid) != NULL);
  tps_mutex_unlock (&client->lock);
  return error != NULL ? error : check_deadline (call);
}

void
tps_channel_refuse (TpsClientCall *call, GError *error_taken)
{
  g_clear_pointer (&call->writer, tps_writer_free);
  call->error = error_taken;
  tps_loop_post (call->client->loop, tps_client_call_finish, call);
}

GError *
tps_channel_enter_table (TpsClientCall *call, gboolean *wake)
{
  GError *error = check_call (call);

  if (error != NULL)
    return error;
  tps_call_table_insert (&call->client->calls, call);
  *wake = tps_deadlines_add (call);
  return NULL;
}

/* Assigns the call to the current link. Sets `connection` (a reference) if the caller must send the
 * call now. Must be called with client->lock held. */
static void
take_link (TpsClientCall *call, TpsConnection **connection)
{
  TpsClientLink *link = tps_channel_get_link (call->client);

  call->link = link;
  if (call->is_large && link->pool != NULL)
    call->lease = tps_segment_pool_lease (link->pool); /* its reply may use shared memory */
  if (link->up)
    {
      *connection = tps_connection_ref (link->connection);
      return;
    }
  g_queue_push_tail_link (&link->unsent, &call->node);
  call->queue = &link->unsent;
}

gboolean
tps_channel_submit (TpsClientCall *call)
{
  TpsClient *client = call->client;
  g_autoptr (TpsConnection) connection = NULL;
  gboolean wake = FALSE;
  GError *error;

  tps_mutex_lock (&client->lock);
  if (!client->cancelled && is_for_another_link (call))
    {
      tps_mutex_unlock (&client->lock);
      return FALSE;
    }
  error = tps_channel_enter_table (call, &wake);
  if (error == NULL && call->delayed == NULL)
    take_link (call, &connection);
  tps_mutex_unlock (&client->lock);
  if (wake)
    tps_loop_post (client->loop, tps_deadlines_set_timer, client);
  if (connection != NULL)
    tps_client_call_send (call, connection);
  if (error != NULL)
    tps_channel_refuse (call, error);
  return TRUE;
}

/* ---- the client's own calls ----------------------------------------------------------------- */

static GError *
write_rpc (TpsClientCall *call, const TpsRpc *rpc, gconstpointer arguments)
{
  TpsRpcValue value = { rpc, arguments };
  GError *error = NULL;

  tps_client_call_write (call, tps_rpc_value_write_arguments, &value);
  if (tps_writer_message_end (call->writer, &error))
    tps_client_call_written (call);
  return error;
}

/* `rpc` is NULL for a delay. */
static void
start (TpsClientCall *call, const TpsRpc *rpc, gconstpointer arguments)
{
  TpsClient *client = call->client;
  GError *error;

  tps_channel_enter (client);
  if (rpc != NULL)
    tps_client_call_set_name (call, rpc->service, rpc->name);
  error = tps_channel_register (call);
  if (error == NULL && rpc != NULL)
    error = write_rpc (call, rpc, arguments);
  if (error == NULL)
    tps_channel_submit (call);
  else
    tps_channel_refuse (call, error);
  tps_channel_leave (client);
}

void
tps_channel_call (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments, gint64 deadline_ns,
                  TpsClientDone done, gpointer user_data)
{
  TpsClientCall *call = tps_client_call_new (client, deadline_ns, user_data);

  call->done = done;
  start (call, rpc, arguments);
}

void
tps_channel_call_on (TpsClientLink *link, const TpsRpc *rpc, gconstpointer arguments,
                     TpsClientDone done, gpointer user_data)
{
  TpsClientCall *call = tps_client_call_new (link->client, TPS_CLIENT_NEVER, user_data);

  call->bound = link->number;
  call->done = done;
  start (call, rpc, arguments);
}

void
tps_channel_delay (TpsClient *client, gint64 until_ns, TpsClientDelayed func, gpointer user_data)
{
  TpsClientCall *call = tps_client_call_new (client, until_ns, user_data);

  call->delayed = func;
  start (call, NULL, NULL);
}
