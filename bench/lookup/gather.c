/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/gather.h"

#include "runtime/device/cpu/kernels/vectorize.h"
#include "runtime/machine/tuning.h"

#define WIDE 64       /* number of columns whose sums stay in registers */
#define AHEAD_ROWS 48 /* distance of prefetches, in rows */
#define LINE 16       /* floats of a cache line */
/* floats; the distance of prefetches if the processor fetches lines in pairs */
#define PAIR_OF_LINES 32

TPS_INLINE void
prefetch_columns (const gfloat *columns, gsize n, gsize step)
{
  for (gsize i = 0; i < n; i += step)
    __builtin_prefetch (columns + i, 0, 2);
}

/* Adds `n_columns` columns of the rows `ids`; `columns` points to the first of them in row 0. In
 * gather_wide(), `n_columns` is a constant. */
TPS_INLINE void
add_all (gfloat *sums, const gfloat *columns, const gint64 *ids, gsize n, gsize dim,
         gsize n_columns, gsize step)
{
  for (gsize i = 0; i < n; i++)
    {
      const gfloat *row = columns + (gsize) ids[i] * dim;

      prefetch_columns (columns + (gsize) ids[MIN (i + AHEAD_ROWS, n - 1)] * dim, n_columns, step);
      for (gsize d = 0; d < n_columns; d++)
        sums[d] += row[d];
    }
}

/* Keeps the compiler from removing sums that nothing reads. */
TPS_INLINE void
keep (const gfloat *sums)
{
  __asm__ volatile("" : : "r"(sums) : "memory");
}

TPS_TARGET_CLONES static void
gather_wide (const gfloat *columns, const gint64 *ids, gsize n, gsize dim)
{
  gfloat sums[WIDE] = { 0 };

  if (tps_tuning_get ()->fetch_bytes >= PAIR_OF_LINES * sizeof columns[0])
    add_all (sums, columns, ids, n, dim, WIDE, PAIR_OF_LINES);
  else
    add_all (sums, columns, ids, n, dim, WIDE, LINE);
  keep (sums);
}

TPS_TARGET_CLONES static void
gather_rest (const gfloat *columns, const gint64 *ids, gsize n, gsize dim, gsize n_columns)
{
  gfloat sums[WIDE] = { 0 };

  if (tps_tuning_get ()->fetch_bytes >= PAIR_OF_LINES * sizeof columns[0])
    add_all (sums, columns, ids, n, dim, n_columns, PAIR_OF_LINES);
  else
    add_all (sums, columns, ids, n, dim, n_columns, LINE);
  keep (sums);
}

void
tps_lookup_gather (const gfloat *table, const gint64 *ids, gsize n, gsize dim)
{
  gsize first = 0;

  for (; first + WIDE <= dim; first += WIDE)
    gather_wide (table + first, ids, n, dim);
  if (first < dim)
    gather_rest (table + first, ids, n, dim, dim - first);
}
