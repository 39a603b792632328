/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/cpu/kernels/group.h"
#include "runtime/device/cpu/kernels/rows.h"
#include "runtime/device/cpu/kernels/tree_sum.h"

gsize
tps_cpu_coalesce_rows (TpsDType dtype, const gint64 *indices, gconstpointer values, gsize n_rows,
                       gsize dim, gint64 *unique_indices, gpointer sums)
{
  TpsDType sum_dtype = tps_cpu_sum_dtype (dtype);
  gsize row_bytes = dim * tps_dtype_size (dtype);
  gsize sum_bytes = dim * tps_dtype_size (sum_dtype);
  g_autoptr (TpsCpuGroups) groups = NULL;
  g_autoptr (TpsBuffer) levels = NULL;

  if (n_rows == 0)
    return 0;
  /* Ascending ids are distinct, so there is nothing to add up. */
  if (tps_cpu_ids_are_ascending (indices, n_rows))
    {
      memcpy (unique_indices, indices, n_rows * sizeof indices[0]);
      tps_cpu_cast (sum_dtype, sums, dtype, values, n_rows * dim);
      return n_rows;
    }
  groups = tps_cpu_groups_new (indices, n_rows);
  levels = tps_buffer_new (tps_tree_sum_levels (n_rows) * sum_bytes);
  for (gsize u = 0; u < groups->n_groups; u++)
    {
      guint8 *sum = (guint8 *) sums + u * sum_bytes;
      TpsTreeSum tree;

      unique_indices[u] = groups->ids[u];
      tps_tree_sum_init (&tree, sum_dtype, dim, sum, tps_buffer_get_data (levels), sum_bytes);
      for (gsize i = groups->starts[u]; i < groups->starts[u + 1]; i++)
        {
          const guint8 *row = (const guint8 *) values + groups->order[i] * row_bytes;

          if (tps_tree_sum_next (&tree))
            tps_cpu_cast (sum_dtype, sum, dtype, row, dim);
          else
            tps_cpu_accumulate (dtype, sum, row, dim);
        }
      tps_tree_sum_finish (&tree);
    }
  return groups->n_groups;
}
