/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/remote_exchange.h"

#include "plugin/client/client.h"
#include "plugin/client/retry.h"
#include "plugin/wire/wire_parameter_server.h"
#include "runtime/base/error.h"
#include "runtime/device/pinned_pool.h"

/* Limit of the page-locked memory that is kept for later averages. */
#define KEEP_AVERAGES_BYTES ((gsize) 1 << 30)

typedef struct
{
  TpsExchange base;
  gint32 trainer;
  TpsClient **clients; /* one per server */
} RemoteExchange;

/* A call of average_gradient. */
typedef struct
{
  TpsAverageGradientArguments arguments;
  TpsExchangeDone done;
  gpointer user_data;
} Push;

static void
finish (Push *push, TpsGradient *average, const GError *error)
{
  push->done (push->user_data, average, error);
  tps_average_gradient_arguments_clear (&push->arguments);
  g_free (push);
}

static void
on_answer (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  Push *push = user_data;
  g_auto (TpsGradient) average = { 0 };
  g_autoptr (GError) unclear = NULL;

  if (error == NULL
      && tps_rpc_read_answer (&tps_average_gradient_rpc, result, type, &average, &unclear))
    finish (push, &average, NULL);
  else
    finish (push, NULL, error != NULL ? error : unclear);
}

static void
remote_exchange_average_gradient (TpsExchange *base, guint server, gint64 batch, gint32 param_loc,
                                  const TpsGradient *gradient, gint64 deadline_ns,
                                  TpsExchangeDone done, gpointer user_data)
{
  RemoteExchange *exchange = (RemoteExchange *) base;
  Push *push = g_new0 (Push, 1);

  g_assert (server < base->n_servers);
  push->arguments.trainer = exchange->trainer;
  push->arguments.batch = batch;
  push->arguments.param_loc = param_loc;
  tps_gradient_init_ref (&push->arguments.gradient, gradient);
  push->done = done;
  push->user_data = user_data;
  tps_client_call_with_retries (exchange->clients[server], &tps_average_gradient_rpc,
                                &push->arguments, TPS_RETRY_ONCE, deadline_ns, on_answer, push);
}

/* Copies a tensor into shared device memory. If there is no room, the tensor is sent through the
 * host. */
static gboolean
remote_exchange_takes_device (TpsExchange *base, guint server, TpsDevice *device)
{
  RemoteExchange *exchange = (RemoteExchange *) base;

  return tps_client_may_share_device (exchange->clients[server], device);
}

static void
remote_exchange_cancel (TpsExchange *base)
{
  RemoteExchange *exchange = (RemoteExchange *) base;

  for (guint i = 0; i < base->n_servers; i++)
    tps_client_cancel (exchange->clients[i]);
}

static void
remote_exchange_free (TpsExchange *base)
{
  RemoteExchange *exchange = (RemoteExchange *) base;

  for (guint i = 0; i < base->n_servers; i++)
    tps_client_free (exchange->clients[i]);
  g_free (exchange->clients);
  g_free (exchange);
}

TpsExchange *
tps_remote_exchange_new (const TpsRemoteExchangeOptions *options, GError **error)
{
  static const TpsExchangeOps ops = {
    .average_gradient = remote_exchange_average_gradient,
    .cancel = remote_exchange_cancel,
    .free = remote_exchange_free,
    .takes_device = remote_exchange_takes_device,
  };
  RemoteExchange *exchange = g_new0 (RemoteExchange, 1);
  g_autoptr (TpsBufferPool) bodies = NULL;

  if (options->device != NULL)
    bodies = tps_pinned_pool_new (options->device, NULL, NULL, KEEP_AVERAGES_BYTES);
  exchange->base.ops = &ops;
  exchange->trainer = options->trainer;
  exchange->clients = g_new0 (TpsClient *, options->n_addresses);
  for (guint i = 0; i < options->n_addresses; i++)
    {
      TpsClientOptions client = { .address = options->addresses[i],
                                  .max_message_bytes = options->max_message_bytes,
                                  .tls = options->tls,
                                  .token = options->token,
                                  .bodies = bodies };

      exchange->clients[i] = tps_client_new (&client, error);
      if (exchange->clients[i] == NULL)
        {
          remote_exchange_free (&exchange->base);
          return NULL;
        }
      exchange->base.n_servers++;
    }
  return &exchange->base;
}
