/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/hybrid_model.h"

#include "runtime/base/config.h"
#include "runtime/base/error.h"
#include "runtime/trainer/nn/activations.h"
#include "runtime/trainer/nn/linear.h"
#include "runtime/trainer/dense/dense.h"

#define N_LAYERS 5
#define RELU_AFTER 1 /* the layer before the ReLU */

/* The widths between the layers, and the numbers of the layers in PyTorch's sequence, in which the
 * ReLU has number 2. */
static const gint64 widths[N_LAYERS + 1] = {
  TPS_HYBRID_MODEL_INPUTS, 256, 128, 64, 32, TPS_HYBRID_MODEL_OUTPUTS,
};
static const guint sequence_numbers[N_LAYERS] = { 0, 1, 3, 4, 5 };

typedef struct
{
  TpsModel model;
  TpsParameter parameters[2 * N_LAYERS]; /* weight and bias of each layer */
  TpsLinear layers[N_LAYERS];
  TpsInputGradientReady input_ready;
  gpointer user_data;

  /* Memory of both passes. The arrays are [rows, width]: first the outputs of the layers (after the
   * ReLU) and, from index N_LAYERS on, the gradients of the inputs of the layers. */
  TpsActivations activations;
  gfloat *arrays[2 * N_LAYERS];
  TpsTensorView input; /* borrowed */
} HybridModel;

/* -- creation -- */

static void
hybrid_model_free (TpsModel *model)
{
  HybridModel *self = (HybridModel *) model;

  tps_model_clear (model); /* must come first: it waits for queued work on the memory below */
  tps_activations_clear (&self->activations);
  for (guint i = 0; i < model->n_parameters; i++)
    g_free (model->parameters[i].name);
  g_free (self);
}

static void
init_layer (HybridModel *self, guint i)
{
  TpsParameter *weight = &self->parameters[2 * i];
  TpsParameter *bias = weight + 1;

  weight->name = g_strdup_printf ("%u.weight", sequence_numbers[i]);
  weight->shape = (TpsShape) {
    .dtype = TPS_DTYPE_FLOAT32,
    .n_dims = 2,
    .dims = { widths[i + 1], widths[i] },
  };
  bias->name = g_strdup_printf ("%u.bias", sequence_numbers[i]);
  bias->shape = (TpsShape) {
    .dtype = TPS_DTYPE_FLOAT32,
    .n_dims = 1,
    .dims = { widths[i + 1] },
  };
  self->layers[i] = (TpsLinear) {
    .n_in = (gsize) widths[i],
    .n_out = (gsize) widths[i + 1],
    .weight = weight,
    .bias = bias,
  };
}

static TpsModel *
hybrid_model_create (GVariant *values, TpsDevice *device, GError **error)
{
  TpsConfig config;
  HybridModel *self;

  tps_config_init (&config, values, "model HybridModel", error);
  if (!tps_config_finish (&config)) /* refuses any argument */
    return NULL;
  self = g_new0 (HybridModel, 1);
  self->model.n_parameters = G_N_ELEMENTS (self->parameters);
  self->model.parameters = self->parameters;
  for (guint i = 0; i < N_LAYERS; i++)
    init_layer (self, i);
  if (tps_model_init (&self->model, &tps_hybrid_model_class, device, error))
    return &self->model;
  hybrid_model_free (&self->model);
  return NULL;
}

static void
hybrid_model_init_parameters (TpsModel *model, gint64 seed)
{
  HybridModel *self = (HybridModel *) model;

  for (guint i = 0; i < N_LAYERS; i++)
    tps_linear_init_parameters (&self->layers[i], seed, 2 * i);
}

static gboolean
refuse_batch (const gchar *what, const TpsShape *shape, const gchar *expected, GError **error)
{
  g_autofree gchar *text = tps_shape_to_string (shape);

  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s is %s, expected %s", what, text,
                   expected);
}

static gboolean
hybrid_model_check_batch (TpsModel *model, const TpsTrainBatch *batch, GError **error)
{
  const TpsShape *input = &batch->input.shape;
  const TpsShape *target = &batch->target.shape;

  if (input->dtype != TPS_DTYPE_FLOAT32 || input->n_dims != 2
      || input->dims[1] != TPS_HYBRID_MODEL_INPUTS || input->dims[0] < 1)
    return refuse_batch ("input", input, "FLOAT32 [1 or more, 512]", error);
  if (target->dtype != TPS_DTYPE_INT64 || target->n_dims != 1 || target->dims[0] != input->dims[0])
    return refuse_batch ("target", target, "INT64, one for each row of the input", error);
  for (gint64 i = 0; i < target->dims[0]; i++)
    {
      gint64 class = ((const gint64 *) tps_tensor_data (&batch->target))[i];

      if (class >= 0 && class < TPS_HYBRID_MODEL_OUTPUTS)
        continue;
      return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                       "target[%" G_GINT64_FORMAT "]: %" G_GINT64_FORMAT " is not in [0, %d)", i,
                       class, TPS_HYBRID_MODEL_OUTPUTS);
    }
  return TRUE;
}

void
tps_hybrid_model_watch_input (TpsModel *model, TpsInputGradientReady ready, gpointer user_data)
{
  HybridModel *self = (HybridModel *) model;

  g_assert (model->klass == &tps_hybrid_model_class);
  self->input_ready = ready;
  self->user_data = user_data;
}

/* -- passes -- */

/* Reserves the memory of both passes. */
static gboolean
reserve (HybridModel *self, gsize rows, GError **error)
{
  gsize array_widths[2 * N_LAYERS];

  for (guint i = 0; i < N_LAYERS; i++)
    {
      array_widths[i] = (gsize) widths[i + 1];
      array_widths[N_LAYERS + i] = (gsize) widths[i];
    }
  return tps_activations_reserve (&self->activations, self->model.stream, rows, array_widths,
                                  G_N_ELEMENTS (array_widths), self->arrays, error);
}

/* Returns the input of a layer. */
static const gfloat *
input_of (const HybridModel *self, guint i)
{
  return i == 0 ? self->input.data : self->arrays[i - 1];
}

static gfloat *
input_gradient_of (const HybridModel *self, guint i)
{
  return self->arrays[N_LAYERS + i];
}

static gboolean
hybrid_model_forward (TpsModel *model, TpsTensorView input, TpsTensorView *output, GError **error)
{
  HybridModel *self = (HybridModel *) model;
  gsize rows = (gsize) input.shape.dims[0];

  if (!reserve (self, rows, error))
    return FALSE;
  self->input = input;
  for (guint i = 0; i < N_LAYERS; i++)
    {
      gfloat *values = self->arrays[i];

      tps_linear_forward (&self->layers[i], self->model.stream, input_of (self, i), values, rows);
      if (i == RELU_AFTER)
        tps_dense_ops (self->model.stream)
            ->relu (self->model.stream, values, values, rows * (gsize) widths[i + 1]);
    }
  *output = (TpsTensorView) {
    .shape = { .dtype = TPS_DTYPE_FLOAT32,
               .n_dims = 2,
               .dims = { input.shape.dims[0], TPS_HYBRID_MODEL_OUTPUTS } },
    .data = self->arrays[N_LAYERS - 1],
  };
  return TRUE;
}

/* Returns the gradient of a layer's output, which is the gradient of the next layer's input. */
static const gfloat *
output_gradient_of (const HybridModel *self, guint i, const gfloat *last)
{
  return i == N_LAYERS - 1 ? last : input_gradient_of (self, i + 1);
}

/* Computes the gradients of the inputs of all layers, from the last to the first. */
static void
backward_inputs (HybridModel *self, const gfloat *output_gradient, gsize rows)
{
  for (guint i = N_LAYERS; i-- > 0;)
    {
      gfloat *gradient = input_gradient_of (self, i);

      tps_linear_backward_input (&self->layers[i], self->model.stream,
                                 output_gradient_of (self, i, output_gradient), gradient, rows);
      if (i == RELU_AFTER + 1)
        tps_dense_ops (self->model.stream)
            ->relu_backward (self->model.stream, gradient, gradient, input_of (self, i),
                             rows * (gsize) widths[i]);
    }
}

static void
hybrid_model_backward (TpsModel *model, const gfloat *output_gradient, TpsGradientReady ready,
                       gpointer user_data)
{
  HybridModel *self = (HybridModel *) model;
  gsize rows = (gsize) self->input.shape.dims[0];

  /* The gradients of the inputs come first, so the receiver of the input's gradient can work while
   * the gradients of the parameters are computed. */
  backward_inputs (self, output_gradient, rows);
  if (self->input_ready != NULL)
    self->input_ready (self->user_data, input_gradient_of (self, 0), rows);
  for (guint i = N_LAYERS; i-- > 0;)
    {
      const gfloat *gradient = output_gradient_of (self, i, output_gradient);

      tps_linear_backward_bias (&self->layers[i], self->model.stream, gradient, rows);
      ready (user_data, 2 * i + 1);
      tps_linear_backward_weight (&self->layers[i], self->model.stream, input_of (self, i),
                                  gradient, rows);
      ready (user_data, 2 * i);
    }
}

const TpsModelClass tps_hybrid_model_class = {
  .name = "HybridModel",
  .create = hybrid_model_create,
  .free = hybrid_model_free,
  .init_parameters = hybrid_model_init_parameters,
  .check_batch = hybrid_model_check_batch,
  .forward = hybrid_model_forward,
  .backward = hybrid_model_backward,
};
