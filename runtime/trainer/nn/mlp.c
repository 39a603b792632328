/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/mlp.h"

#include "runtime/trainer/dense/dense.h"

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

void
tps_mlp_init (TpsMlp *mlp, const gchar *prefix, const gsize *widths, guint n_layers,
              gboolean ends_linear, TpsParameter *parameters)
{
  g_assert (n_layers >= 1 && n_layers <= TPS_MLP_MAX_LAYERS);
  *mlp = (TpsMlp) { .n_layers = n_layers, .ends_linear = ends_linear, .parameters = parameters };
  for (guint i = 0; i <= n_layers; i++)
    mlp->widths[i] = widths[i];
  for (guint i = 0; i < n_layers; i++)
    init_layer (mlp, prefix, i);
}

void
tps_mlp_init_parameters (const TpsMlp *mlp, gint64 seed, guint64 stream)
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

void
tps_mlp_forward (const TpsMlp *mlp, TpsStream *stream, const gfloat *input, gsize rows)
{
  for (guint i = 0; i < mlp->n_layers; i++)
    {
      tps_linear_forward (&mlp->layers[i], stream, input_of (mlp, i, input), mlp->outputs[i], rows);
      if (has_relu (mlp, i))
        tps_dense_ops (stream)->relu (stream, mlp->outputs[i], mlp->outputs[i],
                                      rows * mlp->widths[i + 1]);
    }
}

const gfloat *
tps_mlp_get_output (const TpsMlp *mlp)
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

void
tps_mlp_backward_inputs (const TpsMlp *mlp, TpsStream *stream, const gfloat *output_gradient,
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

void
tps_mlp_backward_parameters (const TpsMlp *mlp, TpsStream *stream, const gfloat *input,
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
