/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/table_steps/table_call.h"

#include "runtime/base/error.h"

/* The wait in this file exceeds the client's deadline by this time, so that the client's more
 * specific error arrives first. */
#define GRACE_NS (G_GINT64_CONSTANT (2) * 1000 * 1000 * 1000)

void
tps_table_call_init (TpsTableCall *call, TpsTableClient *client, guint n_outputs)
{
  *call = (TpsTableCall) {
    .client = client,
    .n_outputs = n_outputs,
    .outputs = g_new0 (TpsTensor, n_outputs),
  };
  tps_mutex_init (&call->lock);
  tps_cond_init (&call->changed);
}

/* Waits for the end of the call, which the client guarantees after it has been cancelled. Must be
 * called with the lock held. */
static void
drain (TpsTableCall *call)
{
  while (call->is_pending)
    tps_cond_wait (&call->changed, &call->lock);
}

void
tps_table_call_clear (TpsTableCall *call)
{
  gboolean is_pending;

  tps_mutex_lock (&call->lock);
  is_pending = call->is_pending;
  tps_mutex_unlock (&call->lock);
  if (is_pending)
    call->client->ops->cancel (call->client);
  tps_mutex_lock (&call->lock);
  drain (call);
  tps_mutex_unlock (&call->lock);
  for (guint i = 0; i < call->n_outputs; i++)
    tps_tensor_clear (&call->outputs[i]);
  g_free (call->outputs);
  g_clear_error (&call->error);
  tps_cond_clear (&call->changed);
  tps_mutex_clear (&call->lock);
}

static void
begin (TpsTableCall *call, guint first_output, guint n_expected, gint64 deadline_ns)
{
  call->deadline_ns = deadline_ns;
  call->start_ns = tps_clock_now_ns ();
  call->first_output = first_output;
  TPS_LOCK_SCOPE (&call->lock);
  g_assert (!call->is_pending);
  call->is_pending = TRUE;
  call->n_expected = n_expected;
}

static void
on_looked_up (gpointer user_data, TpsTensor *outputs, const GError *error)
{
  TpsTableCall *call = user_data;

  TPS_LOCK_SCOPE (&call->lock);
  if (error != NULL)
    call->error = g_error_copy (error);
  else
    for (guint i = 0; i < call->n_expected; i++)
      tps_tensor_move (&call->outputs[call->first_output + i], &outputs[i]);
  call->end_ns = tps_clock_now_ns ();
  call->is_pending = FALSE;
  tps_cond_signal (&call->changed);
}

static void
on_applied (gpointer user_data, const GError *error)
{
  on_looked_up (user_data, NULL, error);
}

void
tps_table_call_lookup (TpsTableCall *call, const TpsBagQuery *queries, guint n_queries,
                       guint first_output, gint64 deadline_ns)
{
  g_assert (first_output + n_queries <= call->n_outputs);
  begin (call, first_output, n_queries, deadline_ns);
  call->client->ops->lookup_bags (call->client, queries, n_queries, deadline_ns, on_looked_up,
                                  call);
}

void
tps_table_call_apply (TpsTableCall *call, const TpsBagGradient *gradients, guint n_gradients,
                      gint64 deadline_ns)
{
  begin (call, 0, 0, deadline_ns);
  call->client->ops->apply_bags (call->client, gradients, n_gradients, deadline_ns, on_applied,
                                 call);
}

/* Returns FALSE if the client has missed its deadline. Must be called with the lock held. */
static gboolean
wait_in_time (TpsTableCall *call)
{
  while (call->is_pending)
    if (!tps_cond_wait_until (&call->changed, &call->lock, call->deadline_ns + GRACE_NS))
      return !call->is_pending;
  return TRUE;
}

static gboolean
fail_late (TpsTableCall *call, GError **error)
{
  call->client->ops->cancel (call->client);
  tps_mutex_lock (&call->lock);
  drain (call);
  g_clear_error (&call->error);
  tps_mutex_unlock (&call->lock);
  return tps_fail (error, TPS_ERROR_DEADLINE_EXCEEDED,
                   "no reply from the embedding tables within %" G_GINT64_FORMAT " ms",
                   (call->deadline_ns - call->start_ns) / 1000000);
}

gboolean
tps_table_call_wait (TpsTableCall *call, GError **error)
{
  gboolean in_time;
  GError *failure;

  tps_mutex_lock (&call->lock);
  in_time = wait_in_time (call);
  failure = in_time ? g_steal_pointer (&call->error) : NULL;
  tps_mutex_unlock (&call->lock);
  if (!in_time)
    return fail_late (call, error);
  if (failure == NULL)
    return TRUE;
  g_propagate_error (error, failure);
  return FALSE;
}

gdouble
tps_table_call_get_ms (const TpsTableCall *call)
{
  return (gdouble) (call->end_ns - call->start_ns) / 1e6;
}
