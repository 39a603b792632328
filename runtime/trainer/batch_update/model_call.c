/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/batch_update/model_call.h"

void
tps_model_call_init (TpsModelCall *call, TpsModelClient *client)
{
  *call = (TpsModelCall) { .client = client };
  tps_mutex_init (&call->lock);
  tps_cond_init (&call->changed);
}

/* Waits for the end of the call. The client guarantees that a call ends at its deadline at the
 * latest, or when the client is cancelled. */
static void
wait_for_end (TpsModelCall *call)
{
  tps_mutex_lock (&call->lock);
  while (call->is_pending)
    tps_cond_wait (&call->changed, &call->lock);
  tps_mutex_unlock (&call->lock);
}

void
tps_model_call_clear (TpsModelCall *call)
{
  gboolean is_pending;

  tps_mutex_lock (&call->lock);
  is_pending = call->is_pending;
  tps_mutex_unlock (&call->lock);
  if (is_pending)
    call->client->ops->cancel (call->client);
  wait_for_end (call);
  g_clear_pointer (&call->model, tps_model_version_unref);
  g_clear_error (&call->error);
  tps_cond_clear (&call->changed);
  tps_mutex_clear (&call->lock);
}

static void
on_answered (gpointer user_data, TpsModelVersion *model, const GError *error)
{
  TpsModelCall *call = user_data;

  tps_mutex_lock (&call->lock);
  call->model = model != NULL ? tps_model_version_ref (model) : NULL;
  call->error = error != NULL ? g_error_copy (error) : NULL;
  call->is_pending = FALSE;
  tps_cond_signal (&call->changed);
  tps_mutex_unlock (&call->lock);
}

static void
begin (TpsModelCall *call)
{
  tps_mutex_lock (&call->lock);
  g_assert (!call->is_pending && call->model == NULL && call->error == NULL);
  call->is_pending = TRUE;
  tps_mutex_unlock (&call->lock);
}

void
tps_model_call_init_model (TpsModelCall *call, const TpsNamedTensor *parameters, guint n_parameters,
                           const TpsOptimizerSpec *optimizer, gint64 deadline_ns)
{
  begin (call);
  call->client->ops->init_model (call->client, parameters, n_parameters, optimizer, deadline_ns,
                                 on_answered, call);
}

void
tps_model_call_get_model (TpsModelCall *call, gint64 deadline_ns)
{
  begin (call);
  call->client->ops->get_model (call->client, deadline_ns, on_answered, call);
}

void
tps_model_call_update (TpsModelCall *call, const TpsTensor *gradients, guint n_gradients,
                       gint64 version, gint64 deadline_ns)
{
  begin (call);
  call->client->ops->update_and_fetch (call->client, gradients, n_gradients, version, deadline_ns,
                                       on_answered, call);
}

gboolean
tps_model_call_wait (TpsModelCall *call, TpsModelVersion **model, GError **error)
{
  g_autoptr (TpsModelVersion) answered = NULL;

  wait_for_end (call);
  answered = g_steal_pointer (&call->model);
  if (call->error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&call->error));
      return FALSE;
    }
  if (model != NULL)
    *model = g_steal_pointer (&answered);
  return TRUE;
}
