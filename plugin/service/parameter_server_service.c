/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/parameter_server_service.h"

#include "plugin/wire/wire_parameter_server.h"

/* The average goes out from where it lies: the writer keeps references. */
static void
answer_average (gpointer data, const TpsGradient *average, const GError *error)
{
  TpsCall *call = data;

  if (average != NULL)
    tps_call_reply (call, tps_average_gradient_result_encode, average);
  else
    tps_call_reply_error (call, error);
}

static void
handle_average_gradient (TpsCall *call, gpointer service)
{
  g_auto (TpsAverageGradientArguments) arguments = { 0 };
  g_autoptr (GError) error = NULL;
  TpsReader in;

  tps_call_get_arguments (call, &in);
  if (tps_average_gradient_arguments_decode (&in, &arguments, &error))
    tps_parameter_server_average_gradient (service, arguments.trainer, arguments.batch,
                                           arguments.param_loc, &arguments.gradient,
                                           tps_call_may_wait (call), answer_average, call);
  else
    tps_call_reply_error (call, error);
}

static void
handle_reset_state (TpsCall *call, gpointer service)
{
  tps_parameter_server_reset_state (service);
  tps_call_reply (call, NULL, NULL);
}

static void
shut_down (gpointer object)
{
  tps_parameter_server_shut_down (object);
}

static const TpsMethod methods[] = {
  { "average_gradient", handle_average_gradient, FALSE },
  { "reset_state", handle_reset_state, FALSE },
  { NULL },
};

TpsService
tps_parameter_server_service (TpsParameterServer *server)
{
  return (TpsService) {
    .name = "ParameterServer", .methods = methods, .object = server, .shut_down = shut_down
  };
}
