/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/tables/max_gradient.h"

#include "runtime/cpu/rows.h"

/* Which position of the indices each cell [bags, dim] of the maxima came from, -1 for empty bags. */
static gint64 *
find_winners (const TpsBagGradient *maxima, TpsTensorView rows)
{
  gsize n_bags = (gsize) maxima->query.offsets.shape.dims[0];
  gsize n_indices = (gsize) rows.shape.dims[0];
  gsize dim = (gsize) rows.shape.dims[1];
  g_autofree gint64 *positions = g_new (gint64, n_indices);
  g_autofree gfloat *output = g_new (gfloat, n_bags * dim);
  gint64 *winners = g_new (gint64, n_bags * dim);
  TpsBags bags = {
    .rows = (gint64) n_indices,
    .dim = (gint64) dim,
    .indices = positions,
    .n_indices = n_indices,
    .offsets = maxima->query.offsets.data,
    .n_bags = n_bags,
    .pooling = TPS_POOLING_MAX,
  };

  for (gsize i = 0; i < n_indices; i++)
    positions[i] = (gint64) i;
  tps_cpu_embedding_pool (&bags, rows.data, output, winners);
  return winners;
}

/* Numbers the positions that win anything, in the order of their bags: numbers [n_indices], -1 = none. Returns how
 * many there are. */
static gsize
number_winners (const gint64 *winners, gsize n_cells, gint64 *numbers, gsize n_indices)
{
  gsize n = 0;

  for (gsize i = 0; i < n_indices; i++)
    numbers[i] = -1;
  for (gsize cell = 0; cell < n_cells; cell++)
    if (winners[cell] >= 0 && numbers[winners[cell]] < 0)
      numbers[winners[cell]] = (gint64) n++;
  return n;
}

static void
init_tensors (TpsMaxGradient *expanded, gsize n, gsize dim)
{
  gint64 *offsets;

  tps_tensor_init_1d (&expanded->indices, TPS_DTYPE_INT64, (gint64) n);
  tps_tensor_init_1d (&expanded->offsets, TPS_DTYPE_INT64, (gint64) n);
  offsets = tps_tensor_data (&expanded->offsets);
  for (gsize i = 0; i < n; i++)
    offsets[i] = (gint64) i;
  expanded->values = (TpsTensor) { .shape = { .dtype = TPS_DTYPE_FLOAT32, .n_dims = 2 } };
  expanded->values.shape.dims[0] = (gint64) n;
  expanded->values.shape.dims[1] = (gint64) dim;
  tps_tensor_init_zeroed (&expanded->values, &expanded->values.shape);
}

void
tps_max_gradient_init (TpsMaxGradient *expanded, const TpsBagGradient *maxima, TpsTensorView rows)
{
  gsize n_indices = (gsize) rows.shape.dims[0];
  gsize dim = (gsize) rows.shape.dims[1];
  gsize n_cells = (gsize) maxima->query.offsets.shape.dims[0] * dim;
  const gint64 *indices = maxima->query.indices.data;
  const gfloat *from = maxima->gradient.data;
  g_autofree gint64 *winners = find_winners (maxima, rows);
  g_autofree gint64 *numbers = g_new (gint64, n_indices);
  gsize n = number_winners (winners, n_cells, numbers, n_indices);
  gint64 *ids;
  gfloat *to;

  *expanded = (TpsMaxGradient) { 0 };
  init_tensors (expanded, n, dim);
  ids = tps_tensor_data (&expanded->indices);
  to = tps_tensor_data (&expanded->values);
  for (gsize i = 0; i < n_indices; i++)
    if (numbers[i] >= 0)
      ids[numbers[i]] = indices[i];
  for (gsize cell = 0; cell < n_cells; cell++)
    if (winners[cell] >= 0)
      to[(gsize) numbers[winners[cell]] * dim + cell % dim] = from[cell];
  expanded->gradient.query = (TpsBagQuery) {
    .table = maxima->query.table,
    .indices = tps_tensor_view (&expanded->indices),
    .offsets = tps_tensor_view (&expanded->offsets),
    .pooling = TPS_POOLING_SUM,
  };
  expanded->gradient.gradient = tps_tensor_view (&expanded->values);
}

void
tps_max_gradient_clear (TpsMaxGradient *expanded)
{
  tps_tensor_clear (&expanded->indices);
  tps_tensor_clear (&expanded->offsets);
  tps_tensor_clear (&expanded->values);
}
