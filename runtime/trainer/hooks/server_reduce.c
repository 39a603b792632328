/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Averages a bucket on its parameter server. */

#include "runtime/trainer/ports/hook.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

typedef struct
{
  const TpsHookContext *context;
  TpsBucketCall *call;
  gchar *key;
} ServerCall;

static void
server_call_free (ServerCall *self)
{
  g_free (self->key);
  g_free (self);
}

/* If servers average blocks of trainers, a whole block can be without data in the last step of an
 * epoch. The server then reports that it cannot divide by a weight of 0. This is not a failure:
 * there is nothing to apply. */
static gboolean
is_block_without_data (const ServerCall *self, const GError *error)
{
  return self->context->owned_by_block && self->call->contribution.kind == TPS_GRADIENT_NONE
         && g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT);
}

static void
on_average (gpointer user_data, TpsGradient *average, const GError *error)
{
  ServerCall *self = user_data;
  TpsBucketCall *call = self->call;
  g_auto (TpsGradient) nothing = { TPS_GRADIENT_NONE };

  /* An error means that the metrics were cleared in the meantime. The gradient is still valid. */
  tps_metrics_record_end (self->context->metrics, TPS_METRIC_HOOK_FUTURE, self->key, NULL);
  if (error != NULL && is_block_without_data (self, error))
    {
      average = &nothing;
      error = NULL;
    }
  server_call_free (self);
  tps_bucket_call_finish (call, error == NULL ? average : NULL, error);
}

TpsHookReach
tps_hook_get_server_reach (const TpsHookContext *context, const TpsBucketCall *call)
{
  TpsExchange *exchange = context->exchange;
  gboolean takes_device = exchange->ops->takes_device != NULL
                          && exchange->ops->takes_device (exchange, context->owners[call->index],
                                                          call->stream->device);

  return takes_device ? TPS_HOOK_REACH_DEVICE : TPS_HOOK_REACH_HOST;
}

void
tps_hook_reduce_with_server (const TpsHookContext *context, TpsBucketCall *call)
{
  ServerCall *self = g_new0 (ServerCall, 1);
  g_autoptr (GError) error = NULL;

  self->context = context;
  self->call = call;
  self->key = context->state->klass->get_key (context->state, call->index);
  if (!tps_metrics_record_start (context->metrics, TPS_METRIC_HOOK_FUTURE, self->key,
                                 call->is_sparse ? "rpc_sparse" : "rpc_dense", &error))
    {
      server_call_free (self);
      tps_bucket_call_finish (call, NULL, error);
      return;
    }
  context->exchange->ops->average_gradient (
      context->exchange, context->owners[call->index], context->state->batch_number,
      (gint32) call->index, &call->contribution,
      tps_clock_now_ns () + context->timeout_ns + TPS_HOOK_GRACE_NS, on_average, self);
}
