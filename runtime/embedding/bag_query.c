/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/embedding/table_spec.h"

#include "runtime/base/error.h"

static gboolean
check_vector (TpsTensorView view, TpsDType dtype, const gchar *what, const gchar *field,
              GError **error)
{
  g_autofree gchar *got = NULL;

  if (view.shape.dtype == dtype && view.shape.n_dims == 1
      && (view.data != NULL || view.shape.dims[0] == 0))
    return TRUE;
  if (view.shape.dtype == 0 || view.data == NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.%s: missing, expected a vector of %s",
                     what, field, tps_dtype_name (dtype));
  got = tps_shape_to_string (&view.shape);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.%s: %s, expected a vector of %s", what,
                   field, got, tps_dtype_name (dtype));
}

/* Reports the first invalid offset. At least one offset must be invalid. */
static gboolean
fail_at_offset (const gint64 *offsets, gint64 n_bags, gint64 n_indices, const gchar *what,
                GError **error)
{
  gint64 bag = 0;

  while (bag < n_bags && offsets[bag] >= (bag > 0 ? offsets[bag - 1] : 0)
         && offsets[bag] <= (bag > 0 ? n_indices : 0))
    bag++;
  if (bag == 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s.offsets[0]: %" G_GINT64_FORMAT ", expected 0", what, offsets[0]);
  if (offsets[bag] < offsets[bag - 1])
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s.offsets[%" G_GINT64_FORMAT "]: %" G_GINT64_FORMAT
                     " after %" G_GINT64_FORMAT " does not ascend",
                     what, bag, offsets[bag], offsets[bag - 1]);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "%s.offsets[%" G_GINT64_FORMAT "]: %" G_GINT64_FORMAT
                   " is above the number of indices, %" G_GINT64_FORMAT,
                   what, bag, offsets[bag], n_indices);
}

static gboolean
check_offsets (const TpsBagQuery *query, const gchar *what, GError **error)
{
  const gint64 *offsets = query->offsets.data;
  gint64 n_bags = query->offsets.shape.dims[0];
  gint64 n_indices = query->indices.shape.dims[0];
  gboolean is_ascending = TRUE;

  if (n_bags == 0)
    {
      if (n_indices == 0)
        return TRUE;
      return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                       "%s.offsets: empty, but there are %" G_GINT64_FORMAT " indices", what,
                       n_indices);
    }
  for (gint64 bag = 1; bag < n_bags; bag++)
    is_ascending &= offsets[bag - 1] <= offsets[bag];
  if (is_ascending && offsets[0] == 0 && offsets[n_bags - 1] <= n_indices)
    return TRUE;
  return fail_at_offset (offsets, n_bags, n_indices, what, error);
}

static gboolean
check_weights (const TpsBagQuery *query, const gchar *what, GError **error)
{
  if (query->weights.shape.dtype == 0)
    return TRUE;
  if (query->pooling != TPS_POOLING_SUM)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s.weights: only SUM takes weights, the pooling is %s", what,
                     query->pooling == TPS_POOLING_MEAN ? "MEAN" : "MAX");
  if (!check_vector (query->weights, TPS_DTYPE_FLOAT32, what, "weights", error))
    return FALSE;
  if (query->weights.shape.dims[0] != query->indices.shape.dims[0])
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s.weights: %" G_GINT64_FORMAT " weights for %" G_GINT64_FORMAT " indices",
                     what, query->weights.shape.dims[0], query->indices.shape.dims[0]);
  return TRUE;
}

gboolean
tps_bag_query_check (const TpsBagQuery *query, const gchar *what, GError **error)
{
  if (query->table == NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.table: missing", what);
  if ((gint) query->pooling < TPS_POOLING_SUM || (gint) query->pooling > TPS_POOLING_MAX)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.pooling: unknown pooling %d", what,
                     (gint) query->pooling);
  return check_vector (query->indices, TPS_DTYPE_INT64, what, "indices", error)
         && check_vector (query->offsets, TPS_DTYPE_INT64, what, "offsets", error)
         && check_offsets (query, what, error) && check_weights (query, what, error);
}
