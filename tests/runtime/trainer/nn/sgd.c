/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/trainer/nn/sgd.h"

#include <math.h>

#include "runtime/base/error.h"
#include "runtime/trainer/dense/dense.h"

struct TpsSgd
{
  TpsStream *stream;
  TpsSgdFactors factors;
  guint n_parameters;
  TpsBuffer *
      *velocities; /* [n_parameters]; with momentum, created at the first step of the parameter */
};

static gboolean
check_factor (const gchar *name, gdouble factor, GError **error)
{
  if (isfinite (factor) && factor >= 0)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "SGD: %s: %g, expected a finite number from 0 up", name, factor);
  return FALSE;
}

TpsSgd *
tps_sgd_new (TpsStream *stream, const TpsSgdFactors *factors, guint n_parameters, GError **error)
{
  TpsSgd *sgd;

  if (!check_factor ("learning_rate", factors->learning_rate, error)
      || !check_factor ("momentum", factors->momentum, error)
      || !check_factor ("weight_decay", factors->weight_decay, error))
    return NULL;
  sgd = g_new0 (TpsSgd, 1);
  sgd->stream = stream;
  sgd->factors = *factors;
  sgd->n_parameters = n_parameters;
  sgd->velocities = g_new0 (TpsBuffer *, n_parameters);
  return sgd;
}

void
tps_sgd_free (TpsSgd *sgd)
{
  sgd->stream->device->ops->stream_sync (sgd->stream, NULL);
  for (guint i = 0; i < sgd->n_parameters; i++)
    g_clear_pointer (&sgd->velocities[i], tps_buffer_unref);
  g_free (sgd->velocities);
  g_free (sgd);
}

/* Provides the velocity of a parameter. Without momentum, `velocity` receives NULL. */
static gboolean
get_velocity (TpsSgd *sgd, guint index, const TpsParameter *parameter, gfloat **velocity,
              GError **error)
{
  const TpsDeviceOps *ops = sgd->stream->device->ops;
  gsize n_bytes = tps_shape_n_bytes (&parameter->shape);
  TpsBuffer **buffer = &sgd->velocities[index];

  g_assert (index < sgd->n_parameters);
  *velocity = NULL;
  if (sgd->factors.momentum == 0)
    return TRUE;
  if (*buffer == NULL)
    {
      *buffer = ops->alloc (sgd->stream->device, n_bytes, error);
      if (*buffer == NULL)
        return FALSE;
      ops->zero (sgd->stream, tps_buffer_get_data (*buffer), n_bytes);
    }
  *velocity = (gfloat *) (gpointer) tps_buffer_get_data (*buffer);
  return TRUE;
}

gboolean
tps_sgd_step (TpsSgd *sgd, guint index, TpsParameter *parameter, const gfloat *gradient,
              GError **error)
{
  gfloat *velocity;

  if (!get_velocity (sgd, index, parameter, &velocity, error))
    return FALSE;
  tps_dense_ops (sgd->stream)
      ->sgd (sgd->stream, &sgd->factors, parameter->value, gradient, velocity,
             (gsize) tps_shape_n_elems (&parameter->shape));
  return TRUE;
}

gboolean
tps_sgd_step_rows (TpsSgd *sgd, guint index, TpsParameter *parameter, const TpsGradient *gradient,
                   GError **error)
{
  gfloat *velocity;

  g_assert (gradient->kind == TPS_GRADIENT_SPARSE
            && gradient->values.shape.dtype == TPS_DTYPE_FLOAT32
            && gradient->values.shape.dims[1] == parameter->shape.dims[1]);
  if (!get_velocity (sgd, index, parameter, &velocity, error))
    return FALSE;
  tps_dense_ops (sgd->stream)
      ->sgd_rows (sgd->stream, &sgd->factors, parameter->value,
                  tps_tensor_data (&gradient->indices), tps_tensor_data (&gradient->values),
                  velocity, (gsize) gradient->indices.shape.dims[0],
                  (gsize) gradient->values.shape.dims[1]);
  return TRUE;
}
