/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/dummy_model.h"

#include "runtime/base/config.h"
#include "runtime/base/error.h"
#include "runtime/trainer/nn/activations.h"
#include "runtime/trainer/nn/embedding_bag.h"
#include "runtime/trainer/nn/linear.h"
#include "runtime/trainer/dense/dense.h"

#define MAX_SIZE G_MAXINT32 /* the largest dimension that gemm accepts */
#define MAX_LAYERS 4096

typedef struct
{
  gint64 num_embeddings;
  gint64 embedding_dim;
  gint64 dense_input_size;
  gint64 dense_output_size;
  gint64 dense_layers_count;
  gboolean sparse;
} DummyConfig;

typedef struct
{
  TpsModel model;
  DummyConfig config;
  TpsEmbeddingBag embedding;
  TpsLinear *layers; /* [dense_layers_count] */

  /* Memory of both passes. All arrays are [batch, width]. arrays[0] is the pooled embedding, and
   * arrays[i + 1] the output of layers[i]. For the remaining arrays, see get_output() and
   * get_gradient(). */
  TpsActivations activations;
  guint n_arrays;
  gsize *widths;       /* [n_arrays] */
  gfloat **arrays;     /* [n_arrays] */
  TpsTensorView input; /* borrowed */
} DummyModel;

/* Returns the output of the model, whose array follows the outputs of the layers. */
static gfloat *
get_output (const DummyModel *self)
{
  return self->arrays[self->n_arrays - 3];
}

/* Returns one of the two arrays that hold, alternately, the gradients of the input and of the
 * output of the current layer. */
static gfloat *
get_gradient (const DummyModel *self, guint which)
{
  return self->arrays[self->n_arrays - 2 + which];
}

/* -- creation -- */

static gboolean
read_config (GVariant *values, DummyConfig *config, GError **error)
{
  TpsConfig reader;

  tps_config_init (&reader, values, "model DummyModel", error);
  return tps_config_get_int (&reader, "num_embeddings", 1, MAX_SIZE, &config->num_embeddings)
         && tps_config_get_int (&reader, "embedding_dim", 1, MAX_SIZE, &config->embedding_dim)
         && tps_config_get_int (&reader, "dense_input_size", 1, MAX_SIZE, &config->dense_input_size)
         && tps_config_get_int (&reader, "dense_output_size", 1, MAX_SIZE,
                                &config->dense_output_size)
         && tps_config_get_int (&reader, "dense_layers_count", 1, MAX_LAYERS,
                                &config->dense_layers_count)
         && tps_config_get_bool (&reader, "sparse", &config->sparse) && tps_config_finish (&reader);
}

static gboolean
check_config (const DummyConfig *config, GError **error)
{
  if (config->embedding_dim != config->dense_input_size)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "model DummyModel: embedding_dim %" G_GINT64_FORMAT
                     " must be equal to dense_input_size %" G_GINT64_FORMAT,
                     config->embedding_dim, config->dense_input_size);
  if (config->dense_layers_count > 1 && config->dense_input_size != config->dense_output_size)
    return tps_fail (
        error, TPS_ERROR_INVALID_ARGUMENT,
        "model DummyModel: with %" G_GINT64_FORMAT " layers dense_input_size %" G_GINT64_FORMAT
        " must be equal to dense_output_size %" G_GINT64_FORMAT,
        config->dense_layers_count, config->dense_input_size, config->dense_output_size);
  return TRUE;
}

/* Takes over `name`. */
static gboolean
init_parameter (TpsParameter *parameter, gchar *name, guint n_dims, const gint64 *dims,
                GError **error)
{
  parameter->name = name;
  return tps_shape_init (&parameter->shape, TPS_DTYPE_FLOAT32, n_dims, dims, name, error);
}

static gboolean
init_layer (DummyModel *self, guint i, GError **error)
{
  const DummyConfig *config = &self->config;
  const gint64 dims[] = { config->dense_output_size, config->dense_input_size };
  TpsParameter *weight = &self->model.parameters[1 + 2 * i];

  self->layers[i] = (TpsLinear) {
    .n_in = (gsize) config->dense_input_size,
    .n_out = (gsize) config->dense_output_size,
    .weight = weight,
    .bias = weight + 1,
  };
  return init_parameter (weight, g_strdup_printf ("dense.%u.weight", i), 2, dims, error)
         && init_parameter (weight + 1, g_strdup_printf ("dense.%u.bias", i), 1, dims, error);
}

static gboolean
init_layers (DummyModel *self, GError **error)
{
  const DummyConfig *config = &self->config;
  const gint64 dims[] = { config->num_embeddings, config->embedding_dim };
  guint n_layers = (guint) config->dense_layers_count;
  TpsParameter *parameters = g_new0 (TpsParameter, 1 + 2 * n_layers);

  self->model.parameters = parameters;
  self->model.n_parameters = 1 + 2 * n_layers;
  self->layers = g_new0 (TpsLinear, n_layers);
  self->embedding = (TpsEmbeddingBag) {
    .rows = config->num_embeddings,
    .dim = config->embedding_dim,
    .pooling = TPS_POOLING_MEAN,
    .table = parameters,
  };
  parameters[0].is_sparse = config->sparse;
  if (!init_parameter (&parameters[0], g_strdup ("embedding.weight"), 2, dims, error))
    return FALSE;
  for (guint i = 0; i < n_layers; i++)
    if (!init_layer (self, i, error))
      return FALSE;
  return TRUE;
}

/* Sets the widths of all arrays: the pooled embedding, the outputs of the layers, the output of the
 * model, and two gradients. */
static void
init_arrays (DummyModel *self)
{
  const DummyConfig *config = &self->config;
  guint n_layers = (guint) config->dense_layers_count;
  gsize n_in = (gsize) config->dense_input_size, n_out = (gsize) config->dense_output_size;

  self->n_arrays = n_layers + 4;
  self->arrays = g_new0 (gfloat *, self->n_arrays);
  self->widths = g_new (gsize, self->n_arrays);
  self->widths[0] = n_in;
  for (guint i = 1; i <= n_layers + 1; i++)
    self->widths[i] = n_out;
  for (guint i = n_layers + 2; i < self->n_arrays; i++)
    self->widths[i] = MAX (n_in, n_out);
}

static void
dummy_model_free (TpsModel *model)
{
  DummyModel *self = (DummyModel *) model;

  tps_model_clear (model); /* must come first: it waits for queued work on the memory below */
  tps_activations_clear (&self->activations);
  tps_embedding_bag_clear (&self->embedding);
  for (guint i = 0; i < model->n_parameters; i++)
    g_free (model->parameters[i].name);
  g_free (model->parameters);
  g_free (self->layers);
  g_free (self->widths);
  g_free (self->arrays);
  g_free (self);
}

static TpsModel *
dummy_model_create (GVariant *values, TpsDevice *device, GError **error)
{
  DummyConfig config;
  DummyModel *self;

  if (!read_config (values, &config, error) || !check_config (&config, error))
    return NULL;
  self = g_new0 (DummyModel, 1);
  self->config = config;
  init_arrays (self);
  if (!init_layers (self, error)
      || !tps_model_init (&self->model, &tps_dummy_model_class, device, error))
    {
      dummy_model_free (&self->model);
      return NULL;
    }
  return &self->model;
}

static void
dummy_model_init_parameters (TpsModel *model, gint64 seed)
{
  DummyModel *self = (DummyModel *) model;

  tps_embedding_bag_init_parameters (&self->embedding, seed, 0);
  for (guint i = 0; i < self->config.dense_layers_count; i++)
    tps_linear_init_parameters (&self->layers[i], seed, 1 + 2 * i);
}

/* -- checks of a batch -- */

static gboolean
check_shapes (const TpsTrainBatch *batch, GError **error)
{
  const TpsShape *input = &batch->input.shape;
  const TpsShape *target = &batch->target.shape;
  g_autofree gchar *input_text = tps_shape_to_string (input);
  g_autofree gchar *target_text = tps_shape_to_string (target);

  if (input->dtype != TPS_DTYPE_INT64 || input->n_dims != 2 || input->dims[0] == 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "batch: input is %s, expected INT64 [batch, length] with at least one sample",
                     input_text);
  if (target->dtype != TPS_DTYPE_INT64 || target->n_dims != 1 || target->dims[0] != input->dims[0])
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "batch: target is %s, expected INT64 [%" G_GINT64_FORMAT "]", target_text,
                     input->dims[0]);
  return TRUE;
}

static gboolean
check_range (const TpsTensor *tensor, gint64 bound, const gchar *what, const gchar *bound_name,
             GError **error)
{
  const gint64 *values = tps_tensor_data (tensor);
  gint64 n = tps_shape_n_elems (&tensor->shape);

  for (gint64 i = 0; i < n; i++)
    if (values[i] < 0 || values[i] >= bound)
      return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                       "batch: %s %" G_GINT64_FORMAT " is %" G_GINT64_FORMAT
                       ", outside [0, %s = %" G_GINT64_FORMAT ")",
                       what, i, values[i], bound_name, bound);
  return TRUE;
}

static gboolean
dummy_model_check_batch (TpsModel *model, const TpsTrainBatch *batch, GError **error)
{
  const DummyConfig *config = &((DummyModel *) model)->config;

  return check_shapes (batch, error)
         && check_range (&batch->input, config->num_embeddings, "input element", "num_embeddings",
                         error)
         && check_range (&batch->target, config->dense_output_size, "target element",
                         "dense_output_size", error);
}

/* -- forward and backward -- */

/* Reserves the memory of both passes. */
static gboolean
reserve (DummyModel *self, TpsTensorView input, GError **error)
{
  return tps_activations_reserve (&self->activations, self->model.stream,
                                  (gsize) input.shape.dims[0], self->widths, self->n_arrays,
                                  self->arrays, error)
         && tps_embedding_bag_reserve (&self->embedding, self->model.stream, input, error);
}

static gboolean
dummy_model_forward (TpsModel *model, TpsTensorView input, TpsTensorView *output, GError **error)
{
  DummyModel *self = (DummyModel *) model;
  gsize batch = (gsize) input.shape.dims[0];
  guint n_layers = (guint) self->config.dense_layers_count;

  if (!reserve (self, input, error))
    return FALSE;
  self->input = input;
  tps_embedding_bag_forward (&self->embedding, model->stream, input, self->arrays[0]);
  for (guint i = 0; i < n_layers; i++)
    tps_linear_forward (&self->layers[i], model->stream, self->arrays[i], self->arrays[i + 1],
                        batch);
  tps_dense_ops (model->stream)
      ->softmax (model->stream, get_output (self), self->arrays[n_layers], batch,
                 (gsize) self->config.dense_output_size);
  *output = (TpsTensorView) {
    .shape = { .dtype = TPS_DTYPE_FLOAT32,
               .n_dims = 2,
               .dims = { (gint64) batch, self->config.dense_output_size } },
    .data = get_output (self),
  };
  return TRUE;
}

/* Computes the gradients of a layer. Returns the gradient of its input. */
static gfloat *
backward_layer (DummyModel *self, guint i, gfloat *output_gradient, TpsGradientReady ready,
                gpointer user_data)
{
  const TpsLinear *layer = &self->layers[i];
  TpsStream *stream = self->model.stream;
  gsize batch = (gsize) self->input.shape.dims[0];
  gfloat *input_gradient = get_gradient (self, output_gradient == get_gradient (self, 0) ? 1 : 0);

  tps_linear_backward_bias (layer, stream, output_gradient, batch);
  ready (user_data, 2 + 2 * i);
  tps_linear_backward_weight (layer, stream, self->arrays[i], output_gradient, batch);
  ready (user_data, 1 + 2 * i);
  tps_linear_backward_input (layer, stream, output_gradient, input_gradient, batch);
  return input_gradient;
}

static void
dummy_model_backward (TpsModel *model, const gfloat *output_gradient, TpsGradientReady ready,
                      gpointer user_data)
{
  DummyModel *self = (DummyModel *) model;
  gfloat *gradient = get_gradient (self, 0);

  tps_dense_ops (model->stream)
      ->softmax_backward (model->stream, gradient, output_gradient, get_output (self),
                          (gsize) self->input.shape.dims[0],
                          (gsize) self->config.dense_output_size);
  for (guint i = (guint) self->config.dense_layers_count; i > 0; i--)
    gradient = backward_layer (self, i - 1, gradient, ready, user_data);
  tps_embedding_bag_backward (&self->embedding, model->stream, self->input, gradient);
  ready (user_data, 0);
}

const TpsModelClass tps_dummy_model_class = {
  .name = "DummyModel",
  .create = dummy_model_create,
  .free = dummy_model_free,
  .init_parameters = dummy_model_init_parameters,
  .check_batch = dummy_model_check_batch,
  .forward = dummy_model_forward,
  .backward = dummy_model_backward,
};
