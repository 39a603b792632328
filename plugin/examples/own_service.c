/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A service of your own (scaler.thrift) in our server. usage: own_service [ADDRESS] */

#include <thriftps/plugin.h>

typedef struct
{
  TpsTensor tensor;
  gdouble factor;
} Scale;

static const TpsField arguments[] = {
  TPS_FIELD_WITH (Scale, tensor, 1, TPS_FIELD_REQUIRED, tps_kind_struct, &tps_tensor_struct),
  TPS_FIELD_WITH (Scale, factor, 2, TPS_FIELD_REQUIRED, tps_kind_double, NULL),
  TPS_FIELD_END,
};
static const TpsField result = TPS_RESULT (tps_kind_struct, &tps_tensor_struct);
static const TpsRpc scale_rpc = TPS_RPC ("Scaler", "scale", arguments, &result);

static void
handle_scale (TpsCall *call, gpointer object)
{
  Scale in = { 0 };
  g_auto (TpsTensor) scaled = { 0 };
  g_autoptr (GError) error = NULL;

  (void) object;
  if (tps_call_read_arguments (call, &in, &error) && in.tensor.shape.dtype != TPS_DTYPE_FLOAT32)
    error = g_error_new (TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "tensor is not FLOAT32");
  if (error != NULL)
    tps_call_reply_error (call, error);
  else
    {
      tps_tensor_init_copy (&scaled, tps_tensor_view (&in.tensor));
      for (gint64 i = 0; i < tps_shape_n_elems (&scaled.shape); i++)
        ((gfloat *) tps_tensor_data (&scaled))[i] *= (gfloat) in.factor;
      tps_call_reply_value (call, &scaled);
    }
  tps_tensor_clear (&in.tensor);
}

static const TpsMethod methods[] = {
  { TPS_RIGHT_READ, &scale_rpc, handle_scale, TPS_METHOD_ON_WORKER, FALSE, FALSE },
  TPS_METHODS_END,
};

int
main (int argc, char **argv)
{
  TpsService service = { .size = sizeof service, .name = "Scaler", .methods = methods };
  g_autoptr (TpsServer) server = tps_server_new (NULL);
  g_autoptr (GError) error = NULL;

  tps_server_add_service (server, &service);
  if (!tps_server_listen (server, argc > 1 ? argv[1] : "127.0.0.1:7070", &error))
    g_error ("%s", error->message);
  g_print ("listening on %s\n", tps_server_get_addresses (server)[0]);
  return thrift_server_serve (THRIFT_SERVER (server), &error) ? 0 : 1;
}
