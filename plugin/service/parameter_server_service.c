/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/parameter_server_service.h"

#include "plugin/service/methods.h"
#include "plugin/wire/wire_parameter_server.h"
#include "runtime/base/trace.h"
#include "runtime/machine/tuning.h"

static TpsTraceEvent state_reset = TPS_TRACE_EVENT ("state_reset", TPS_TRACE_INFO);

static void
free_average (gpointer data)
{
  tps_gradient_clear (data);
  g_free (data);
}

static void
reply_average (TpsCall *call, gpointer data)
{
  tps_call_reply_value (call, data);
  free_average (data);
}

/* The replies of a round are written one after another. If each reply copies a lot, into shared
 * memory or a socket, each is written by a worker, because a step of the trainers ends with the
 * last reply. */
static gboolean
is_large (gsize n_bytes)
{
  return n_bytes >= tps_tuning_get ()->reply_worker_bytes;
}

static gboolean
is_large_average (const TpsGradient *average)
{
  const TpsTensor *tensor = average->kind == TPS_GRADIENT_SPARSE ? &average->values
                                                                 : &average->dense;

  return average->kind != TPS_GRADIENT_NONE && is_large (tps_shape_n_bytes (&tensor->shape));
}

/* The average is sent without a copy, because the writer keeps references to its tensors. */
static void
answer_average (gpointer data, const TpsGradient *average, const GError *error)
{
  TpsCall *call = data;

  if (average == NULL)
    tps_call_reply_error (call, error);
  else if (!is_large_average (average))
    tps_call_reply_value (call, average);
  else
    {
      TpsGradient *kept = g_new0 (TpsGradient, 1);

      tps_gradient_init_ref (kept, average);
      tps_call_run_on_worker (call, TPS_LANE_SHORT, reply_average, kept, free_average);
    }
}

/* A contribution whose check takes long, and therefore runs on a worker. */
typedef struct
{
  TpsParameterServer *averaging;
  TpsAverageGradientArguments arguments;
} Contribution;

static void
free_contribution (gpointer data)
{
  Contribution *contribution = data;

  tps_average_gradient_arguments_clear (&contribution->arguments);
  g_free (contribution);
}

static void
take_part (TpsCall *call, TpsParameterServer *averaging, TpsAverageGradientArguments *arguments)
{
  tps_call_enter_phase (call, TPS_PHASE_WAIT);
  tps_parameter_server_average_gradient (averaging, arguments->trainer, arguments->batch,
                                         arguments->param_loc, &arguments->gradient,
                                         tps_call_may_wait (call), answer_average, call);
}

static void
take_part_on_worker (TpsCall *call, gpointer data)
{
  Contribution *contribution = data;

  take_part (call, contribution->averaging, &contribution->arguments);
  free_contribution (contribution);
}

static void
handle_average_gradient (TpsCall *call, gpointer service)
{
  const TpsParameterServers *servers = service;
  g_auto (TpsAverageGradientArguments) arguments = { 0 };
  g_autoptr (GError) error = NULL;

  if (!tps_call_read_arguments (call, &arguments, &error))
    tps_call_reply_error (call, error);
  else if (tps_parameter_server_is_long_check (&arguments.gradient))
    {
      Contribution *contribution = g_new (Contribution, 1);

      *contribution = (Contribution) { servers->averaging, arguments };
      arguments = (TpsAverageGradientArguments) { 0 };
      tps_call_run_on_worker (call, TPS_LANE_SHORT, take_part_on_worker, contribution,
                              free_contribution);
    }
  else
    take_part (call, servers->averaging, &arguments);
}

static void
handle_reset_state (TpsCall *call, gpointer service)
{
  const TpsParameterServers *servers = service;
  g_autoptr (GError) error = NULL;

  tps_parameter_server_reset_state (servers->averaging);
  if (tps_model_server_reset_state (servers->updating, &error))
    tps_trace (&state_reset, tps_field_text ("peer", tps_call_get_peer (call)));
  tps_call_reply_done (call, error);
}

/* Runs on a worker, because it reads and copies all parameters. */
static void
handle_init_model (TpsCall *call, gpointer service)
{
  const TpsParameterServers *servers = service;
  g_auto (TpsInitModelArguments) arguments = { 0 };
  g_autoptr (GError) error = NULL;

  if (tps_call_read_arguments (call, &arguments, &error))
    tps_model_server_init_model (servers->updating, arguments.parameters, arguments.n_parameters,
                                 &arguments.optimizer, &error);
  tps_call_reply_done (call, error);
}

static void
handle_get_model (TpsCall *call, gpointer service)
{
  const TpsParameterServers *servers = service;
  g_autoptr (GError) error = NULL;
  g_autoptr (TpsModelVersion) model = tps_model_server_get_model (servers->updating, &error);

  if (model != NULL)
    tps_call_reply_value (call, &model);
  else
    tps_call_reply_error (call, error);
}

static void
reply_model (TpsCall *call, gpointer data)
{
  TpsModelVersion *model = data;

  tps_call_reply_value (call, &model);
  tps_model_version_unref (model);
}

static gboolean
is_large_model (const TpsModelVersion *model)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < model->n_parameters; i++)
    n_bytes += tps_shape_n_bytes (&model->parameters[i].tensor.shape);
  return is_large (n_bytes);
}

/* The model is sent without a copy, because the writer keeps references to its tensors. */
static void
answer_model (gpointer data, TpsModelVersion *model, const GError *error)
{
  TpsCall *call = data;

  if (model == NULL)
    tps_call_reply_error (call, error);
  else if (is_large_model (model))
    tps_call_run_on_worker (call, TPS_LANE_SHORT, reply_model, tps_model_version_ref (model),
                            (GDestroyNotify) tps_model_version_unref);
  else
    tps_call_reply_value (call, &model);
}

static gboolean
is_connected (gpointer call)
{
  return tps_call_is_connected (call);
}

static void
handle_update_and_fetch_model (TpsCall *call, gpointer service)
{
  const TpsParameterServers *servers = service;
  g_auto (TpsUpdateModelArguments) arguments = { 0 };
  g_autoptr (GError) error = NULL;
  TpsModelPush push;

  if (!tps_call_read_arguments (call, &arguments, &error))
    {
      tps_call_reply_error (call, error);
      return;
    }
  tps_call_enter_phase (call, TPS_PHASE_WAIT);
  push = (TpsModelPush) { .trainer = arguments.trainer,
                          .n_gradients = arguments.gradients.n_tensors,
                          .gradients = arguments.gradients.tensors,
                          .client = arguments.push.client,
                          .sequence = arguments.push.sequence,
                          .tenant = tps_call_get_tenant_name (call),
                          .version = arguments.version,
                          .may_wait = tps_call_may_wait (call),
                          .connection = tps_call_get_connection (call),
                          .is_connected = is_connected };
  tps_model_server_update_and_fetch (servers->updating, &push, answer_model, call);
}

static void
connection_closed (gpointer object, gconstpointer connection)
{
  const TpsParameterServers *servers = object;

  tps_model_server_connection_closed (servers->updating, connection);
}

static void
shut_down (gpointer object)
{
  const TpsParameterServers *servers = object;

  tps_parameter_server_shut_down (servers->averaging);
  tps_model_server_shut_down (servers->updating);
}

/* In the long lane: reset_state may wait for a disk. */
static const TpsMethod methods[] = { TPS_PARAMETER_SERVER_METHODS (handle_), { 0 } };

TpsService
tps_parameter_server_service (const TpsParameterServers *servers)
{
  return (TpsService) { .name = "ParameterServer",
                        .methods = methods,
                        .object = (gpointer) (gsize) servers,
                        .shut_down = shut_down,
                        .connection_closed = connection_closed,
                        .borrows_shared = TRUE };
}
