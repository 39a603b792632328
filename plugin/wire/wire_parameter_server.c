/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_parameter_server.h"

#define SERVICE "ParameterServer"

/* ---- NamedTensor, Model --------------------------------------------------------------------- */

static const TpsField named_tensor_fields[] = {
  { "name", 1, TPS_FIELD_REQUIRED, &tps_kind_name, NULL, G_STRUCT_OFFSET (TpsNamedTensor, name) },
  { "tensor", 2, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_tensor_struct,
    G_STRUCT_OFFSET (TpsNamedTensor, tensor) },
  { NULL },
};

static const TpsStruct named_tensor_struct = { "NamedTensor", named_tensor_fields };

static const TpsList named_tensors = {
  .elem = { .kind = &tps_kind_struct, .of = &named_tensor_struct },
  .form = TPS_LIST_COUNTED,
  .elem_size = sizeof (TpsNamedTensor),
};

static const TpsField model_fields[] = {
  { "version", 1, TPS_FIELD_REQUIRED, &tps_kind_i64, NULL,
    G_STRUCT_OFFSET (TpsModelVersion, version) },
  { "parameters", 2, TPS_FIELD_REQUIRED, &tps_kind_list, &named_tensors,
    G_STRUCT_OFFSET (TpsModelVersion, n_parameters) },
  { NULL },
};

static gboolean
read_model (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  g_autoptr (TpsModelVersion) model = tps_model_version_new (0, 0);

  if (!tps_fields_read (model_fields, in, path, model, NULL, error))
    return FALSE;
  *(TpsModelVersion **) target = g_steal_pointer (&model);
  return TRUE;
}

static void
write_model (TpsWriter *out, gconstpointer source)
{
  tps_writer_struct_begin (out);
  tps_fields_write (model_fields, out, *(const TpsModelVersion *const *) source);
  tps_writer_struct_end (out);
}

static const TpsStruct model_struct = { "Model", model_fields, read_model, write_model };

static const TpsField model_result = { "model", .kind = &tps_kind_struct, .of = &model_struct };

/* ---- average_gradient, reset_state ---------------------------------------------------------- */

static const TpsField average_gradient_arguments[] = {
  { "trainer", 1, TPS_FIELD_REQUIRED, &tps_kind_i32, NULL,
    G_STRUCT_OFFSET (TpsAverageGradientArguments, trainer) },
  { "batch", 2, TPS_FIELD_REQUIRED, &tps_kind_i64, NULL,
    G_STRUCT_OFFSET (TpsAverageGradientArguments, batch) },
  { "param_loc", 3, TPS_FIELD_REQUIRED, &tps_kind_i32, NULL,
    G_STRUCT_OFFSET (TpsAverageGradientArguments, param_loc) },
  { "gradient", 4, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_gradient_struct,
    G_STRUCT_OFFSET (TpsAverageGradientArguments, gradient) },
  { NULL },
};

static const TpsField average_result = { "average", .kind = &tps_kind_struct,
                                         .of = &tps_gradient_struct };

const TpsRpc tps_average_gradient_rpc = { SERVICE, "average_gradient", average_gradient_arguments,
                                          &average_result };
const TpsRpc tps_reset_state_rpc = { SERVICE, "reset_state" };

void
tps_average_gradient_arguments_clear (TpsAverageGradientArguments *arguments)
{
  tps_gradient_clear (&arguments->gradient);
}

/* ---- init_model, get_model ------------------------------------------------------------------ */

static const TpsField init_model_arguments[] = {
  { "parameters", 1, TPS_FIELD_REQUIRED, &tps_kind_list, &named_tensors,
    G_STRUCT_OFFSET (TpsInitModelArguments, n_parameters) },
  { "optimizer", 2, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_optimizer_struct,
    G_STRUCT_OFFSET (TpsInitModelArguments, optimizer) },
  { NULL },
};

const TpsRpc tps_init_model_rpc = { SERVICE, "init_model", init_model_arguments };
const TpsRpc tps_get_model_rpc = { SERVICE, "get_model", .result = &model_result };

void
tps_init_model_arguments_clear (TpsInitModelArguments *arguments)
{
  for (guint i = 0; i < arguments->n_parameters; i++)
    tps_named_tensor_clear (&arguments->parameters[i]);
  g_clear_pointer (&arguments->parameters, g_free);
  arguments->n_parameters = 0;
}

/* ---- update_and_fetch_model ----------------------------------------------------------------- */

static const TpsField update_model_arguments[] = {
  { "trainer", 1, TPS_FIELD_REQUIRED, &tps_kind_i32, NULL,
    G_STRUCT_OFFSET (TpsUpdateModelArguments, trainer) },
  { "gradients", 2, TPS_FIELD_REQUIRED, &tps_kind_list, &tps_tensors,
    G_STRUCT_OFFSET (TpsUpdateModelArguments, gradients) },
  { "push", 3, TPS_FIELD_OPTIONAL, &tps_kind_struct, &tps_push_id_struct,
    G_STRUCT_OFFSET (TpsUpdateModelArguments, push) },
  { "version", 4, TPS_FIELD_DEFAULT, &tps_kind_i64, NULL,
    G_STRUCT_OFFSET (TpsUpdateModelArguments, version) },
  { NULL },
};

const TpsRpc tps_update_and_fetch_model_rpc = { SERVICE, "update_and_fetch_model",
                                                update_model_arguments, &model_result };

void
tps_update_model_arguments_clear (TpsUpdateModelArguments *arguments)
{
  tps_tensor_list_clear (&arguments->gradients);
  tps_push_id_clear (&arguments->push);
}
