/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/tables/maxima.h"

#include <string.h>

/* -- forward -- */

/* Finds the maxima of rows [begin, end). */
static void
find_in_bag (const gint64 *ids, const gfloat *rows, gsize begin, gsize end, gsize dim,
             gfloat *largest, gint64 *maxima)
{
  for (gsize d = 0; d < dim; d++)
    {
      largest[d] = begin < end ? rows[begin * dim + d] : 0;
      maxima[d] = begin < end ? ids[begin] : -1;
    }
  for (gsize i = begin + 1; i < end; i++)
    for (gsize d = 0; d < dim; d++)
      {
        gfloat value = rows[i * dim + d];

        if (value > largest[d] || (value != value && largest[d] == largest[d]))
          {
            largest[d] = value;
            maxima[d] = ids[i];
          }
      }
}

void
tps_maxima_find (const TpsBagQuery *query, TpsTensorView rows, TpsTensor *output, TpsTensor *maxima)
{
  const gint64 *offsets = query->offsets.data;
  gint64 n_bags = query->offsets.shape.dims[0];
  gsize dim = (gsize) rows.shape.dims[1];
  gfloat *largest;
  gint64 *winners;

  tps_tensor_init_2d (output, TPS_DTYPE_FLOAT32, n_bags, (gint64) dim);
  tps_tensor_init_2d (maxima, TPS_DTYPE_INT64, n_bags, (gint64) dim);
  largest = tps_tensor_data (output);
  winners = tps_tensor_data (maxima);
  for (gsize bag = 0; bag < (gsize) n_bags; bag++, largest += dim, winners += dim)
    {
      gsize begin = (gsize) offsets[bag];
      gsize end = (gsize) (bag + 1 < (gsize) n_bags ? offsets[bag + 1]
                                                    : query->indices.shape.dims[0]);

      find_in_bag (query->indices.data, rows.data, begin, end, dim, largest, winners);
    }
}

/* -- backward -- */

/* Numbers the rows that hold maxima, in the order of the cells, and writes their ids to `indices`
 * and the number of each cell's row to `rows`. Returns the number of rows. */
static gsize
number_rows (const gint64 *maxima, gsize n_cells, gint64 *indices, gsize *rows)
{
  g_autoptr (GHashTable) numbers = g_hash_table_new (g_int64_hash, g_int64_equal);
  gsize n_rows = 0;

  for (gsize cell = 0; cell < n_cells; cell++)
    {
      gpointer number; /* from 1 */

      if (maxima[cell] < 0)
        continue;
      number = g_hash_table_lookup (numbers, &maxima[cell]);
      if (number == NULL)
        {
          indices[n_rows++] = maxima[cell];
          number = GSIZE_TO_POINTER (n_rows);
          g_hash_table_insert (numbers, (gpointer) (gsize) &maxima[cell], number);
        }
      rows[cell] = GPOINTER_TO_SIZE (number) - 1;
    }
  return n_rows;
}

void
tps_max_gradient_init (TpsMaxGradient *expanded, const TpsBagGradient *pooled, TpsTensorView maxima)
{
  gsize dim = (gsize) maxima.shape.dims[1];
  gsize n_cells = (gsize) maxima.shape.dims[0] * dim;
  const gfloat *gradient = pooled->gradient.data;
  const gint64 *winners = maxima.data;
  g_autofree gsize *rows = g_new (gsize, n_cells);
  g_autofree gint64 *indices = g_new (gint64, n_cells);
  gsize n_rows = number_rows (winners, n_cells, indices, rows);
  TpsShape shape = { .dtype = TPS_DTYPE_FLOAT32,
                     .n_dims = 2,
                     .dims = { (gint64) n_rows, (gint64) dim } };
  gint64 *offsets;
  gfloat *values;

  *expanded = (TpsMaxGradient) { 0 };
  tps_tensor_init_1d (&expanded->indices, TPS_DTYPE_INT64, (gint64) n_rows);
  tps_tensor_init_1d (&expanded->offsets, TPS_DTYPE_INT64, (gint64) n_rows);
  tps_tensor_init_zeroed (&expanded->values, &shape);
  offsets = tps_tensor_data (&expanded->offsets);
  values = tps_tensor_data (&expanded->values);
  if (n_rows > 0)
    memcpy (tps_tensor_data (&expanded->indices), indices, n_rows * sizeof indices[0]);
  for (gsize i = 0; i < n_rows; i++)
    offsets[i] = (gint64) i;
  for (gsize cell = 0; cell < n_cells; cell++)
    if (winners[cell] >= 0)
      values[rows[cell] * dim + cell % dim] += gradient[cell];
  expanded->gradient.query = (TpsBagQuery) {
    .table = pooled->query.table,
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
