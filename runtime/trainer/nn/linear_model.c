/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/linear_model.h"

#include "runtime/base/config.h"
#include "runtime/base/error.h"
#include "runtime/trainer/nn/activations.h"
#include "runtime/trainer/nn/linear.h"

#define MAX_FEATURES (1 << 20)

typedef struct
{
  TpsModel model; /* must be the first member */
  TpsParameter parameters[2];
  TpsLinear layer;

  /* Results of the last forward pass. */
  TpsActivations activations;
  gfloat *output;      /* [rows, out_features] */
  TpsTensorView input; /* borrowed */
} LinearModel;

static void
linear_model_free (TpsModel *model)
{
  LinearModel *self = (LinearModel *) model;

  tps_model_clear (model); /* must come first: it waits for queued work on the memory below */
  tps_activations_clear (&self->activations);
  for (guint i = 0; i < G_N_ELEMENTS (self->parameters); i++)
    g_free (self->parameters[i].name);
  g_free (self);
}

static void
init_layer (LinearModel *self, gint64 in_features, gint64 out_features)
{
  self->parameters[0].name = g_strdup ("weight");
  self->parameters[0].shape = (TpsShape) {
    .dtype = TPS_DTYPE_FLOAT32,
    .n_dims = 2,
    .dims = { out_features, in_features },
  };
  self->parameters[1].name = g_strdup ("bias");
  self->parameters[1].shape = (TpsShape) {
    .dtype = TPS_DTYPE_FLOAT32,
    .n_dims = 1,
    .dims = { out_features },
  };
  self->layer = (TpsLinear) {
    .n_in = (gsize) in_features,
    .n_out = (gsize) out_features,
    .weight = &self->parameters[0],
    .bias = &self->parameters[1],
  };
}

static TpsModel *
linear_model_create (GVariant *values, TpsDevice *device, GError **error)
{
  gint64 in_features, out_features;
  TpsConfig config;
  LinearModel *self;

  tps_config_init (&config, values, "model LinearModel", error);
  if (!tps_config_get_int (&config, "in_features", 1, MAX_FEATURES, &in_features)
      || !tps_config_get_int (&config, "out_features", 1, MAX_FEATURES, &out_features)
      || !tps_config_finish (&config))
    return NULL;
  self = g_new0 (LinearModel, 1);
  self->model.n_parameters = G_N_ELEMENTS (self->parameters);
  self->model.parameters = self->parameters;
  init_layer (self, in_features, out_features);
  if (tps_model_init (&self->model, &tps_linear_model_class, device, error))
    return &self->model;
  linear_model_free (&self->model);
  return NULL;
}

static void
linear_model_init_parameters (TpsModel *model, gint64 seed)
{
  tps_linear_init_parameters (&((LinearModel *) model)->layer, seed, 0);
}

/* Checks the input or the target of a batch. `n_rows` 0 allows any number of rows. */
static gboolean
check_side (const gchar *what, const TpsTensor *tensor, gsize n_columns, gint64 n_rows,
            GError **error)
{
  const TpsShape *shape = &tensor->shape;
  g_autofree gchar *text = NULL;

  if (shape->dtype == TPS_DTYPE_FLOAT32 && shape->n_dims == 2 && (gsize) shape->dims[1] == n_columns
      && shape->dims[0] >= 1 && (n_rows == 0 || shape->dims[0] == n_rows))
    return TRUE;
  text = tps_shape_to_string (shape);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "%s is %s, expected FLOAT32 [batch, %" G_GSIZE_FORMAT "]", what, text,
                   n_columns);
}

static gboolean
linear_model_check_batch (TpsModel *model, const TpsTrainBatch *batch, GError **error)
{
  const TpsLinear *layer = &((LinearModel *) model)->layer;

  return check_side ("input", &batch->input, layer->n_in, 0, error)
         && check_side ("target", &batch->target, layer->n_out, batch->input.shape.dims[0], error);
}

static gboolean
linear_model_forward (TpsModel *model, TpsTensorView input, TpsTensorView *output, GError **error)
{
  LinearModel *self = (LinearModel *) model;
  gint64 n_rows = input.shape.dims[0];

  if (!tps_activations_reserve (&self->activations, model->stream, (gsize) n_rows,
                                &self->layer.n_out, 1, &self->output, error))
    return FALSE;
  self->input = input;
  tps_linear_forward (&self->layer, model->stream, input.data, self->output, (gsize) n_rows);
  *output = (TpsTensorView) {
    .shape = { .dtype = TPS_DTYPE_FLOAT32,
               .n_dims = 2,
               .dims = { n_rows, (gint64) self->layer.n_out } },
    .data = self->output,
  };
  return TRUE;
}

static void
linear_model_backward (TpsModel *model, const gfloat *output_gradient, TpsGradientReady ready,
                       gpointer user_data)
{
  LinearModel *self = (LinearModel *) model;
  gsize n_rows = (gsize) self->input.shape.dims[0];

  tps_linear_backward_bias (&self->layer, self->model.stream, output_gradient, n_rows);
  ready (user_data, 1);
  tps_linear_backward_weight (&self->layer, self->model.stream, self->input.data, output_gradient,
                              n_rows);
  ready (user_data, 0);
}

const TpsModelClass tps_linear_model_class = {
  .name = "LinearModel",
  .create = linear_model_create,
  .free = linear_model_free,
  .init_parameters = linear_model_init_parameters,
  .check_batch = linear_model_check_batch,
  .forward = linear_model_forward,
  .backward = linear_model_backward,
};
