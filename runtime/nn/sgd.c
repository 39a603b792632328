/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/nn/sgd.h"

#include <math.h>

#include "runtime/error.h"

struct TpsSgd
{
  TpsStream *stream;
  TpsSgdFactors factors;
  guint n_parameters;
  TpsTensor
      *velocities; /* [n_parameters], filled at a parameter's first step, and only with momentum */
};

static gboolean
check_factor (const gchar *name, gdouble factor, GError **error)
{
  if (isfinite (factor) && factor >= 0)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "SGD: %s: %g, a finite number from 0 up is expected", name, factor);
  return FALSE;
}

TpsSgd *
tps_sgd_new (TpsDevice *device, const TpsSgdFactors *factors, guint n_parameters, GError **error)
{
  TpsStream *stream;
  TpsSgd *sgd;

  if (!check_factor ("learning_rate", factors->learning_rate, error)
      || !check_factor ("momentum", factors->momentum, error)
      || !check_factor ("weight_decay", factors->weight_decay, error))
    return NULL;
  if (device == NULL && (device = tps_device_find ("cpu", error)) == NULL)
    return NULL;
  stream = device->ops->stream_new (device, error);
  if (stream == NULL)
    return NULL;
  sgd = g_new0 (TpsSgd, 1);
  sgd->stream = stream;
  sgd->factors = *factors;
  sgd->n_parameters = n_parameters;
  sgd->velocities = g_new0 (TpsTensor, n_parameters);
  return sgd;
}

void
tps_sgd_free (TpsSgd *sgd)
{
  for (guint i = 0; i < sgd->n_parameters; i++)
    tps_tensor_clear (&sgd->velocities[i]);
  sgd->stream->device->ops->stream_free (sgd->stream);
  g_free (sgd->velocities);
  g_free (sgd);
}

/* NULL without momentum. */
static gfloat *
get_velocity (TpsSgd *sgd, guint index, const TpsParameter *parameter)
{
  TpsTensor *velocity = &sgd->velocities[index];

  g_assert (index < sgd->n_parameters);
  if (sgd->factors.momentum == 0)
    return NULL;
  if (tps_tensor_is_empty (velocity))
    tps_tensor_init_zeroed (velocity, &parameter->shape);
  return tps_tensor_data (velocity);
}

void
tps_sgd_step (TpsSgd *sgd, guint index, TpsParameter *parameter, const gfloat *gradient)
{
  sgd->stream->device->ops->sgd (sgd->stream, &sgd->factors, parameter->value, gradient,
                                 get_velocity (sgd, index, parameter),
                                 (gsize) tps_shape_n_elems (&parameter->shape));
}

void
tps_sgd_step_rows (TpsSgd *sgd, guint index, TpsParameter *parameter, const TpsGradient *gradient)
{
  g_assert (gradient->kind == TPS_GRADIENT_SPARSE
            && gradient->values.shape.dtype == TPS_DTYPE_FLOAT32
            && gradient->values.shape.dims[1] == parameter->shape.dims[1]);
  sgd->stream->device->ops->sgd_rows (
      sgd->stream, &sgd->factors, parameter->value, tps_tensor_data (&gradient->indices),
      tps_tensor_data (&gradient->values), get_velocity (sgd, index, parameter),
      (gsize) gradient->indices.shape.dims[0], (gsize) gradient->values.shape.dims[1]);
}
