/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/tensor/gradient.h"

#include <float.h>
#include <string.h>

#include "runtime/base/error.h"

void
tps_gradient_clear (TpsGradient *gradient)
{
  tps_tensor_clear (&gradient->dense);
  tps_tensor_clear (&gradient->indices);
  tps_tensor_clear (&gradient->values);
  memset (gradient, 0, sizeof *gradient);
}

void
tps_gradient_move (TpsGradient *to, TpsGradient *from)
{
  TpsGradient moved = *from;

  memset (from, 0, sizeof *from);
  tps_gradient_clear (to);
  *to = moved;
}

void
tps_gradient_init_ref (TpsGradient *gradient, const TpsGradient *other)
{
  *gradient = *other;
  tps_tensor_init_ref (&gradient->dense, &other->dense);
  tps_tensor_init_ref (&gradient->indices, &other->indices);
  tps_tensor_init_ref (&gradient->values, &other->values);
}

static gboolean
check_floating (const TpsTensor *tensor, const gchar *what, GError **error)
{
  if (tps_tensor_is_empty (tensor))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s: missing", what);
  if (!tps_dtype_is_floating (tensor->shape.dtype))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s: dtype %s cannot be averaged, expected a floating-point dtype", what,
                     tps_dtype_name (tensor->shape.dtype));
  return TRUE;
}

static gboolean
check_index_range (const TpsGradient *gradient, GError **error)
{
  const gint64 *ids = tps_tensor_data (&gradient->indices);
  gint64 n_ids = gradient->indices.shape.dims[0];

  for (gint64 i = 0; i < n_ids; i++)
    if (G_UNLIKELY (ids[i] < 0 || ids[i] >= gradient->rows))
      return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                       "gradient.sparse.indices[%" G_GINT64_FORMAT "] is %" G_GINT64_FORMAT
                       ", expected 0 <= index < %" G_GINT64_FORMAT,
                       i, ids[i], gradient->rows);
  return TRUE;
}

static gboolean
check_sparse (const TpsGradient *gradient, GError **error)
{
  const TpsShape *indices = &gradient->indices.shape;
  const TpsShape *values = &gradient->values.shape;

  if (!check_floating (&gradient->values, "gradient.sparse.values", error))
    return FALSE;
  if (indices->dtype != TPS_DTYPE_INT64 || indices->n_dims != 1)
    {
      g_autofree gchar *got = tps_shape_to_string (indices);

      return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                       "gradient.sparse.indices is %s, expected INT64 [nnz]", got);
    }
  if (values->n_dims != 2 || values->dims[0] != indices->dims[0])
    {
      g_autofree gchar *got = tps_shape_to_string (values);

      return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                       "gradient.sparse.values is %s, expected [%" G_GINT64_FORMAT
                       ", dim]: a row for each index",
                       got, indices->dims[0]);
    }
  if (gradient->rows < 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "gradient.sparse.shape has %" G_GINT64_FORMAT " rows, expected >= 0",
                     gradient->rows);
  return check_index_range (gradient, error);
}

/* Kernels multiply by the weight as FLOAT32. A weight that overflows FLOAT32 would turn gradients
 * into infinities, and a weight that underflows would turn them into zeros. */
static gboolean
check_weight (gdouble weight, GError **error)
{
  if (weight == 0 || (weight >= FLT_MIN && weight <= FLT_MAX))
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "gradient.weight is %g, expected 0 or a FLOAT32 from %g to %g", weight,
                   (gdouble) FLT_MIN, (gdouble) FLT_MAX);
}

gboolean
tps_gradient_check (const TpsGradient *gradient, GError **error)
{
  if (!check_weight (gradient->weight, error))
    return FALSE;
  switch (gradient->kind)
    {
    case TPS_GRADIENT_DENSE:
      return check_floating (&gradient->dense, "gradient.dense", error);
    case TPS_GRADIENT_SPARSE:
      return check_sparse (gradient, error);
    case TPS_GRADIENT_NONE:
      break;
    }
  if (gradient->weight > 0)
    return tps_fail (
        error, TPS_ERROR_INVALID_ARGUMENT,
        "gradient has neither dense nor sparse data, which requires weight 0; its weight is %g",
        gradient->weight);
  return TRUE;
}

gchar *
tps_gradient_to_string (const TpsGradient *gradient)
{
  g_autofree gchar *dense = NULL;

  switch (gradient->kind)
    {
    case TPS_GRADIENT_DENSE:
      dense = tps_shape_to_string (&gradient->dense.shape);
      return g_strconcat ("dense ", dense, NULL);
    case TPS_GRADIENT_SPARSE:
      return g_strdup_printf ("sparse %s [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT "]",
                              tps_dtype_name (gradient->values.shape.dtype), gradient->rows,
                              gradient->values.shape.dims[1]);
    case TPS_GRADIENT_NONE:
      break;
    }
  return g_strdup ("no data");
}
