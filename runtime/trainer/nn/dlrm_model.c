/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/dlrm_model.h"

#include <math.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/trainer/nn/activations.h"
#include "runtime/trainer/nn/dot_interaction.h"
#include "runtime/trainer/nn/mlp.h"
#include "runtime/trainer/dense/dense.h"

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
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "DLRM model: %" G_GSIZE_FORMAT " dense features and %" G_GSIZE_FORMAT
               " tables of dimension %" G_GSIZE_FORMAT ", expected 1 or more of each",
               shape->n_dense, shape->n_tables, shape->dim);
  return FALSE;
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
  tps_mlp_init (&self->bottom, "bottom", widths, n_layers, FALSE, self->parameters);
  self->model.parameters = self->parameters;
  self->model.n_parameters = 2 * n_layers;
  n_layers = list_widths (tps_dot_interaction_get_width (&self->interaction), shape->top, 1,
                          widths);
  tps_mlp_init (&self->top, "top", widths, n_layers, TRUE,
                self->parameters + self->model.n_parameters);
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

  tps_mlp_init_parameters (&self->bottom, seed, 0);
  tps_mlp_init_parameters (&self->top, seed, 2 * TPS_MLP_MAX_LAYERS);
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
  tps_mlp_forward (&self->bottom, model->stream, input.data, self->rows);
  vectors = tps_mlp_get_output (&self->bottom);
  for (gsize row = 0; row < self->rows; row++)
    memcpy (self->features + row * stride, vectors + row * dim, dim * sizeof *vectors);
  tps_dot_interaction_forward (&self->interaction, model->stream, self->features, self->scratch,
                               self->pairs, self->rows);
  tps_mlp_forward (&self->top, model->stream, self->pairs, self->rows);
  *output = (TpsTensorView) {
    .shape = { .dtype = TPS_DTYPE_FLOAT32, .n_dims = 2, .dims = { input.shape.dims[0], 1 } },
    .data = tps_mlp_get_output (&self->top),
  };
  return TRUE;
}

static void
backward_features (DlrmModel *self, const gfloat *output_gradient)
{
  TpsStream *stream = self->model.stream;
  gsize dim = self->interaction.dim, stride = self->interaction.n_vectors * dim;

  tps_mlp_backward_inputs (&self->top, stream, output_gradient, self->rows, 0);
  tps_dot_interaction_backward (&self->interaction, stream, self->features, self->top.gradients[0],
                                self->scratch, self->feature_gradient, self->rows);
  if (self->watch.features_ready != NULL)
    self->watch.features_ready (self->watch.user_data, self->feature_gradient, self->rows);
  for (gsize row = 0; row < self->rows; row++)
    memcpy (self->bottom_gradient + row * dim, self->feature_gradient + row * stride,
            dim * sizeof *self->bottom_gradient);
  tps_dense_ops (stream)->relu_backward (stream, self->bottom_gradient, self->bottom_gradient,
                                         tps_mlp_get_output (&self->bottom), self->rows * dim);
}

static void
dlrm_model_backward (TpsModel *model, const gfloat *output_gradient, TpsGradientReady ready,
                     gpointer user_data)
{
  DlrmModel *self = (DlrmModel *) model;

  backward_features (self, output_gradient);
  tps_mlp_backward_parameters (&self->top, model->stream, self->pairs, output_gradient, self->rows,
                               2 * self->bottom.n_layers, ready, user_data);
  tps_mlp_backward_inputs (&self->bottom, model->stream, self->bottom_gradient, self->rows, 1);
  tps_mlp_backward_parameters (&self->bottom, model->stream, self->input.data,
                               self->bottom_gradient, self->rows, 0, ready, user_data);
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
