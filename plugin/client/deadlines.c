/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/deadlines.h"

#include "plugin/client/client_call.h"
#include "plugin/client/client_link.h"
#include "runtime/base/error.h"

gboolean
tps_deadlines_add (TpsClientCall *call)
{
  TpsClient *client = call->client;

  if (call->deadline_ns >= client->wake_ns)
    return FALSE;
  client->wake_ns = call->deadline_ns;
  return TRUE;
}

static void on_deadline (gpointer user_data);

void
tps_deadlines_set_timer (gpointer user_data)
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
tps_deadlines_clear_timer (gpointer user_data)
{
  TpsClient *client = user_data;

  tps_mutex_lock (&client->lock);
  client->wake_ns = TPS_CLIENT_NEVER;
  tps_mutex_unlock (&client->lock);
  tps_deadlines_set_timer (client);
}

/* Removes the expired calls from the table and returns them. `orphans` receives the unsent writers;
 * they must be freed without the lock. An answered call with unsent bytes is returned, too, but it
 * stays in the table: expire() only closes its link. */
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

      if (tps_client_call_is_being_sent (call))
        call->blocked_link = call->link;
      if (call->answered)
        call->deadline_ns = TPS_CLIENT_NEVER; /* the call stays in the table until it finishes */
      if (orphan != NULL)
        g_ptr_array_add (orphans, orphan);
    }
  tps_mutex_unlock (&client->lock);
  return expired;
}

static GError *
deadline_error (const TpsClientCall *call)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED, "%s: no reply from %s within %.3g s",
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
          "connection closed: %s does not read, and %s had unsent bytes at its deadline",
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
  tps_deadlines_set_timer (client);
}
