/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_parameter_server.h"

#include "runtime/base/error.h"

static gboolean
read_gradient (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  return tps_gradient_decode (in, path, target, error);
}

static const TpsFieldSpec average_gradient_fields[] = {
  { "trainer", 1, TPS_WIRE_I32, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsAverageGradientArguments, trainer) },
  { "batch", 2, TPS_WIRE_I64, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsAverageGradientArguments, batch) },
  { "param_loc", 3, TPS_WIRE_I32, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsAverageGradientArguments, param_loc) },
  { "gradient", 4, TPS_WIRE_STRUCT, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsAverageGradientArguments, gradient), .read = read_gradient },
  { NULL },
};

gboolean
tps_average_gradient_arguments_decode (TpsReader *in, TpsAverageGradientArguments *arguments,
                                       GError **error)
{
  return tps_fields_read (in, NULL, average_gradient_fields, arguments, NULL, error);
}

void
tps_average_gradient_arguments_encode (TpsWriter *out, gconstpointer data)
{
  const TpsAverageGradientArguments *arguments = data;

  tps_writer_field (out, 1, TPS_WIRE_I32);
  tps_writer_i32 (out, arguments->trainer);
  tps_writer_field (out, 2, TPS_WIRE_I64);
  tps_writer_i64 (out, arguments->batch);
  tps_writer_field (out, 3, TPS_WIRE_I32);
  tps_writer_i32 (out, arguments->param_loc);
  tps_writer_field (out, 4, TPS_WIRE_STRUCT);
  tps_gradient_encode (out, &arguments->gradient);
}

void
tps_average_gradient_arguments_clear (TpsAverageGradientArguments *arguments)
{
  tps_gradient_clear (&arguments->gradient);
}

void
tps_average_gradient_result_encode (TpsWriter *out, gconstpointer gradient)
{
  tps_writer_field (out, 0, TPS_WIRE_STRUCT);
  tps_gradient_encode (out, gradient);
}

gboolean
tps_average_gradient_result_decode (TpsReader *in, TpsWireType type, gpointer gradient,
                                    GError **error)
{
  TpsFieldPath path = { .name = "average" };

  return tps_field_check_type (&path, type, TPS_WIRE_STRUCT, error)
         && tps_gradient_decode (in, &path, gradient, error);
}
