/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/tables/max_gradient.h"

#include "runtime/device/cpu/kernels/rows.h"

static gsize
n_cells_of (const TpsBagGradient *maxima, TpsTensorView rows)
{
  return (gsize) (maxima->query.offsets.shape.dims[0] * rows.shape.dims[1]);
}

/* Returns, for each cell [bags, dim], the table row that contains the maximum; -1 for empty
 * bags. */
static gint64 *
find_maxima (const TpsBagGradient *maxima, TpsTensorView rows)
{
  gsize n_indices = (gsize) rows.shape.dims[0];
  gsize n_cells = n_cells_of (maxima, rows);
  const gint64 *indices = maxima->query.indices.data;
  g_autofree gint64 *positions = g_new (gint64, n_indices);
  g_autofree gfloat *output = g_new (gfloat, n_cells);
  gint64 *argmax = g_new (gint64, n_cells);
  TpsBags bags = {
    .rows = (gint64) n_indices,
    .dim = rows.shape.dims[1],
    .indices = positions,
    .n_indices = n_indices,
    .offsets = maxima->query.offsets.data,
    .n_bags = (gsize) maxima->query.offsets.shape.dims[0],
    .pooling = TPS_POOLING_MAX,
  };

  for (gsize i = 0; i < n_indices; i++)
    positions[i] = (gint64) i;
  tps_cpu_embedding_pool (&bags, rows.data, output, argmax);
  for (gsize cell = 0; cell < n_cells; cell++)
    if (argmax[cell] >= 0)
      argmax[cell] = indices[argmax[cell]];
  return argmax;
}

/* Sums the gradients by table row. Returns the number of these rows, which fill the tensors from
 * the front. */
static gsize
collect (TpsMaxGradient *expanded, const TpsBagGradient *maxima, TpsTensorView rows,
         gint64 table_rows)
{
  gint64 n_indices = rows.shape.dims[0];
  gint64 capacity = MIN (n_indices, (gint64) n_cells_of (maxima, rows));
  g_autofree gint64 *argmax = find_maxima (maxima, rows);
  TpsBags bags = {
    .rows = table_rows,
    .dim = rows.shape.dims[1],
    .n_indices = (gsize) n_indices,
    .n_bags = (gsize) maxima->query.offsets.shape.dims[0],
    .pooling = TPS_POOLING_MAX,
  };

  tps_tensor_init_1d (&expanded->indices, TPS_DTYPE_INT64, capacity);
  tps_tensor_init_2d (&expanded->values, TPS_DTYPE_FLOAT32, capacity, bags.dim);
  return tps_cpu_embedding_backward_rows (&bags, maxima->gradient.data, argmax,
                                          tps_tensor_data (&expanded->indices),
                                          tps_tensor_data (&expanded->values));
}

void
tps_max_gradient_init (TpsMaxGradient *expanded, const TpsBagGradient *maxima, TpsTensorView rows,
                       gint64 table_rows)
{
  gsize n_rows;
  gint64 *offsets;

  *expanded = (TpsMaxGradient) { 0 };
  n_rows = collect (expanded, maxima, rows, table_rows);
  tps_tensor_init_1d (&expanded->offsets, TPS_DTYPE_INT64, (gint64) n_rows);
  offsets = tps_tensor_data (&expanded->offsets);
  for (gsize i = 0; i < n_rows; i++)
    offsets[i] = (gint64) i;
  expanded->gradient.query = (TpsBagQuery) {
    .table = maxima->query.table,
    .indices = tps_tensor_view (&expanded->indices),
    .offsets = tps_tensor_view (&expanded->offsets),
    .pooling = TPS_POOLING_SUM,
  };
  expanded->gradient.gradient = tps_tensor_view (&expanded->values);
  expanded->gradient.query.indices.shape.dims[0] = (gint64) n_rows;
  expanded->gradient.gradient.shape.dims[0] = (gint64) n_rows;
}

void
tps_max_gradient_clear (TpsMaxGradient *expanded)
{
  tps_tensor_clear (&expanded->indices);
  tps_tensor_clear (&expanded->offsets);
  tps_tensor_clear (&expanded->values);
}
