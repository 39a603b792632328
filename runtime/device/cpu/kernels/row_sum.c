/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums of rows at arbitrary addresses. The sum of a column has the same bits as an addition of the
 * rows one by one.
 *
 * The loop handles a group of 64, 32 or 16 columns, one row after another. The sums of the group
 * stay in registers (at most 4 of AVX-512, 8 of AVX2) from the first row to the last, and each row
 * is read from front to back. The alternative, which adds eight rows column by column, needs no
 * more instructions but took a fifth longer if the rows came from memory.
 *
 * Later rows are prefetched meanwhile. The prefetch goes to the second-level cache, because the
 * first level has room for only about 16 lines in flight. If the processor fetches lines in pairs
 * (`fetch_bytes` of runtime/machine/tuning.h), the prefetch requests every other line. The step is
 * a constant in each of the two variants, so that their loops can be unrolled. */

#include "runtime/device/cpu/kernels/rows.h"
#include "runtime/device/cpu/kernels/vectorize.h"
#include "runtime/machine/tuning.h"

#define WIDE 64
#define LINE 64 /* bytes */
#define PAIR_OF_LINES (2 * LINE)

/* Prefetches `n` columns of a later row, in steps of `step` bytes. */
TPS_INLINE void
prefetch_columns (const gfloat *columns, gsize n, gsize step)
{
  for (gsize byte = 0; byte < n * sizeof columns[0]; byte += step)
    __builtin_prefetch ((const guint8 *) columns + byte, 0, 2);
}

/* Adds columns [first, first + wide) of all rows. `wide` is at most WIDE. */
TPS_INLINE void
add_columns (gfloat *sum, const gfloat *const *rows, const gfloat *weights, gsize n_rows,
             gsize n_ahead, gsize first, const gsize wide, gsize step)
{
  gfloat sums[WIDE];

  for (gsize d = 0; d < wide; d++)
    sums[d] = sum[first + d];
  for (gsize i = 0; i < n_rows; i++)
    {
      const gfloat *row = rows[i] + first;

      /* The prefetch also keeps gcc from merging two rows into one loop, which it would not
       * vectorise. */
      prefetch_columns (rows[i + n_ahead] + first, wide, step);
      for (gsize d = 0; d < wide; d++)
        sums[d] += weights != NULL ? weights[i] * row[d] : row[d];
    }
  for (gsize d = 0; d < wide; d++)
    sum[first + d] = sums[d];
}

/* -- the remaining `n` columns, starting at `first` -- */

TPS_INLINE void
add_last_of_4 (gfloat *sum, const gfloat *const *rows, const gfloat *weights, gsize first, gsize n)
{
  const gfloat *a = rows[0] + first, *b = rows[1] + first;
  const gfloat *c = rows[2] + first, *e = rows[3] + first;
  gfloat *s = sum + first;

  TPS_INDEPENDENT_ITERATIONS
  for (gsize d = 0; d < n; d++)
    s[d] = weights != NULL ? (((s[d] + weights[0] * a[d]) + weights[1] * b[d]) + weights[2] * c[d])
                                 + weights[3] * e[d]
                           : (((s[d] + a[d]) + b[d]) + c[d]) + e[d];
}

TPS_INLINE void
add_last_of_1 (gfloat *sum, const gfloat *const *rows, const gfloat *weights, gsize first, gsize n)
{
  const gfloat *a = rows[0] + first;
  gfloat *s = sum + first;

  TPS_INDEPENDENT_ITERATIONS
  for (gsize d = 0; d < n; d++)
    s[d] += weights != NULL ? weights[0] * a[d] : a[d];
}

TPS_INLINE void
add_last_columns (gfloat *sum, const gfloat *const *rows, const gfloat *weights, gsize n_rows,
                  gsize n_ahead, gsize first, gsize n, gsize step)
{
  gsize i = 0;

  for (gsize j = n_ahead; j < n_rows + n_ahead; j++)
    prefetch_columns (rows[j] + first, n, step);
  for (; i + 4 <= n_rows; i += 4)
    add_last_of_4 (sum, rows + i, weights != NULL ? weights + i : NULL, first, n);
  for (; i < n_rows; i++)
    add_last_of_1 (sum, rows + i, weights != NULL ? weights + i : NULL, first, n);
}

TPS_INLINE void
add_rows (gfloat *sum, const gfloat *const *rows, const gfloat *weights, gsize n_rows,
          gsize n_ahead, gsize dim, gsize step)
{
  gsize first = 0;

  for (; first + WIDE <= dim; first += WIDE)
    add_columns (sum, rows, weights, n_rows, n_ahead, first, WIDE, step);
  if (first + WIDE / 2 <= dim)
    {
      add_columns (sum, rows, weights, n_rows, n_ahead, first, WIDE / 2, step);
      first += WIDE / 2;
    }
  if (first + WIDE / 4 <= dim)
    {
      add_columns (sum, rows, weights, n_rows, n_ahead, first, WIDE / 4, step);
      first += WIDE / 4;
    }
  if (first < dim)
    add_last_columns (sum, rows, weights, n_rows, n_ahead, first, dim - first, step);
}

TPS_TARGET_CLONES void
tps_cpu_add_rows (gfloat *sum, const gfloat *const *rows, gsize n_rows, gsize n_ahead, gsize dim)
{
  if (tps_tuning_get ()->fetch_bytes >= PAIR_OF_LINES)
    add_rows (sum, rows, NULL, n_rows, n_ahead, dim, PAIR_OF_LINES);
  else
    add_rows (sum, rows, NULL, n_rows, n_ahead, dim, LINE);
}

TPS_TARGET_CLONES void
tps_cpu_add_weighted_rows (gfloat *sum, const gfloat *const *rows, const gfloat *weights,
                           gsize n_rows, gsize n_ahead, gsize dim)
{
  if (tps_tuning_get ()->fetch_bytes >= PAIR_OF_LINES)
    add_rows (sum, rows, weights, n_rows, n_ahead, dim, PAIR_OF_LINES);
  else
    add_rows (sum, rows, weights, n_rows, n_ahead, dim, LINE);
}
