/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_model.h"

/* ---- lists ---------------------------------------------------------------------------------- */

/* Reads a list of structs into a new array of `elem_size`. It grows with what is read: a struct of the wire may be a byte,
 * ours are not. What was read before a failure is in the array too. */
static gboolean
read_structs (TpsReader *in, const TpsFieldPath *path, gsize elem_size, TpsFieldRead read,
              GArray *elems, GError **error)
{
  guint32 n_elems;

  if (!tps_field_list_begin (in, path, TPS_WIRE_STRUCT, &n_elems, error))
    return FALSE;
  for (guint32 i = 0; i < n_elems; i++)
    {
      TpsFieldPath at = { .parent = path, .index = i };

      g_array_set_size (elems, i + 1);
      if (!read (in, &at, elems->data + i * elem_size, error))
        return FALSE;
    }
  return TRUE;
}

static const TpsFieldSpec named_tensor_fields[] = {
  { "name", 1, TPS_WIRE_BINARY, .required = TRUE, .offset = G_STRUCT_OFFSET (TpsNamedTensor, name),
    .read = tps_field_read_name },
  { "tensor", 2, TPS_WIRE_STRUCT, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsNamedTensor, tensor), .read = tps_field_read_tensor },
  { NULL },
};

static gboolean
read_named_tensor (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  return tps_fields_read (in, path, named_tensor_fields, target, NULL, error);
}

static void
clear_parameters (TpsNamedTensor **parameters, guint *n_parameters)
{
  for (guint i = 0; i < *n_parameters; i++)
    tps_named_tensor_clear (&(*parameters)[i]);
  g_clear_pointer (parameters, g_free);
  *n_parameters = 0;
}

/* What was there before is released. */
static gboolean
read_named_tensors (TpsReader *in, const TpsFieldPath *path, TpsNamedTensor **parameters,
                    guint *n_parameters, GError **error)
{
  GArray *elems = g_array_new (FALSE, TRUE, sizeof (TpsNamedTensor));
  gboolean ok = read_structs (in, path, sizeof (TpsNamedTensor), read_named_tensor, elems, error);

  clear_parameters (parameters, n_parameters);
  *n_parameters = elems->len;
  *parameters = (TpsNamedTensor *) (gpointer) g_array_free (elems, FALSE);
  return ok;
}

static void
encode_named_tensors (TpsWriter *out, const TpsNamedTensor *parameters, guint n_parameters)
{
  tps_writer_list_begin (out, TPS_WIRE_STRUCT, n_parameters);
  for (guint i = 0; i < n_parameters; i++)
    {
      tps_writer_struct_begin (out);
      tps_writer_field (out, 1, TPS_WIRE_BINARY);
      tps_writer_string (out, parameters[i].name);
      tps_writer_field (out, 2, TPS_WIRE_STRUCT);
      tps_tensor_encode (out, &parameters[i].tensor);
      tps_writer_struct_end (out);
    }
}

/* ---- init_model ----------------------------------------------------------------------------- */

static gboolean
read_init_parameters (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsInitModelArguments *arguments = target;

  return read_named_tensors (in, path, &arguments->parameters, &arguments->n_parameters, error);
}

static gboolean
read_optimizer (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  return tps_optimizer_spec_decode (in, path, target, error);
}

static const TpsFieldSpec init_model_fields[] = {
  { "parameters", 1, TPS_WIRE_LIST, .required = TRUE, .read = read_init_parameters },
  { "optimizer", 2, TPS_WIRE_STRUCT, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsInitModelArguments, optimizer), .read = read_optimizer },
  { NULL },
};

gboolean
tps_init_model_arguments_decode (TpsReader *in, TpsInitModelArguments *arguments, GError **error)
{
  return tps_fields_read (in, NULL, init_model_fields, arguments, NULL, error);
}

void
tps_init_model_arguments_encode (TpsWriter *out, gconstpointer data)
{
  const TpsInitModelArguments *arguments = data;

  tps_writer_field (out, 1, TPS_WIRE_LIST);
  encode_named_tensors (out, arguments->parameters, arguments->n_parameters);
  tps_writer_field (out, 2, TPS_WIRE_STRUCT);
  tps_optimizer_spec_encode (out, &arguments->optimizer);
}

void
tps_init_model_arguments_clear (TpsInitModelArguments *arguments)
{
  clear_parameters (&arguments->parameters, &arguments->n_parameters);
}

/* ---- update_and_fetch_model ----------------------------------------------------------------- */

static void
clear_gradients (TpsUpdateModelArguments *arguments)
{
  for (guint i = 0; i < arguments->n_gradients; i++)
    tps_tensor_clear (&arguments->gradients[i]);
  g_clear_pointer (&arguments->gradients, g_free);
  arguments->n_gradients = 0;
}

static gboolean
read_gradients (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsUpdateModelArguments *arguments = target;
  GArray *elems = g_array_new (FALSE, TRUE, sizeof (TpsTensor));
  gboolean ok = read_structs (in, path, sizeof (TpsTensor), tps_field_read_tensor, elems, error);

  clear_gradients (arguments);
  arguments->n_gradients = elems->len;
  arguments->gradients = (TpsTensor *) (gpointer) g_array_free (elems, FALSE);
  return ok;
}

static gboolean
read_push (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  return tps_push_id_decode (in, path, target, error);
}

static const TpsFieldSpec update_model_fields[] = {
  { "trainer", 1, TPS_WIRE_I32, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsUpdateModelArguments, trainer) },
  { "gradients", 2, TPS_WIRE_LIST, .required = TRUE, .read = read_gradients },
  { "push", 3, TPS_WIRE_STRUCT, .offset = G_STRUCT_OFFSET (TpsUpdateModelArguments, push),
    .read = read_push },
  { "version", 4, TPS_WIRE_I64, .offset = G_STRUCT_OFFSET (TpsUpdateModelArguments, version) },
  { NULL },
};

gboolean
tps_update_model_arguments_decode (TpsReader *in, TpsUpdateModelArguments *arguments,
                                   GError **error)
{
  return tps_fields_read (in, NULL, update_model_fields, arguments, NULL, error);
}

void
tps_update_model_arguments_encode (TpsWriter *out, gconstpointer data)
{
  const TpsUpdateModelArguments *arguments = data;

  tps_writer_field (out, 1, TPS_WIRE_I32);
  tps_writer_i32 (out, arguments->trainer);
  tps_writer_field (out, 2, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_STRUCT, arguments->n_gradients);
  for (guint i = 0; i < arguments->n_gradients; i++)
    tps_tensor_encode (out, &arguments->gradients[i]);
  if (arguments->push.client != NULL)
    {
      tps_writer_field (out, 3, TPS_WIRE_STRUCT);
      tps_push_id_encode (out, &arguments->push);
    }
  tps_writer_field (out, 4, TPS_WIRE_I64);
  tps_writer_i64 (out, arguments->version);
}

void
tps_update_model_arguments_clear (TpsUpdateModelArguments *arguments)
{
  clear_gradients (arguments);
  tps_push_id_clear (&arguments->push);
}

/* ---- Model ---------------------------------------------------------------------------------- */

void
tps_model_result_encode (TpsWriter *out, gconstpointer data)
{
  const TpsModelVersion *model = data;

  tps_writer_field (out, 0, TPS_WIRE_STRUCT);
  tps_writer_struct_begin (out);
  tps_writer_field (out, 1, TPS_WIRE_I64);
  tps_writer_i64 (out, model->version);
  tps_writer_field (out, 2, TPS_WIRE_LIST);
  encode_named_tensors (out, model->parameters, model->n_parameters);
  tps_writer_struct_end (out);
}

static gboolean
read_model_parameters (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsModelVersion *model = target;

  return read_named_tensors (in, path, &model->parameters, &model->n_parameters, error);
}

static const TpsFieldSpec model_fields[] = {
  { "version", 1, TPS_WIRE_I64, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsModelVersion, version) },
  { "parameters", 2, TPS_WIRE_LIST, .required = TRUE, .read = read_model_parameters },
  { NULL },
};

gboolean
tps_model_result_decode (TpsReader *in, TpsWireType type, gpointer target, GError **error)
{
  TpsFieldPath path = { .name = "model" };
  g_autoptr (TpsModelVersion) model = tps_model_version_new (0, 0);

  if (!tps_field_check_type (&path, type, TPS_WIRE_STRUCT, error)
      || !tps_fields_read (in, &path, model_fields, model, NULL, error))
    return FALSE;
  *(TpsModelVersion **) target = g_steal_pointer (&model);
  return TRUE;
}
