/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/client.h"
#include "plugin/wire/wire_parameter_server.h"
#include "runtime/base/sized.h"
#include "runtime/base/sync.h"
#include "runtime/tensor/model_version.h"

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
