/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/client_private.h"

#include "plugin/client/reply.h"
#include "runtime/base/error.h"
#include "runtime/base/magazine.h"

/* Calls ---------------------------------------------------------------------------------------------------------- */

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

static void
call_free (TpsClientCall *call)
{
  g_clear_pointer (&call->reply, tps_message_free);
  g_clear_pointer (&call->lease, tps_sharing_unref);
  g_clear_pointer (&call->bound, tps_segment_pool_unref);
  g_clear_error (&call->error);
  tps_magazine_put (&magazine, &depot, call);
}

static void
call_report (TpsClientCall *call)
{
  TpsReader result;
  TpsWireType type;

  if (call->delayed != NULL)
    call->delayed (call->user_data, call->error);
  else if (call->error == NULL && tps_reply_open (call->reply, &result, &type, &call->error))
    call->done (call->user_data, &result, type, NULL);
  else
    call->done (call->user_data, NULL, TPS_WIRE_STOP, call->error);
}

/* Whatever the answer says, with it the segments are ours again. */
static void
call_end_lease (TpsClientCall *call)
{
  gboolean was_sent = atomic_load (&call->sending) == TPS_CLIENT_WRITER_GIVEN;

  if (call->lease != NULL)
    tps_segment_lease_end (call->lease, call->reply != NULL || !was_sent);
  g_clear_pointer (&call->lease, tps_sharing_unref);
}

void
tps_client_call_finish (gpointer user_data)
{
  TpsClientCall *call = user_data;
  TpsClient *client = call->client;

  if (call->answered)
    {
      tps_mutex_lock (&client->lock);
      tps_call_table_remove (&client->calls, call);
      tps_mutex_unlock (&client->lock);
      call->answered = FALSE;
    }
  call_end_lease (call);
  if (tps_client_call_fetch_answer (call))
    return;
  call_report (call);
  call_free (call);
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

/* The writer was freed, perhaps by the connection with a lock held: so never finishes here. */
void
tps_client_call_writer_released (gpointer user_data)
{
  TpsClientCall *call = user_data;

  atomic_store (&call->writer_released, TRUE);
  if (tps_refcount_dec (&call->holds))
    tps_loop_post (call->client->loop, tps_client_call_finish, call);
}

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
  /* A background call lends the writer nothing, and what comes in behind its answer counts on that being known. */
  if (call->bound != NULL)
    {
      tps_writer_set_released (writer, NULL, NULL);
      tps_client_call_writer_released (call);
    }
  tps_connection_send (connection, writer);
}

TpsWriter *
tps_client_call_forget (TpsClientCall *call)
{
  TpsWriter *orphan = NULL;

  if (call->queued)
    {
      g_queue_unlink (&call->link->unsent, &call->node);
      call->queued = FALSE;
      orphan = call->writer;
    }
  if (call->writer != NULL)
    call_claim_writer (call, TPS_CLIENT_WRITER_DROPPED);
  tps_call_table_remove (&call->client->calls, call);
  return orphan;
}

/* Deadlines ------------------------------------------------------------------------------------------------------ */

/* One timer for all calls, at or before the earliest deadline: calls that follow each other with the same patience do not
 * touch it at all. */
static void on_deadline (gpointer user_data);

void
tps_client_set_timer (gpointer user_data)
{
  TpsClient *client = user_data;
  gint64 wake_ns;

  tps_mutex_lock (&client->lock);
  wake_ns = client->wake_ns;
  tps_mutex_unlock (&client->lock);
  if (client->timer_id != 0)
    tps_loop_cancel_timer (client->loop, client->timer_id);
  client->timer_id = wake_ns == TPS_CLIENT_NEVER
                         ? 0
                         : tps_loop_add_timer (client->loop, wake_ns, on_deadline, client);
}

void
tps_client_clear_timer (gpointer user_data)
{
  TpsClient *client = user_data;

  tps_mutex_lock (&client->lock);
  client->wake_ns = TPS_CLIENT_NEVER;
  tps_mutex_unlock (&client->lock);
  tps_client_set_timer (client);
}

/* TRUE when the connection holds bytes of the call's arguments. */
static gboolean
call_is_being_sent (TpsClientCall *call)
{
  return call->writer != NULL && atomic_load (&call->sending) == TPS_CLIENT_WRITER_GIVEN
         && !atomic_load (&call->writer_released);
}

static GPtrArray *
take_expired (TpsClient *client, GPtrArray *orphans)
{
  gint64 now_ns = tps_clock_now_ns ();
  GPtrArray *expired = g_ptr_array_new ();
  TpsClientCall *next = NULL;

  tps_mutex_lock (&client->lock);
  client->wake_ns = TPS_CLIENT_NEVER;
  while ((next = tps_call_table_get_next (&client->calls, next)) != NULL)
    if (next->deadline_ns <= now_ns)
      g_ptr_array_add (expired, next);
    else
      client->wake_ns = MIN (client->wake_ns, next->deadline_ns);
  for (guint i = 0; i < expired->len; i++)
    {
      TpsClientCall *call = expired->pdata[i];
      TpsWriter *orphan = call->answered ? NULL : tps_client_call_forget (call);

      if (call_is_being_sent (call))
        call->blocked_link = call->link;
      if (call->answered)
        call->deadline_ns = TPS_CLIENT_NEVER; /* stays in the table until it is finished */
      if (orphan != NULL)
        g_ptr_array_add (orphans, orphan);
    }
  tps_mutex_unlock (&client->lock);
  return expired;
}

static GError *
deadline_error (const TpsClientCall *call)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED, "%s: no answer from %s within %.3g s",
                      call->name->str, call->client->where,
                      (gdouble) (call->deadline_ns - call->started_ns) / 1000000000);
}

static void
expire (TpsClientCall *call)
{
  if (call->delayed != NULL)
    {
      tps_client_call_decided (call);
      return;
    }
  if (call->blocked_link != NULL)
    {
      g_autoptr (GError) error = g_error_new (
          TPS_ERROR, TPS_ERROR_CONNECTION_LOST,
          "closed: %s does not read, and the deadline of %s passed with bytes unsent",
          call->client->where, call->name->str);

      tps_client_lose_link (call->client, call->blocked_link, error);
    }
  if (!call->answered)
    tps_client_call_fail (call, deadline_error (call));
}

static void
on_deadline (gpointer user_data)
{
  TpsClient *client = user_data;
  g_autoptr (GPtrArray) orphans = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_writer_free);
  g_autoptr (GPtrArray) expired = take_expired (client, orphans);

  client->timer_id = 0;
  g_ptr_array_set_size (orphans, 0);
  for (guint i = 0; i < expired->len; i++)
    expire (expired->pdata[i]);
  tps_client_set_timer (client);
}
