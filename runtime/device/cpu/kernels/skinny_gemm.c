/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The three products of the passes of a linear layer; `few` is the number of rows of the batch:
 *
 *   times_transposed   c [few, n] = a [few, k] b [n, k]'    forward: dot products of rows
 *   times_matrix       c [few, n] = a [few, k] b [k, n]     gradient of the input: sums of rows
 *   transposed_times   c [m, n] = a [few, m]' b [few, n]    gradient of the weight: short sums
 *
 * Each holds a tile of c in registers. The large matrix is read (or written) once, in order, while
 * everything else stays in the first-level cache. Tile heights are constants, so that the compiler
 * can unroll the loops. This file may contract a*b+c (see BUILD), because the bits of products are
 * not guaranteed.
 */

#include "runtime/device/cpu/kernels/skinny_gemm.h"

#include "runtime/device/cpu/kernels/vectorize.h"
#include "runtime/machine/tuning.h"

#define MAX_FEW 32
#define LANES 16
#define TILE_ROWS 4
#define MAX_TILE_ROWS 8 /* for tiles of half the width */

typedef gfloat Vector __attribute__ ((vector_size (LANES * sizeof (gfloat))));
typedef gfloat Half __attribute__ ((vector_size (LANES / 2 * sizeof (gfloat))));
typedef gfloat Quarter __attribute__ ((vector_size (LANES / 4 * sizeof (gfloat))));
/* A vector without alignment beyond that of a float. */
typedef gfloat Loose
    __attribute__ ((vector_size (LANES * sizeof (gfloat)), aligned (sizeof (gfloat)), may_alias));

#define LOAD(address) (*(const Loose *) (address))
#define STORE(address, vector) (*(Loose *) (address) = (vector))

/* -- dot products -- */

/* Sums the elements of each of four vectors. */
TPS_INLINE void
add_up (const Vector vectors[4], gfloat totals[4])
{
  Quarter quarters[4];
  Quarter first, second, sums;

  for (guint i = 0; i < 4; i++)
    {
      Half half = __builtin_shufflevector (vectors[i], vectors[i], 0, 1, 2, 3, 4, 5, 6, 7)
                  + __builtin_shufflevector (vectors[i], vectors[i], 8, 9, 10, 11, 12, 13, 14, 15);

      quarters[i] = __builtin_shufflevector (half, half, 0, 1, 2, 3)
                    + __builtin_shufflevector (half, half, 4, 5, 6, 7);
    }
  first = __builtin_shufflevector (quarters[0], quarters[1], 0, 4, 2, 6)
          + __builtin_shufflevector (quarters[0], quarters[1], 1, 5, 3, 7);
  second = __builtin_shufflevector (quarters[2], quarters[3], 0, 4, 2, 6)
           + __builtin_shufflevector (quarters[2], quarters[3], 1, 5, 3, 7);
  sums = __builtin_shufflevector (first, second, 0, 1, 4, 5)
         + __builtin_shufflevector (first, second, 2, 3, 6, 7);
  for (guint i = 0; i < 4; i++)
    totals[i] = sums[i];
}

/* c [rows, 4], in rows of `columns` elements: a [rows, k] times the transpose of b [4, k]. */
TPS_INLINE void
dot_tile (const gfloat *a, const gfloat *b, gfloat *c, gsize k, gsize columns, const guint rows)
{
  Vector sums[TILE_ROWS][4] = { { { 0 } } };
  gsize l = 0;

  for (; l + LANES <= k; l += LANES)
    for (guint i = 0; i < rows; i++)
      for (guint j = 0; j < 4; j++)
        sums[i][j] += LOAD (a + i * k + l) * LOAD (b + j * k + l);
  for (guint i = 0; i < rows; i++)
    add_up (sums[i], c + i * columns);
  for (; l < k; l++)
    for (guint i = 0; i < rows; i++)
      for (guint j = 0; j < 4; j++)
        c[i * columns + j] += a[i * k + l] * b[j * k + l];
}

TPS_INLINE void
dot_rows (const TpsGemm *gemm, gsize i, gsize j, gsize rows)
{
  const gfloat *a = gemm->a + i * gemm->k;
  const gfloat *b = gemm->b + j * gemm->k;
  gfloat *c = gemm->c + i * gemm->n + j;

  switch (rows)
    {
    case 1:
      dot_tile (a, b, c, gemm->k, gemm->n, 1);
      break;
    case 2:
      dot_tile (a, b, c, gemm->k, gemm->n, 2);
      break;
    case 3:
      dot_tile (a, b, c, gemm->k, gemm->n, 3);
      break;
    default:
      dot_tile (a, b, c, gemm->k, gemm->n, 4);
    }
}

TPS_TARGET_CLONES static void
times_transposed (const TpsGemm *gemm)
{
  gsize j = 0;

  for (; j + 4 <= gemm->n; j += 4)
    for (gsize i = 0; i < gemm->m; i += TILE_ROWS)
      dot_rows (gemm, i, j, MIN (TILE_ROWS, gemm->m - i));
  for (; j < gemm->n; j++)
    for (gsize i = 0; i < gemm->m; i++)
      {
        gfloat sum = 0;

        for (gsize l = 0; l < gemm->k; l++)
          sum += gemm->a[i * gemm->k + l] * gemm->b[j * gemm->k + l];
        gemm->c[i * gemm->n + j] = sum;
      }
}

/* -- sums of scaled rows -- */

/* c [rows, vectors * LANES] = the sum over l < n_terms of a[i * row_step + l * term_step] times row
 * l of b; rows of b and c have `columns` elements. */
TPS_INLINE void
scaled_tile (const gfloat *a, gsize row_step, gsize term_step, gsize n_terms, const gfloat *b,
             gfloat *c, gsize columns, const guint rows, const guint vectors)
{
  Vector sums[MAX_TILE_ROWS][4] = { { { 0 } } };

  for (gsize l = 0; l < n_terms; l++)
    for (guint i = 0; i < rows; i++)
      for (guint j = 0; j < vectors; j++)
        sums[i][j] += a[i * row_step + l * term_step] * LOAD (b + l * columns + j * LANES);
  for (guint i = 0; i < rows; i++)
    for (guint j = 0; j < vectors; j++)
      STORE (c + i * columns + j * LANES, sums[i][j]);
}

/* Handles the columns after the last whole vector. */
TPS_INLINE void
scaled_rest (const gfloat *a, gsize term_step, gsize n_terms, const gfloat *b, gfloat *c,
             gsize columns, gsize n)
{
  for (gsize j = 0; j < n; j++)
    {
      gfloat sum = 0;

      for (gsize l = 0; l < n_terms; l++)
        sum += a[l * term_step] * b[l * columns + j];
      c[j] = sum;
    }
}

TPS_INLINE void
matrix_rows (const TpsGemm *gemm, gsize i, gsize j, gsize rows, const guint vectors)
{
  const gfloat *a = gemm->a + i * gemm->k;
  const gfloat *b = gemm->b + j;
  gfloat *c = gemm->c + i * gemm->n + j;
  gsize k = gemm->k;
  gsize n = gemm->n;

  switch (rows)
    {
    case 1:
      scaled_tile (a, k, 1, k, b, c, n, 1, vectors);
      break;
    case 2:
      scaled_tile (a, k, 1, k, b, c, n, 2, vectors);
      break;
    case 3:
      scaled_tile (a, k, 1, k, b, c, n, 3, vectors);
      break;
    case 4:
      scaled_tile (a, k, 1, k, b, c, n, 4, vectors);
      break;
    case 5:
      scaled_tile (a, k, 1, k, b, c, n, 5, vectors);
      break;
    case 6:
      scaled_tile (a, k, 1, k, b, c, n, 6, vectors);
      break;
    case 7:
      scaled_tile (a, k, 1, k, b, c, n, 7, vectors);
      break;
    default:
      scaled_tile (a, k, 1, k, b, c, n, 8, vectors);
    }
}

/* Returns the height of equal tiles, as few of them as possible. */
TPS_INLINE gsize
get_tile_height (gsize rows)
{
  gsize n_tiles = (rows + MAX_TILE_ROWS - 1) / MAX_TILE_ROWS;

  return (rows + n_tiles - 1) / n_tiles;
}

TPS_INLINE void
matrix_columns (const TpsGemm *gemm, gsize j, const guint vectors)
{
  gsize height = get_tile_height (gemm->m);

  for (gsize i = 0; i < gemm->m; i += height)
    matrix_rows (gemm, i, j, MIN (height, gemm->m - i), vectors);
}

TPS_TARGET_CLONES static void
times_matrix (const TpsGemm *gemm)
{
  gsize j = 0;

  for (; gemm->m <= TILE_ROWS && j + 4 * LANES <= gemm->n; j += 4 * LANES)
    matrix_columns (gemm, j, 4);
  for (; j + 2 * LANES <= gemm->n; j += 2 * LANES)
    matrix_columns (gemm, j, 2);
  for (; j + LANES <= gemm->n; j += LANES)
    matrix_columns (gemm, j, 1);
  for (gsize i = 0; i < gemm->m; i++)
    scaled_rest (gemm->a + i * gemm->k, 1, gemm->k, gemm->b + j, gemm->c + i * gemm->n + j, gemm->n,
                 gemm->n - j);
}

/* Computes rows i and following of c, as many as the tile has. */
TPS_INLINE void
transposed_rows (const TpsGemm *gemm, gsize i, const guint rows)
{
  const gfloat *a = gemm->a + i;
  gfloat *c = gemm->c + i * gemm->n;
  gsize n = gemm->n;
  gsize j = 0;

  for (; j + 4 * LANES <= n; j += 4 * LANES)
    scaled_tile (a, 1, gemm->m, gemm->k, gemm->b + j, c + j, n, rows, 4);
  for (; j + LANES <= n; j += LANES)
    scaled_tile (a, 1, gemm->m, gemm->k, gemm->b + j, c + j, n, rows, 1);
  for (guint row = 0; row < rows; row++)
    scaled_rest (a + row, gemm->m, gemm->k, gemm->b + j, c + row * n + j, n, n - j);
}

TPS_TARGET_CLONES static void
transposed_times (const TpsGemm *gemm)
{
  gsize i = 0;

  for (; i + TILE_ROWS <= gemm->m; i += TILE_ROWS)
    transposed_rows (gemm, i, TILE_ROWS);
  for (; i < gemm->m; i++)
    transposed_rows (gemm, i, 1);
}

/* -- choice of the product -- */

static gboolean
is_skinny (const TpsGemm *gemm)
{
  gsize few = gemm->transpose_a ? gemm->k : gemm->m;

  return gemm->alpha == 1 && gemm->beta == 0 && !(gemm->transpose_a && gemm->transpose_b)
         && few <= MAX_FEW
         && (gdouble) gemm->m * (gdouble) gemm->n * (gdouble) gemm->k
                <= (gdouble) tps_tuning_get ()->skinny_products;
}

gboolean
tps_cpu_skinny_gemm (const TpsGemm *gemm)
{
  if (!is_skinny (gemm))
    return FALSE;
  if (gemm->transpose_b)
    times_transposed (gemm);
  else if (gemm->transpose_a)
    transposed_times (gemm);
  else
    times_matrix (gemm);
  return TRUE;
}
