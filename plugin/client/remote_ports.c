/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The ports of a trainer over clients (thriftps/client.h): exchange, model and store. */

#include "plugin/client/client.h"

#include "plugin/wire/wire_parameter_server.h"
#include "plugin/wire/wire_rendezvous.h"
#include "runtime/base/error.h"
#include "runtime/base/outcome.h"
#include "runtime/base/sized.h"
#include "runtime/base/sync.h"
#include "runtime/device/device_memory.h"
#include "runtime/tensor/gradient.h"
#include "runtime/tensor/model_version.h"

/* -- the exchange: one client for each server -- */

/* A server that shares no device memory receives all later gradients from host memory. */

/* Limit of the page-locked memory that is kept for later averages. */
#define KEEP_AVERAGES_BYTES ((gsize) 1 << 30)

/* Limit of the in-flight pushes per server. Later pushes wait in their order. After a lost
 * connection, two trainers may push in different orders. A server stops reading from a connection
 * with too many calls (--max-inflight, 64). Without this limit, all calls read from one trainer
 * could wait for pushes of the other trainer that the server does not read, and vice versa. With
 * the limit, every trainer has its push of the first incomplete round in flight. */
#define MAX_IN_FLIGHT 32

typedef struct
{
  TpsClient *client;

  /* Guarded by the exchange's lock: */
  guint n_in_flight;
  GQueue waiting;     /* of Push */
  gboolean is_pumped; /* a thread is in pump() for this server */
} Server;

typedef struct
{
  TpsExchange base;
  gint32 trainer;
  TpsMutex lock;
  TpsCond unpumped;
  Server *servers; /* [n_servers] */
} RemoteExchange;

/* A call of average_gradient. */
typedef struct
{
  RemoteExchange *exchange;
  Server *server;
  TpsAverageGradientArguments arguments;
  gint64 deadline_ns;
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

static void on_averaged (gpointer user_data, gpointer result, const GError *error);

/* Starts waiting pushes in their order. Only one thread at a time does so for a server. Must be
 * called with the lock held; it is released during each call into the client. */
static void
pump (RemoteExchange *exchange, Server *server)
{
  if (server->is_pumped)
    return;
  server->is_pumped = TRUE;
  while (server->n_in_flight < MAX_IN_FLIGHT && !g_queue_is_empty (&server->waiting))
    {
      Push *push = g_queue_pop_head (&server->waiting);

      server->n_in_flight++;
      tps_mutex_unlock (&exchange->lock);
      tps_rpc_call (server->client, &tps_average_gradient_rpc, &push->arguments, TPS_RETRY_ONCE,
                    push->deadline_ns, on_averaged, push);
      tps_mutex_lock (&exchange->lock);
    }
  server->is_pumped = FALSE;
  tps_cond_broadcast (&exchange->unpumped);
}

/* Starts the next push before it calls `done`, which may take a long time. */
static void
on_averaged (gpointer user_data, gpointer result, const GError *error)
{
  Push *push = user_data;
  RemoteExchange *exchange = push->exchange;

  tps_mutex_lock (&exchange->lock);
  push->server->n_in_flight--;
  pump (exchange, push->server);
  tps_mutex_unlock (&exchange->lock);
  finish (push, result, error);
}

static void
remote_exchange_average_gradient (TpsExchange *base, guint server, gint64 batch, gint32 param_loc,
                                  const TpsGradient *gradient, gint64 deadline_ns,
                                  TpsExchangeDone done, gpointer user_data)
{
  RemoteExchange *exchange = (RemoteExchange *) base;
  Push *push = g_new0 (Push, 1);

  g_assert (server < base->n_servers);
  push->exchange = exchange;
  push->server = &exchange->servers[server];
  push->arguments.trainer = exchange->trainer;
  push->arguments.batch = batch;
  push->arguments.param_loc = param_loc;
  tps_gradient_init_ref (&push->arguments.gradient, gradient);
  push->deadline_ns = deadline_ns;
  push->done = done;
  push->user_data = user_data;
  TPS_LOCK_SCOPE (&exchange->lock);
  g_queue_push_tail (&push->server->waiting, push);
  pump (exchange, &exchange->servers[server]);
}

/* Returns TRUE if tensors on this device need not be copied to the host. They are copied into
 * device memory that the server shares. If that memory is full, a tensor is sent through the
 * host. */
static gboolean
remote_exchange_takes_device (TpsExchange *base, guint server, TpsDevice *device)
{
  RemoteExchange *exchange = (RemoteExchange *) base;

  return tps_client_may_share_device (exchange->servers[server].client, device);
}

static TpsBuffer *
remote_exchange_get_memory (TpsExchange *base, guint server, gsize n_bytes, TpsBuffer *current)
{
  RemoteExchange *exchange = (RemoteExchange *) base;

  return tps_client_get_send_memory (exchange->servers[server].client, n_bytes, current);
}

static void
take_waiting (RemoteExchange *exchange, GQueue *waiting)
{
  TPS_LOCK_SCOPE (&exchange->lock);
  for (guint i = 0; i < exchange->base.n_servers; i++)
    while (!g_queue_is_empty (&exchange->servers[i].waiting))
      g_queue_push_tail_link (waiting, g_queue_pop_head_link (&exchange->servers[i].waiting));
}

static void
remote_exchange_cancel (TpsExchange *base)
{
  RemoteExchange *exchange = (RemoteExchange *) base;
  g_autoptr (GError)
      error = g_error_new_literal (TPS_ERROR, TPS_ERROR_ABORTED, "the exchange was cancelled");
  GQueue waiting = G_QUEUE_INIT;

  /* The waiting pushes are taken first, so that the end of the cancelled calls does not start
   * them. */
  take_waiting (exchange, &waiting);
  for (guint i = 0; i < base->n_servers; i++)
    tps_client_cancel (exchange->servers[i].client);
  while (!g_queue_is_empty (&waiting))
    finish (g_queue_pop_head (&waiting), NULL, error);
}

/* The last push may end while the thread that started it is still in pump(). */
static void
wait_for_pumps (RemoteExchange *exchange)
{
  TPS_LOCK_SCOPE (&exchange->lock);
  for (guint i = 0; i < exchange->base.n_servers; i++)
    while (exchange->servers[i].is_pumped)
      tps_cond_wait (&exchange->unpumped, &exchange->lock);
}

static void
remote_exchange_free (TpsExchange *base)
{
  RemoteExchange *exchange = (RemoteExchange *) base;

  remote_exchange_cancel (base);
  wait_for_pumps (exchange);
  for (guint i = 0; i < base->n_servers; i++)
    tps_client_free (exchange->servers[i].client);
  tps_cond_clear (&exchange->unpumped);
  tps_mutex_clear (&exchange->lock);
  g_free (exchange->servers);
  g_free (exchange);
}

TpsExchange *
tps_remote_exchange_new (const TpsRemoteExchangeOptions *given, GError **error)
{
  static const TpsExchangeOps ops = {
    .average_gradient = remote_exchange_average_gradient,
    .cancel = remote_exchange_cancel,
    .free = remote_exchange_free,
    .takes_device = remote_exchange_takes_device,
    .get_memory = remote_exchange_get_memory,
  };
  TpsRemoteExchangeOptions copy, *options = &copy;
  RemoteExchange *exchange = g_new0 (RemoteExchange, 1);
  g_autoptr (TpsBufferPool) bodies = NULL;

  TPS_SIZED_COPY (copy, given);
  if (options->device != NULL)
    bodies = tps_pinned_pool_new (options->device, NULL, NULL, KEEP_AVERAGES_BYTES);
  exchange->base.ops = &ops;
  exchange->trainer = options->trainer;
  exchange->servers = g_new0 (Server, options->n_addresses);
  tps_mutex_init (&exchange->lock);
  tps_cond_init (&exchange->unpumped);
  for (guint i = 0; i < options->n_addresses; i++)
    {
      TpsClientOptions client = { .address = options->addresses[i],
                                  .max_message_bytes = options->max_message_bytes,
                                  .tls = options->tls,
                                  .token = options->token,
                                  .shares_answers = TRUE };

      exchange->servers[i].client = tps_client_new (&client, error);
      if (exchange->servers[i].client == NULL)
        {
          remote_exchange_free (&exchange->base);
          return NULL;
        }
      exchange->base.n_servers++;
      if (bodies != NULL)
        tps_client_set_bodies (exchange->servers[i].client, bodies);
    }
  return &exchange->base;
}

typedef struct
{
  TpsGradient *average;
  TpsOutcome outcome;
} Wait;

static void
on_awaited (gpointer user_data, TpsGradient *average, const GError *error)
{
  Wait *wait = user_data;

  if (average != NULL)
    tps_gradient_move (wait->average, average);
  tps_outcome_set (&wait->outcome, error);
}

gboolean
tps_exchange_average_sync (TpsExchange *exchange, guint server, gint64 batch, gint32 param_loc,
                           const TpsGradient *gradient, gint64 deadline_ns, TpsGradient *average,
                           GError **error)
{
  Wait wait = { .average = average };

  tps_outcome_init (&wait.outcome);
  exchange->ops->average_gradient (exchange, server, batch, param_loc, gradient, deadline_ns,
                                   on_awaited, &wait);
  return tps_outcome_wait (&wait.outcome, error);
}

/* -- the model -- */

typedef struct
{
  TpsModelClient base;
  TpsClient *client;
  gint32 trainer;
  gchar *name;
  atomic_llong sequence;
} RemoteModel;

/* A call and its arguments. */
typedef struct
{
  TpsInitModelArguments init;
  TpsUpdateModelArguments update;
  TpsModelAnswered done;
  gpointer user_data;
} Call;

static Call *
call_new (TpsModelAnswered done, gpointer user_data)
{
  Call *call = g_new0 (Call, 1);

  call->done = done;
  call->user_data = user_data;
  return call;
}

/* `result` is a pointer to the model, or NULL. */
static void
on_answer (gpointer user_data, gpointer result, const GError *error)
{
  Call *call = user_data;

  call->done (call->user_data, result != NULL ? *(TpsModelVersion **) result : NULL, error);
  tps_init_model_arguments_clear (&call->init);
  tps_update_model_arguments_clear (&call->update);
  g_free (call);
}

static void
remote_model_init_model (TpsModelClient *base, const TpsNamedTensor *parameters, guint n_parameters,
                         const TpsOptimizerSpec *optimizer, gint64 deadline_ns,
                         TpsModelAnswered done, gpointer user_data)
{
  RemoteModel *remote = (RemoteModel *) base;
  Call *call = call_new (done, user_data);

  call->init.optimizer = *optimizer;
  call->init.n_parameters = n_parameters;
  call->init.parameters = g_new0 (TpsNamedTensor, n_parameters);
  for (guint i = 0; i < n_parameters; i++)
    {
      call->init.parameters[i].name = g_strdup (parameters[i].name);
      tps_tensor_init_ref (&call->init.parameters[i].tensor, &parameters[i].tensor);
    }
  tps_rpc_call (remote->client, &tps_init_model_rpc, &call->init, TPS_RETRY_UNTIL_DEADLINE,
                deadline_ns, on_answer, call);
}

static void
remote_model_get_model (TpsModelClient *base, gint64 deadline_ns, TpsModelAnswered done,
                        gpointer user_data)
{
  RemoteModel *remote = (RemoteModel *) base;

  tps_rpc_call (remote->client, &tps_get_model_rpc, NULL, TPS_RETRY_UNTIL_DEADLINE, deadline_ns,
                on_answer, call_new (done, user_data));
}

static void
remote_model_update_and_fetch (TpsModelClient *base, const TpsTensor *gradients, guint n_gradients,
                               gint64 version, gint64 deadline_ns, TpsModelAnswered done,
                               gpointer user_data)
{
  RemoteModel *remote = (RemoteModel *) base;
  Call *call = call_new (done, user_data);

  call->update.trainer = remote->trainer;
  call->update.version = version;
  call->update.push.client = g_strdup (remote->name);
  call->update.push.sequence = atomic_fetch_add (&remote->sequence, 1) + 1;
  call->update.gradients.n_tensors = n_gradients;
  call->update.gradients.tensors = g_new0 (TpsTensor, n_gradients);
  for (guint i = 0; i < n_gradients; i++)
    tps_tensor_init_ref (&call->update.gradients.tensors[i], &gradients[i]);
  tps_rpc_call (remote->client, &tps_update_and_fetch_model_rpc, &call->update,
                TPS_RETRY_UNTIL_DEADLINE, deadline_ns, on_answer, call);
}

static TpsBuffer *
remote_model_get_memory (TpsModelClient *base, gsize n_bytes, TpsBuffer *current)
{
  return tps_client_get_send_memory (((RemoteModel *) base)->client, n_bytes, current);
}

static void
remote_model_cancel (TpsModelClient *base)
{
  tps_client_cancel (((RemoteModel *) base)->client);
}

static void
remote_model_free (TpsModelClient *base)
{
  RemoteModel *remote = (RemoteModel *) base;

  tps_client_free (remote->client);
  g_free (remote->name);
  g_free (remote);
}

TpsModelClient *
tps_remote_model_new (const TpsRemoteModelOptions *given, GError **error)
{
  static const TpsModelClientOps ops = {
    .init_model = remote_model_init_model,
    .get_model = remote_model_get_model,
    .update_and_fetch = remote_model_update_and_fetch,
    .cancel = remote_model_cancel,
    .free = remote_model_free,
    .get_memory = remote_model_get_memory,
  };
  TpsRemoteModelOptions options;
  TpsClientOptions connection = { 0 };
  TpsClient *client;
  RemoteModel *remote;

  TPS_SIZED_COPY (options, given);
  connection.address = options.address;
  connection.max_message_bytes = options.max_message_bytes;
  connection.tls = options.tls;
  connection.token = options.token;
  connection.shares_answers = TRUE;
  client = tps_client_new (&connection, error);
  if (client == NULL)
    return NULL;
  remote = g_new0 (RemoteModel, 1);
  remote->base.ops = &ops;
  remote->client = client;
  remote->trainer = options.trainer;
  remote->name = options.client != NULL ? g_strdup (options.client)
                                        : g_strdup_printf ("trainer%d-%08x%08x", options.trainer,
                                                           g_random_int (), g_random_int ());
  atomic_init (&remote->sequence, 0);
  return &remote->base;
}

/* -- the store -- */

#define DEFAULT_TIMEOUT_NS ((gint64) 30 * 1000000000)
#define NS_PER_MS 1000000
#define MAX_WAIT_MS 10000                   /* longest time that one request waits at the server */
#define GRACE_NS ((gint64) 200 * NS_PER_MS) /* for the reply at the deadline */

typedef struct
{
  TpsStore base;
  gchar *address;
  gint64 timeout_ns;
  TpsClient *client;
} RemoteStore;

static gboolean
change (const RemoteStore *store, const TpsRpc *rpc, gconstpointer arguments, GError **error)
{
  return tps_rpc_call_sync (store->client, rpc, arguments, TPS_RETRY_ONCE,
                            tps_clock_now_ns () + store->timeout_ns, NULL, error);
}

static gboolean
remote_store_put (TpsStore *base, const gchar *key, GBytes *value, GError **error)
{
  TpsRendezvousArguments arguments = { .key = (gchar *) (gsize) key, .value = value };

  return change ((RemoteStore *) base, &tps_rendezvous_put_rpc, &arguments, error);
}

static gboolean
remote_store_remove (TpsStore *base, const gchar *prefix, GError **error)
{
  return change ((RemoteStore *) base, &tps_rendezvous_remove_rpc, &prefix, error);
}

static GBytes *
remote_store_get (TpsStore *base, const gchar *key, gint64 deadline_ns, GError **error)
{
  RemoteStore *store = (RemoteStore *) base;
  TpsRendezvousArguments arguments = { .key = (gchar *) (gsize) key };
  gboolean in_time = TRUE;

  while (in_time)
    {
      g_autoptr (GError) local_error = NULL;
      GBytes *value = NULL;
      gint64 left_ms = (deadline_ns - tps_clock_now_ns () + NS_PER_MS - 1) / NS_PER_MS;

      /* At least 1 ms, because 0 would mean "do not wait". */
      arguments.timeout_ms = (gint32) CLAMP (left_ms, 1, MAX_WAIT_MS);
      /* At the deadline, the server's error is more precise than the client's, so the client waits
       * a little longer. */
      if (tps_rpc_call_sync (store->client, &tps_rendezvous_get_rpc, &arguments, TPS_RETRY_ONCE,
                             deadline_ns + GRACE_NS, &value, &local_error))
        return value;
      if (!g_error_matches (local_error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED))
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return NULL;
        }
      in_time = tps_clock_now_ns () < deadline_ns;
    }
  return tps_fail_null (error, TPS_ERROR_DEADLINE_EXCEEDED,
                        "store at %s: key \"%s\" was not set before the deadline", store->address,
                        key);
}

static void
remote_store_free (TpsStore *base)
{
  RemoteStore *store = (RemoteStore *) base;

  tps_client_free (store->client);
  g_free (store->address);
  g_free (store);
}

TpsStore *
tps_remote_store_new (const TpsRemoteStoreOptions *given, GError **error)
{
  static const TpsStoreOps ops = {
    .put = remote_store_put,
    .get = remote_store_get,
    .remove = remote_store_remove,
    .free = remote_store_free,
  };
  TpsRemoteStoreOptions options;
  TpsClientOptions connection = { 0 };
  TpsClient *client;
  RemoteStore *store;

  TPS_SIZED_COPY (options, given);
  connection.address = options.address;
  connection.tls = options.tls;
  connection.token = options.token;
  client = tps_client_new (&connection, error);
  if (client == NULL)
    return NULL;
  store = g_new0 (RemoteStore, 1);
  store->base.ops = &ops;
  store->address = g_strdup (options.address);
  store->timeout_ns = options.timeout_ns > 0 ? options.timeout_ns : DEFAULT_TIMEOUT_NS;
  store->client = client;
  return &store->base;
}
