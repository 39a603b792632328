/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/dlrm_model.h"

#include <math.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/device/backend.h"
#include "runtime/trainer/dense/dense.h"
#include "runtime/trainer/nn/activations.h"
#include "runtime/trainer/nn/linear.h"

/* -- dot interaction -- */

/* The dot interaction of DLRM: the dot products of all pairs of vectors of a sample. The arithmetic
 * is that of the "dot" interaction of Naumov et al., Deep Learning Recommendation Model for
 * Personalization and Recommendation Systems, 2019, without the products of a vector with itself.
 *
 * The arrays must be in host memory, because the CPU gathers the triangle of the products. */

/* The numbers of vectors of a sample and of floats of a vector. */
typedef struct
{
  gsize n_vectors, dim;
} TpsDotInteraction;

/* Returns the width of the output: dim + n_vectors * (n_vectors - 1) / 2. */
static gsize
dot_interaction_get_width (const TpsDotInteraction *interaction)
{
  return interaction->dim + interaction->n_vectors * (interaction->n_vectors - 1) / 2;
}

static void
gather_triangle (const gfloat *products, gsize n, gfloat *pairs)
{
  for (gsize i = 1; i < n; i++)
    {
      memcpy (pairs, products + i * n, i * sizeof *pairs);
      pairs += i;
    }
}

/* For each sample, writes the first vector and then, for i = 1, 2, …, the products of vector i with
 * all vectors j < i. `features` is [rows, n_vectors, dim], `scratch` [n_vectors, n_vectors], and
 * `output` [rows, width]. The stream must belong to the CPU. */
static void
dot_interaction_forward (const TpsDotInteraction *interaction, TpsStream *stream,
                         const gfloat *features, gfloat *scratch, gfloat *output, gsize rows)
{
  gsize n = interaction->n_vectors, dim = interaction->dim;
  gsize width = dot_interaction_get_width (interaction);
  TpsGemm gemm = { .transpose_b = TRUE, .m = n, .n = n, .k = dim, .alpha = 1, .c = scratch };

  g_assert (stream->device->is_host);
  for (gsize row = 0; row < rows; row++)
    {
      gemm.a = gemm.b = features + row * n * dim;
      tps_dense_ops (stream)->gemm (stream, &gemm);
      memcpy (output + row * width, gemm.a, dim * sizeof *output);
      gather_triangle (scratch, n, output + row * width + dim);
    }
}

/* Fills a symmetric matrix with a diagonal of 0 from its lower triangle. The matrix is symmetric,
 * because the product of vectors i and j depends on both vectors in the same way. */
static void
spread_triangle (const gfloat *pairs, gsize n, gfloat *matrix)
{
  for (gsize i = 0; i < n; i++)
    {
      matrix[i * n + i] = 0;
      for (gsize j = 0; j < i; j++)
        matrix[i * n + j] = matrix[j * n + i] = *pairs++;
    }
}

/* Computes `feature_gradient` [rows, n_vectors, dim] from the features and the gradient of the
 * output [rows, width]. `scratch` and the stream are as above. */
static void
dot_interaction_backward (const TpsDotInteraction *interaction, TpsStream *stream,
                          const gfloat *features, const gfloat *output_gradient, gfloat *scratch,
                          gfloat *feature_gradient, gsize rows)
{
  gsize n = interaction->n_vectors, dim = interaction->dim;
  gsize width = dot_interaction_get_width (interaction);
  TpsGemm gemm = { .m = n, .n = dim, .k = n, .alpha = 1, .a = scratch };

  g_assert (stream->device->is_host);
  for (gsize row = 0; row < rows; row++)
    {
      const gfloat *gradient = output_gradient + row * width;

      spread_triangle (gradient + dim, n, scratch);
      gemm.b = features + row * n * dim;
      gemm.c = feature_gradient + row * n * dim;
      tps_dense_ops (stream)->gemm (stream, &gemm);
      stream->device->ops->accumulate (stream, TPS_DTYPE_FLOAT32, gemm.c, gradient, dim);
    }
}

/* -- dlrm model -- */

/* -- mlp -- */

/* A stack of fully connected layers, each followed by a ReLU. If `ends_linear`, no ReLU follows the
 * last layer. The passes only enqueue work on a stream. */

#define TPS_MLP_MAX_LAYERS 4

/* Borrows its parameters and its arrays. `parameters` [2 * n_layers] are the weight and the bias of
 * each layer. The owner of the model must bind `outputs[i]` [rows, widths[i + 1]], the output of
 * layer i after its ReLU, and `gradients[i]` [rows, widths[i]], the gradient of the input of layer
 * i (for i > 0, before the ReLU that precedes the layer). */
typedef struct
{
  guint n_layers;
  gsize widths[TPS_MLP_MAX_LAYERS + 1];
  gboolean ends_linear;
  TpsParameter *parameters;
  TpsLinear layers[TPS_MLP_MAX_LAYERS];
  gfloat *outputs[TPS_MLP_MAX_LAYERS];
  gfloat *gradients[TPS_MLP_MAX_LAYERS];
} TpsMlp;

static void
init_layer (TpsMlp *mlp, const gchar *prefix, guint i)
{
  TpsParameter *weight = &mlp->parameters[2 * i];
  TpsParameter *bias = weight + 1;
  gint64 n_in = (gint64) mlp->widths[i], n_out = (gint64) mlp->widths[i + 1];

  weight->name = g_strdup_printf ("%s.%u.weight", prefix, i);
  weight->shape = (TpsShape) {
    .dtype = TPS_DTYPE_FLOAT32,
    .n_dims = 2,
    .dims = { n_out, n_in },
  };
  bias->name = g_strdup_printf ("%s.%u.bias", prefix, i);
  bias->shape = (TpsShape) {
    .dtype = TPS_DTYPE_FLOAT32,
    .n_dims = 1,
    .dims = { n_out },
  };
  mlp->layers[i] = (TpsLinear) {
    .n_in = mlp->widths[i],
    .n_out = mlp->widths[i + 1],
    .weight = weight,
    .bias = bias,
  };
}

/* Initialises the stack with `n_layers` layers of the given widths, and names its parameters
 * PREFIX.0.weight, PREFIX.0.bias, PREFIX.1.weight, … The names are owned by the parameters. */
static void
mlp_init (TpsMlp *mlp, const gchar *prefix, const gsize *widths, guint n_layers,
          gboolean ends_linear, TpsParameter *parameters)
{
  g_assert (n_layers >= 1 && n_layers <= TPS_MLP_MAX_LAYERS);
  *mlp = (TpsMlp) { .n_layers = n_layers, .ends_linear = ends_linear, .parameters = parameters };
  for (guint i = 0; i <= n_layers; i++)
    mlp->widths[i] = widths[i];
  for (guint i = 0; i < n_layers; i++)
    init_layer (mlp, prefix, i);
}

/* Fills the parameters as tps_linear_init_parameters() does, with the 2 * n_layers streams of the
 * generator that begin at number `stream`. */
static void
mlp_init_parameters (const TpsMlp *mlp, gint64 seed, guint64 stream)
{
  for (guint i = 0; i < mlp->n_layers; i++)
    tps_linear_init_parameters (&mlp->layers[i], seed, stream + 2 * i);
}

static gboolean
has_relu (const TpsMlp *mlp, guint i)
{
  return i + 1 < mlp->n_layers || !mlp->ends_linear;
}

static const gfloat *
input_of (const TpsMlp *mlp, guint i, const gfloat *input)
{
  return i == 0 ? input : mlp->outputs[i - 1];
}

/* Computes all outputs from input [rows, widths[0]]. */
static void
mlp_forward (const TpsMlp *mlp, TpsStream *stream, const gfloat *input, gsize rows)
{
  for (guint i = 0; i < mlp->n_layers; i++)
    {
      tps_linear_forward (&mlp->layers[i], stream, input_of (mlp, i, input), mlp->outputs[i], rows);
      if (has_relu (mlp, i))
        tps_dense_ops (stream)->relu (stream, mlp->outputs[i], mlp->outputs[i],
                                      rows * mlp->widths[i + 1]);
    }
}

/* Returns the output of the last forward pass, [rows, widths[n_layers]]. */
static const gfloat *
mlp_get_output (const TpsMlp *mlp)
{
  return mlp->outputs[mlp->n_layers - 1];
}

/* Returns the gradient of a layer's output before its ReLU. For all layers but the last, this is
 * the gradient of the next layer's input after relu_backward(). */
static const gfloat *
output_gradient_of (const TpsMlp *mlp, guint i, const gfloat *last)
{
  return i + 1 == mlp->n_layers ? last : mlp->gradients[i + 1];
}

/* Computes gradients[i] for all layers i from the last one down to `first`. `output_gradient`
 * [rows, widths[n_layers]] must be the gradient of the last layer's output before its ReLU, if
 * any. */
static void
mlp_backward_inputs (const TpsMlp *mlp, TpsStream *stream, const gfloat *output_gradient,
                     gsize rows, guint first)
{
  for (guint i = mlp->n_layers; i-- > first;)
    {
      gfloat *gradient = mlp->gradients[i];

      tps_linear_backward_input (&mlp->layers[i], stream,
                                 output_gradient_of (mlp, i, output_gradient), gradient, rows);
      if (i > 0)
        tps_dense_ops (stream)->relu_backward (stream, gradient, gradient, mlp->outputs[i - 1],
                                               rows * mlp->widths[i]);
    }
}

/* Computes the gradients of all parameters, the last layer first. Must follow
 * mlp_backward_inputs() with a `first` of at most 1. Calls `ready` for parameter number
 * first_number + i when the computation of the gradient of parameters[i] has been enqueued. */
static void
mlp_backward_parameters (const TpsMlp *mlp, TpsStream *stream, const gfloat *input,
                         const gfloat *output_gradient, gsize rows, guint first_number,
                         TpsGradientReady ready, gpointer user_data)
{
  for (guint i = mlp->n_layers; i-- > 0;)
    {
      const gfloat *gradient = output_gradient_of (mlp, i, output_gradient);

      tps_linear_backward_bias (&mlp->layers[i], stream, gradient, rows);
      ready (user_data, first_number + 2 * i + 1);
      tps_linear_backward_weight (&mlp->layers[i], stream, input_of (mlp, i, input), gradient,
                                  rows);
      ready (user_data, first_number + 2 * i);
    }
}

/* -- dlrm model -- */

#define MAX_ARRAYS (4 * TPS_MLP_MAX_LAYERS + 4)

static const TpsModelClass dlrm_model_class;

typedef struct
{
  TpsModel model; /* must be the first member */
  TpsParameter parameters[4 * TPS_MLP_MAX_LAYERS];
  TpsMlp bottom, top;
  TpsDotInteraction interaction;
  TpsDlrmWatch watch;

  /* Memory of both passes. */
  TpsActivations activations;
  gfloat *arrays[MAX_ARRAYS];
  gfloat *features, *feature_gradient; /* [rows, n_vectors, dim] */
  gfloat *pairs;                       /* the output of the interaction, [rows, width] */
  gfloat *bottom_gradient;             /* of the output of the bottom MLP, [rows, dim] */
  gfloat *scratch;                     /* [n_vectors, n_vectors] */
  gsize rows;
  TpsTensorView input; /* borrowed */
} DlrmModel;

/* -- creation -- */

static void
dlrm_model_free (TpsModel *model)
{
  DlrmModel *self = (DlrmModel *) model;

  tps_model_clear (model); /* must come first: it waits for queued work on the memory below */
  tps_activations_clear (&self->activations);
  for (guint i = 0; i < model->n_parameters; i++)
    g_free (model->parameters[i].name);
  g_free (self->scratch);
  g_free (self);
}

/* Writes the widths between the layers of a stack. Returns the number of layers. */
static guint
list_widths (gsize first, const gsize *hidden, gsize last, gsize *widths)
{
  guint n = 0;

  widths[n++] = first;
  while (n <= TPS_DLRM_MAX_HIDDEN && hidden[n - 1] > 0)
    {
      widths[n] = hidden[n - 1];
      n++;
    }
  widths[n] = last;
  return n;
}

static gboolean
check_shape (const TpsDlrmShape *shape, GError **error)
{
  if (shape->n_dense > 0 && shape->n_tables > 0 && shape->dim > 0)
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "DLRM model: %" G_GSIZE_FORMAT " dense features and %" G_GSIZE_FORMAT
                   " tables of dimension %" G_GSIZE_FORMAT ", expected 1 or more of each",
                   shape->n_dense, shape->n_tables, shape->dim);
}

TpsModel *
tps_dlrm_model_new (const TpsDlrmShape *shape, GError **error)
{
  gsize widths[TPS_MLP_MAX_LAYERS + 1];
  DlrmModel *self;
  guint n_layers;

  if (!check_shape (shape, error))
    return NULL;
  self = g_new0 (DlrmModel, 1);
  self->interaction = (TpsDotInteraction) { .n_vectors = shape->n_tables + 1, .dim = shape->dim };
  n_layers = list_widths (shape->n_dense, shape->bottom, shape->dim, widths);
  mlp_init (&self->bottom, "bottom", widths, n_layers, FALSE, self->parameters);
  self->model.parameters = self->parameters;
  self->model.n_parameters = 2 * n_layers;
  n_layers = list_widths (dot_interaction_get_width (&self->interaction), shape->top, 1, widths);
  mlp_init (&self->top, "top", widths, n_layers, TRUE, self->parameters + self->model.n_parameters);
  self->model.n_parameters += 2 * n_layers;
  self->scratch = g_new (gfloat, self->interaction.n_vectors * self->interaction.n_vectors);
  if (tps_model_init (&self->model, &dlrm_model_class, NULL, error))
    return &self->model;
  dlrm_model_free (&self->model);
  return NULL;
}

static void
dlrm_model_init_parameters (TpsModel *model, gint64 seed)
{
  DlrmModel *self = (DlrmModel *) model;

  mlp_init_parameters (&self->bottom, seed, 0);
  mlp_init_parameters (&self->top, seed, 2 * TPS_MLP_MAX_LAYERS);
}

void
tps_dlrm_model_watch (TpsModel *model, const TpsDlrmWatch *watch)
{
  g_assert (model->klass == &dlrm_model_class);
  ((DlrmModel *) model)->watch = *watch;
}

/* -- memory of the passes -- */

static guint
list_arrays (const TpsMlp *mlp, guint n, gsize *widths)
{
  for (guint i = 0; i < mlp->n_layers; i++)
    {
      widths[n++] = mlp->widths[i + 1];
      widths[n++] = mlp->widths[i];
    }
  return n;
}

static gfloat **
bind_arrays (TpsMlp *mlp, gfloat **arrays)
{
  for (guint i = 0; i < mlp->n_layers; i++)
    {
      mlp->outputs[i] = *arrays++;
      mlp->gradients[i] = *arrays++;
    }
  return arrays;
}

gboolean
tps_dlrm_model_reserve (TpsModel *model, gsize rows, gfloat **features, GError **error)
{
  DlrmModel *self = (DlrmModel *) model;
  gsize n_floats = self->interaction.n_vectors * self->interaction.dim;
  gsize widths[MAX_ARRAYS];
  guint n = list_arrays (&self->top, list_arrays (&self->bottom, 0, widths), widths);
  gfloat **arrays;

  widths[n++] = n_floats;
  widths[n++] = n_floats;
  widths[n++] = self->top.widths[0];
  widths[n++] = self->interaction.dim;
  if (!tps_activations_reserve (&self->activations, model->stream, rows, widths, n, self->arrays,
                                error))
    return FALSE;
  arrays = bind_arrays (&self->top, bind_arrays (&self->bottom, self->arrays));
  self->features = arrays[0];
  self->feature_gradient = arrays[1];
  self->pairs = arrays[2];
  self->bottom_gradient = arrays[3];
  self->rows = rows;
  *features = self->features;
  return TRUE;
}

/* -- passes -- */

static gboolean
dlrm_model_forward (TpsModel *model, TpsTensorView input, TpsTensorView *output, GError **error)
{
  DlrmModel *self = (DlrmModel *) model;
  gsize dim = self->interaction.dim, stride = self->interaction.n_vectors * dim;
  const gfloat *vectors;

  g_assert ((gsize) input.shape.dims[0] == self->rows);
  self->input = input;
  mlp_forward (&self->bottom, model->stream, input.data, self->rows);
  vectors = mlp_get_output (&self->bottom);
  for (gsize row = 0; row < self->rows; row++)
    memcpy (self->features + row * stride, vectors + row * dim, dim * sizeof *vectors);
  dot_interaction_forward (&self->interaction, model->stream, self->features, self->scratch,
                           self->pairs, self->rows);
  mlp_forward (&self->top, model->stream, self->pairs, self->rows);
  *output = (TpsTensorView) {
    .shape = { .dtype = TPS_DTYPE_FLOAT32, .n_dims = 2, .dims = { input.shape.dims[0], 1 } },
    .data = mlp_get_output (&self->top),
  };
  return TRUE;
}

static void
backward_features (DlrmModel *self, const gfloat *output_gradient)
{
  TpsStream *stream = self->model.stream;
  gsize dim = self->interaction.dim, stride = self->interaction.n_vectors * dim;

  mlp_backward_inputs (&self->top, stream, output_gradient, self->rows, 0);
  dot_interaction_backward (&self->interaction, stream, self->features, self->top.gradients[0],
                            self->scratch, self->feature_gradient, self->rows);
  if (self->watch.features_ready != NULL)
    self->watch.features_ready (self->watch.user_data, self->feature_gradient, self->rows);
  for (gsize row = 0; row < self->rows; row++)
    memcpy (self->bottom_gradient + row * dim, self->feature_gradient + row * stride,
            dim * sizeof *self->bottom_gradient);
  tps_dense_ops (stream)->relu_backward (stream, self->bottom_gradient, self->bottom_gradient,
                                         mlp_get_output (&self->bottom), self->rows * dim);
}

static void
dlrm_model_backward (TpsModel *model, const gfloat *output_gradient, TpsGradientReady ready,
                     gpointer user_data)
{
  DlrmModel *self = (DlrmModel *) model;

  backward_features (self, output_gradient);
  mlp_backward_parameters (&self->top, model->stream, self->pairs, output_gradient, self->rows,
                           2 * self->bottom.n_layers, ready, user_data);
  mlp_backward_inputs (&self->bottom, model->stream, self->bottom_gradient, self->rows, 1);
  mlp_backward_parameters (&self->bottom, model->stream, self->input.data, self->bottom_gradient,
                           self->rows, 0, ready, user_data);
  if (self->watch.passed != NULL)
    self->watch.passed (self->watch.user_data);
}

static const TpsModelClass dlrm_model_class = {
  .name = "DlrmModel",
  .free = dlrm_model_free,
  .init_parameters = dlrm_model_init_parameters,
  .forward = dlrm_model_forward,
  .backward = dlrm_model_backward,
};

gdouble
tps_binary_cross_entropy (const gfloat *logits, const gfloat *labels, gsize rows, gdouble divisor,
                          gfloat *gradient)
{
  gdouble sum = 0;

  for (gsize i = 0; i < rows; i++)
    {
      gdouble logit = (gdouble) logits[i], label = (gdouble) labels[i];
      gdouble smaller = exp (-fabs (logit)); /* in (0, 1], never overflows */
      gdouble probability = logit >= 0 ? 1 / (1 + smaller) : smaller / (1 + smaller);

      sum += fmax (logit, 0) - logit * label + log1p (smaller);
      gradient[i] = (gfloat) ((probability - label) / divisor);
    }
  return sum;
}
