/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/stubs.h"

#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_rendezvous.h"
#include "plugin/wire/wire_trainer.h"
#include "runtime/base/error.h"

typedef struct
{
  const gchar *service;
  const gchar *method;
  TpsReadResult decode; /* NULL: void */
} Method;

typedef struct
{
  const Method *method;
  gpointer result;
} Answer;

/* The codecs say INVALID_ARGUMENT, which would be the caller's fault. A bad answer is not. */
static gboolean
read_answer (TpsReader *in, TpsWireType type, gpointer user_data, GError **error)
{
  const Answer *answer = user_data;
  g_autoptr (GError) local_error = NULL;

  if (answer->method->decode == NULL
      || answer->method->decode (in, type, answer->result, &local_error))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "the answer to %s:%s cannot be understood: %s",
               answer->method->service, answer->method->method, local_error->message);
  return FALSE;
}

static gboolean
ask (TpsClient *client, const Method *method, TpsWriteArguments encode, gconstpointer arguments,
     gpointer result, gint64 deadline_ns, GError **error)
{
  Answer answer = { method, result };

  return tps_client_call_sync (client, method->service, method->method, encode, arguments,
                               deadline_ns, read_answer, &answer, error);
}

gboolean
tps_remote_describe (TpsClient *client, gint64 deadline_ns, TpsNodeInfo *info, GError **error)
{
  static const Method describe = { "Node", "describe", tps_node_describe_result_decode };
  g_auto (TpsNodeInfo) answered = { 0 };

  if (!ask (client, &describe, NULL, NULL, &answered, deadline_ns, error))
    return FALSE;
  *info = answered;
  answered = (TpsNodeInfo) { 0 };
  return TRUE;
}

GPtrArray *
tps_remote_get_metrics (TpsClient *client, gboolean with_samples, gint64 deadline_ns,
                        GError **error)
{
  static const Method get_metrics = { "Node", "get_metrics", tps_node_get_metrics_result_decode };
  GPtrArray *summaries = NULL;

  ask (client, &get_metrics, tps_node_get_metrics_arguments_encode, &with_samples, &summaries,
       deadline_ns, error);
  return summaries;
}

gboolean
tps_remote_clear_metrics (TpsClient *client, gint64 deadline_ns, GError **error)
{
  static const Method clear_metrics = { "Node", "clear_metrics", NULL };

  return ask (client, &clear_metrics, NULL, NULL, NULL, deadline_ns, error);
}

gboolean
tps_remote_reset_state (TpsClient *client, gint64 deadline_ns, GError **error)
{
  static const Method reset_state = { "ParameterServer", "reset_state", NULL };

  return ask (client, &reset_state, NULL, NULL, NULL, deadline_ns, error);
}

gboolean
tps_remote_init_model (TpsClient *client, TpsNamedTensor *parameters, guint n_parameters,
                       const TpsOptimizerSpec *optimizer, gint64 deadline_ns, GError **error)
{
  static const Method init_model = { "ParameterServer", "init_model", NULL };
  TpsInitModelArguments arguments = { .n_parameters = n_parameters,
                                      .parameters = parameters,
                                      .optimizer = *optimizer };

  return ask (client, &init_model, tps_init_model_arguments_encode, &arguments, NULL, deadline_ns,
              error);
}

TpsModelVersion *
tps_remote_get_model (TpsClient *client, gint64 deadline_ns, GError **error)
{
  static const Method get_model = { "ParameterServer", "get_model", tps_model_result_decode };
  TpsModelVersion *model = NULL;

  ask (client, &get_model, NULL, NULL, &model, deadline_ns, error);
  return model;
}

TpsModelVersion *
tps_remote_update_and_fetch_model (TpsClient *client, const TpsUpdateModelArguments *arguments,
                                   gint64 deadline_ns, GError **error)
{
  static const Method update = { "ParameterServer", "update_and_fetch_model",
                                 tps_model_result_decode };
  TpsModelVersion *model = NULL;

  ask (client, &update, tps_update_model_arguments_encode, arguments, &model, deadline_ns, error);
  return model;
}

gboolean
tps_remote_create_table (TpsClient *client, const TpsTableSpec *spec, gint64 deadline_ns,
                         GError **error)
{
  static const Method create_table = { "EmbeddingTable", "create_table", NULL };

  return ask (client, &create_table, tps_create_table_arguments_encode, spec, NULL, deadline_ns,
              error);
}

gboolean
tps_remote_drop_table (TpsClient *client, const gchar *table, gint64 deadline_ns, GError **error)
{
  static const Method drop_table = { "EmbeddingTable", "drop_table", NULL };

  return ask (client, &drop_table, tps_drop_table_arguments_encode, table, NULL, deadline_ns,
              error);
}

gboolean
tps_remote_train (TpsClient *client, const TpsTrainPlan *plan, gint64 deadline_ns, GError **error)
{
  static const Method train = { "Trainer", "train", NULL };

  return ask (client, &train, tps_train_arguments_encode, plan, NULL, deadline_ns, error);
}

gboolean
tps_remote_get_train_status (TpsClient *client, gint64 deadline_ns, TpsTrainStatus *status,
                             GError **error)
{
  static const Method get_status = { "Trainer", "status", tps_train_status_result_decode };
  g_auto (TpsTrainStatus) answered = { 0 };

  if (!ask (client, &get_status, NULL, NULL, &answered, deadline_ns, error))
    return FALSE;
  *status = answered;
  answered = (TpsTrainStatus) { 0 };
  return TRUE;
}

gboolean
tps_remote_cancel_train (TpsClient *client, gint64 deadline_ns, GError **error)
{
  static const Method cancel = { "Trainer", "cancel", NULL };

  return ask (client, &cancel, NULL, NULL, NULL, deadline_ns, error);
}

/* The codec's struct owns its strings; this one borrows them for the call. */
static TpsRendezvousArguments
borrow_key (const gchar *key)
{
  return (TpsRendezvousArguments) { .key = (gchar *) (gsize) key };
}

gboolean
tps_remote_put (TpsClient *client, const gchar *key, GBytes *value, gint64 deadline_ns,
                GError **error)
{
  static const Method put = { "Rendezvous", "put", NULL };
  TpsRendezvousArguments arguments = borrow_key (key);

  arguments.value = value;
  return ask (client, &put, tps_rendezvous_put_arguments_encode, &arguments, NULL, deadline_ns,
              error);
}

GBytes *
tps_remote_get (TpsClient *client, const gchar *key, gint32 timeout_ms, gint64 deadline_ns,
                GError **error)
{
  static const Method get = { "Rendezvous", "get", tps_rendezvous_get_result_decode };
  TpsRendezvousArguments arguments = borrow_key (key);
  GBytes *value = NULL;

  arguments.timeout_ms = timeout_ms;
  ask (client, &get, tps_rendezvous_get_arguments_encode, &arguments, &value, deadline_ns, error);
  return value;
}

gboolean
tps_remote_remove (TpsClient *client, const gchar *prefix, gint64 deadline_ns, GError **error)
{
  static const Method remove_prefix = { "Rendezvous", "remove", NULL };
  TpsRendezvousArguments arguments = borrow_key (prefix);

  return ask (client, &remove_prefix, tps_rendezvous_remove_arguments_encode, &arguments, NULL,
              deadline_ns, error);
}
