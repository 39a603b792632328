/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Functions for the services ParameterServer and Rendezvous of one server. */

#include "plugin/python/native/python_request.h"
#include "plugin/wire/wire_parameter_server.h"
#include "plugin/wire/wire_rendezvous.h"

/* ---- averages ---- */

static void
take_average (TpsPythonCall *call, gpointer result)
{
  TpsGradient *average = result;
  TpsTensor sparse[2] = { average->indices, average->values };

  if (average->kind == TPS_GRADIENT_DENSE)
    tps_python_call_take_tensors (call, &average->dense, 1);
  else if (average->kind == TPS_GRADIENT_SPARSE)
    {
      average->indices = average->values = (TpsTensor) { 0 };
      call->reply.number = average->rows;
      tps_python_call_take_tensors (call, sparse, G_N_ELEMENTS (sparse));
    }
}

static void
clear_average (gpointer result)
{
  tps_gradient_clear (result);
}

static void
clear_average_arguments (gpointer arguments)
{
  tps_average_gradient_arguments_clear (arguments);
}

static void
borrow_gradient (TpsGradient *to, const TpsPythonGradient *from)
{
  to->kind = (TpsGradientKind) from->kind;
  to->weight = from->weight;
  to->rows = from->rows;
  if (to->kind == TPS_GRADIENT_DENSE)
    tps_python_borrow (&to->dense, &from->dense);
  else if (to->kind == TPS_GRADIENT_SPARSE)
    {
      tps_python_borrow (&to->indices, &from->indices);
      tps_python_borrow (&to->values, &from->values);
    }
}

TpsPythonCall *
tps_python_average_gradient (TpsClient *client, gint32 trainer, gint64 batch, gint32 param_loc,
                             const TpsPythonGradient *gradient, gint64 timeout_ns)
{
  static const TpsPythonAnswer answer = { sizeof (TpsGradient), take_average, clear_average };
  TpsAverageGradientArguments arguments = { .trainer = trainer,
                                            .batch = batch,
                                            .param_loc = param_loc };
  TpsPythonRequest request = { &tps_average_gradient_rpc, sizeof arguments, &arguments,
                               clear_average_arguments,   &answer,          TPS_PYTHON_RETRY_ONCE };

  borrow_gradient (&arguments.gradient, gradient);
  return tps_python_request_send (client, &request, timeout_ns);
}

TpsPythonCall *
tps_python_reset_state (TpsClient *client, gint64 timeout_ns)
{
  TpsPythonRequest request = { .rpc = &tps_reset_state_rpc, .retry = TPS_PYTHON_RETRY_ONCE };

  return tps_python_request_send (client, &request, timeout_ns);
}

/* ---- models ---- */

static void
take_model (TpsPythonCall *call, gpointer result)
{
  TpsModelVersion **model = result;

  tps_python_call_set_model (call, *model);
}

static void
clear_model (gpointer result)
{
  TpsModelVersion **model = result;

  g_clear_pointer (model, tps_model_version_unref);
}

static const TpsPythonAnswer model_answer = { sizeof (TpsModelVersion *), take_model, clear_model };

static void
clear_init_arguments (gpointer arguments)
{
  tps_init_model_arguments_clear (arguments);
}

static void
clear_update_arguments (gpointer arguments)
{
  tps_update_model_arguments_clear (arguments);
}

TpsPythonCall *
tps_python_init_model (TpsClient *client, const gchar *const *names,
                       const TpsTensorView *parameters, guint n_parameters,
                       const TpsOptimizerSpec *optimizer, gint64 timeout_ns)
{
  TpsInitModelArguments arguments = { .n_parameters = n_parameters,
                                      .parameters = g_new0 (TpsNamedTensor, n_parameters),
                                      .optimizer = *optimizer };
  TpsPythonRequest request = { &tps_init_model_rpc,
                               sizeof arguments,
                               &arguments,
                               clear_init_arguments,
                               NULL,
                               TPS_PYTHON_RETRY_UNTIL_DEADLINE };

  for (guint i = 0; i < n_parameters; i++)
    {
      arguments.parameters[i].name = g_strdup (names[i]);
      tps_python_borrow (&arguments.parameters[i].tensor, &parameters[i]);
    }
  return tps_python_request_send (client, &request, timeout_ns);
}

TpsPythonCall *
tps_python_get_model (TpsClient *client, gint64 timeout_ns)
{
  TpsPythonRequest request = { .rpc = &tps_get_model_rpc,
                               .answer = &model_answer,
                               .retry = TPS_PYTHON_RETRY_UNTIL_DEADLINE };

  return tps_python_request_send (client, &request, timeout_ns);
}

TpsPythonCall *
tps_python_update_model (TpsClient *client, gint32 trainer, const TpsTensorView *gradients,
                         guint n_gradients, gint64 version, const gchar *push_client,
                         gint64 push_sequence, gint64 timeout_ns)
{
  TpsUpdateModelArguments arguments = {
    .trainer = trainer,
    .version = version,
    .push = { g_strdup (push_client), push_sequence },
    .gradients = { n_gradients, g_new0 (TpsTensor, n_gradients) },
  };
  TpsPythonRequest request = {
    &tps_update_and_fetch_model_rpc, sizeof arguments, &arguments,
    clear_update_arguments,          &model_answer,    TPS_PYTHON_RETRY_UNTIL_DEADLINE
  };

  for (guint i = 0; i < n_gradients; i++)
    tps_python_borrow (&arguments.gradients.tensors[i], &gradients[i]);
  return tps_python_request_send (client, &request, timeout_ns);
}

/* ---- rendezvous ---- */

static void
clear_rendezvous_arguments (gpointer arguments)
{
  tps_rendezvous_arguments_clear (arguments);
}

static void
take_value (TpsPythonCall *call, gpointer result)
{
  GBytes **value = result;

  tps_python_call_take_bytes (call, g_steal_pointer (value));
}

static void
clear_value (gpointer result)
{
  GBytes **value = result;

  g_clear_pointer (value, g_bytes_unref);
}

static const TpsPythonAnswer value_answer = { sizeof (GBytes *), take_value, clear_value };

/* Sends a call of Rendezvous. Takes ownership of the contents of `arguments`. */
static TpsPythonCall *
send_rendezvous (TpsClient *client, const TpsRpc *rpc, const TpsRendezvousArguments *arguments,
                 const TpsPythonAnswer *answer, gint64 timeout_ns)
{
  TpsPythonRequest request = { rpc,       sizeof *arguments,
                               arguments, clear_rendezvous_arguments,
                               answer,    TPS_PYTHON_RETRY_UNTIL_DEADLINE };

  return tps_python_request_send (client, &request, timeout_ns);
}

TpsPythonCall *
tps_python_put (TpsClient *client, const gchar *key, gconstpointer value, gsize n_bytes,
                gint64 timeout_ns)
{
  TpsRendezvousArguments arguments = { .key = g_strdup (key),
                                       .value = g_bytes_new (value, n_bytes) };

  return send_rendezvous (client, &tps_rendezvous_put_rpc, &arguments, NULL, timeout_ns);
}

TpsPythonCall *
tps_python_get (TpsClient *client, const gchar *key, gint32 wait_ms, gint64 timeout_ns)
{
  TpsRendezvousArguments arguments = { .key = g_strdup (key), .timeout_ms = wait_ms };

  return send_rendezvous (client, &tps_rendezvous_get_rpc, &arguments, &value_answer, timeout_ns);
}

TpsPythonCall *
tps_python_add (TpsClient *client, const gchar *key, gint64 amount, const gchar *push_client,
                gint64 push_sequence, gint64 timeout_ns)
{
  TpsRendezvousArguments arguments = { .key = g_strdup (key),
                                       .amount = amount,
                                       .push = { g_strdup (push_client), push_sequence } };

  return send_rendezvous (client, &tps_rendezvous_add_rpc, &arguments, &tps_python_number_answer,
                          timeout_ns);
}

TpsPythonCall *
tps_python_remove (TpsClient *client, const gchar *prefix, gint64 timeout_ns)
{
  TpsRendezvousArguments arguments = { .key = g_strdup (prefix) };

  return send_rendezvous (client, &tps_rendezvous_remove_rpc, &arguments, NULL, timeout_ns);
}
