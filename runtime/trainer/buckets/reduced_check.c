/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/buckets/reduced_check.h"

#include "runtime/base/error.h"

static gboolean
fits (const TpsBucketCall *call, const TpsGradient *reduced)
{
  if (reduced->kind == TPS_GRADIENT_NONE)
    return TRUE;
  if (reduced->kind != call->travels_as)
    return FALSE;
  if (reduced->kind == TPS_GRADIENT_DENSE)
    return reduced->dense.shape.dtype == call->dtype
           && tps_shape_n_elems (&reduced->dense.shape) == (gint64) call->n_elems;
  return tps_gradient_check (reduced, NULL) && reduced->rows == call->rows
         && reduced->values.shape.dtype == call->dtype
         && reduced->values.shape.dims[1] == call->dim;
}

gboolean
tps_reduced_check (const TpsBucketCall *call, const TpsGradient *reduced, GError **error)
{
  g_autofree gchar *got = NULL;

  if (fits (call, reduced))
    return TRUE;
  got = tps_gradient_to_string (reduced);
  if (call->travels_as == TPS_GRADIENT_SPARSE)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                 "bucket %u: the average is %s, expected valid rows of sparse %s [%" G_GINT64_FORMAT
                 ", %" G_GINT64_FORMAT "]",
                 call->index, got, tps_dtype_name (call->dtype), call->rows, call->dim);
  else
    g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                 "bucket %u: the average is %s, expected dense %s [%" G_GSIZE_FORMAT "]",
                 call->index, got, tps_dtype_name (call->dtype), call->n_elems);
  return FALSE;
}
