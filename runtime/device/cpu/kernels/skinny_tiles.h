/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The three products of skinny_products.h. The file that includes this one must define the widths
 * of its vectors and tiles:
 *
 *   LANES            floats of a vector, 8 or 16
 *   DOT_ROWS         rows of a tile of 4 dot products, at most 4
 *   WIDE_ROWS        rows of a tile of 4 vectors
 *   NARROW_ROWS      rows of a tile of 2 vectors, at most 8
 *   SKINNY_TARGETS   attributes of a product: the instructions that it may use
 *
 * Each product holds a tile of c in registers. The large matrix is read (or written) once, in
 * order, while everything else stays in the first-level cache. Each kind of tile must fit into the
 * registers together with the vectors that a step loads; otherwise the product is up to 50 times as
 * slow. Tile heights are constants, so that the compiler can unroll the loops.
 *
 * These files may contract a*b+c (see BUILD), because the bits of products are not guaranteed. */

#include "runtime/device/cpu/kernels/skinny_products.h"
#include "runtime/device/cpu/kernels/vectorize.h"

typedef gfloat Vector __attribute__ ((vector_size (LANES * sizeof (gfloat))));
typedef guint32 Bits __attribute__ ((vector_size (LANES * sizeof (guint32))));
typedef gfloat Eight __attribute__ ((vector_size (8 * sizeof (gfloat))));
typedef gfloat Four __attribute__ ((vector_size (4 * sizeof (gfloat))));
/* A vector without alignment beyond that of a float. */
typedef gfloat Loose
    __attribute__ ((vector_size (LANES * sizeof (gfloat)), aligned (sizeof (gfloat)), may_alias));

#define LOAD(address) (*(const Loose *) (address))
#define STORE(address, vector) (*(Loose *) (address) = (vector))

/* -- dot products -- */

#if LANES == 16
#define ADD_HALVES(v)                                         \
  (__builtin_shufflevector ((v), (v), 0, 1, 2, 3, 4, 5, 6, 7) \
   + __builtin_shufflevector ((v), (v), 8, 9, 10, 11, 12, 13, 14, 15))
#else
#define ADD_HALVES(v) (v)
#endif

/* Sums the elements of each of four vectors. */
TPS_INLINE void
add_up (const Vector vectors[4], gfloat totals[4])
{
  Four fours[4], first, second, sums;

  for (guint i = 0; i < 4; i++)
    {
      Eight eight = ADD_HALVES (vectors[i]);

      fours[i] = __builtin_shufflevector (eight, eight, 0, 1, 2, 3)
                 + __builtin_shufflevector (eight, eight, 4, 5, 6, 7);
    }
  first = __builtin_shufflevector (fours[0], fours[1], 0, 4, 2, 6)
          + __builtin_shufflevector (fours[0], fours[1], 1, 5, 3, 7);
  second = __builtin_shufflevector (fours[2], fours[3], 0, 4, 2, 6)
           + __builtin_shufflevector (fours[2], fours[3], 1, 5, 3, 7);
  sums = __builtin_shufflevector (first, second, 0, 1, 4, 5)
         + __builtin_shufflevector (first, second, 2, 3, 6, 7);
  for (guint i = 0; i < 4; i++)
    totals[i] = sums[i];
}

/* c [rows, columns], in rows of n elements: a [rows, k] times the transpose of b [columns, k].
 * There are 4 columns at most. */
TPS_INLINE void
dot_tile (const TpsGemm *gemm, gsize row, gsize column, const guint rows, const guint columns)
{
  gsize k = gemm->k;
  const gfloat *a = gemm->a + row * k;
  const gfloat *b = gemm->b + column * k;
  gfloat *c = gemm->c + row * gemm->n + column;
  Vector sums[DOT_ROWS][4] = { { { 0 } } };
  gsize l = 0;

  for (; l + LANES <= k; l += LANES)
    for (guint i = 0; i < rows; i++)
      for (guint j = 0; j < columns; j++)
        sums[i][j] += LOAD (a + i * k + l) * LOAD (b + j * k + l);
  if (l > 0 && l < k)
    {
      Bits is_new;

      for (guint lane = 0; lane < LANES; lane++)
        is_new[lane] = lane + k - l >= LANES ? G_MAXUINT32 : 0;
      l = k - LANES;
      for (guint i = 0; i < rows; i++)
        for (guint j = 0; j < columns; j++)
          sums[i][j] += (Vector) (is_new & (Bits) (LOAD (a + i * k + l) * LOAD (b + j * k + l)));
      l = k;
    }
  for (guint i = 0; i < rows; i++)
    {
      gfloat totals[4];

      add_up (sums[i], totals);
      for (guint j = 0; j < columns; j++)
        c[i * gemm->n + j] = totals[j];
    }
  for (; l < k; l++)
    for (guint i = 0; i < rows; i++)
      for (guint j = 0; j < columns; j++)
        c[i * gemm->n + j] += a[i * k + l] * b[j * k + l];
}

/* Computes columns [j, j + columns) of c. */
TPS_INLINE void
dot_columns (const TpsGemm *gemm, gsize j, const guint columns)
{
  gsize i = 0;

  for (; i + DOT_ROWS <= gemm->m; i += DOT_ROWS)
    dot_tile (gemm, i, j, DOT_ROWS, columns);
  switch (gemm->m - i)
    {
#if DOT_ROWS > 3
    case 3:
      dot_tile (gemm, i, j, 3, columns);
      break;
#endif
    case 2:
      dot_tile (gemm, i, j, 2, columns);
      break;
    case 1:
      dot_tile (gemm, i, j, 1, columns);
      break;
    default:
      break;
    }
}

SKINNY_TARGETS static void
times_transposed (const TpsGemm *gemm)
{
  gsize j = 0;

  for (; j + 4 <= gemm->n; j += 4)
    dot_columns (gemm, j, 4);
  switch (gemm->n - j)
    {
    case 3:
      dot_columns (gemm, j, 3);
      break;
    case 2:
      dot_columns (gemm, j, 2);
      break;
    case 1:
      dot_columns (gemm, j, 1);
      break;
    default:
      break;
    }
}

/* -- sums of scaled rows -- */

/* c [rows, vectors * LANES] = the sum over l < n_terms of a[i * row_step + l * term_step] times row
 * l of b, and of c if `adds`. Rows of b and c begin b_step and c_step elements apart. */
TPS_INLINE void
scaled_tile (const gfloat *a, gsize row_step, gsize term_step, gsize n_terms, const gfloat *b,
             gsize b_step, gfloat *c, gsize c_step, const guint rows, const guint vectors,
             gboolean adds)
{
  Vector sums[NARROW_ROWS][4] = { { { 0 } } };

  if (adds)
    for (guint i = 0; i < rows; i++)
      for (guint j = 0; j < vectors; j++)
        sums[i][j] = LOAD (c + i * c_step + j * LANES);
  for (gsize l = 0; l < n_terms; l++)
    for (guint i = 0; i < rows; i++)
      for (guint j = 0; j < vectors; j++)
        sums[i][j] += a[i * row_step + l * term_step] * LOAD (b + l * b_step + j * LANES);
  for (guint i = 0; i < rows; i++)
    for (guint j = 0; j < vectors; j++)
      STORE (c + i * c_step + j * LANES, sums[i][j]);
}

/* As scaled_tile(), but for a number of rows that is known only at run time, at most
 * NARROW_ROWS. */
TPS_INLINE void
scaled_rows (const gfloat *a, gsize row_step, gsize term_step, gsize n_terms, const gfloat *b,
             gsize b_step, gfloat *c, gsize c_step, gsize rows, const guint vectors, gboolean adds)
{
#define CASE(height)                                                                            \
  case height:                                                                                  \
    scaled_tile (a, row_step, term_step, n_terms, b, b_step, c, c_step, height, vectors, adds); \
    break;

  switch (rows)
    {
      CASE (1)
      CASE (2)
      CASE (3)
      CASE (4)
      CASE (5)
#if NARROW_ROWS > 6
      CASE (6)
      CASE (7)
#endif
    default:
      scaled_tile (a, row_step, term_step, n_terms, b, b_step, c, c_step, NARROW_ROWS, vectors,
                   adds);
    }
#undef CASE
}

/* Computes a row of c if the matrix has fewer columns than a vector has elements. */
TPS_INLINE void
scaled_row (const gfloat *a, gsize term_step, gsize n_terms, const gfloat *b, gfloat *c,
            gsize columns)
{
  for (gsize j = 0; j < columns; j++)
    {
      gfloat sum = 0;

      for (gsize l = 0; l < n_terms; l++)
        sum += a[l * term_step] * b[l * columns + j];
      c[j] = sum;
    }
}

/* Returns the height of tiles that divide `rows` rows into as few tiles as possible, of about equal
 * height. */
TPS_INLINE gsize
get_tile_height (gsize rows)
{
  gsize n_tiles = (rows + NARROW_ROWS - 1) / NARROW_ROWS;

  return (rows + n_tiles - 1) / n_tiles;
}

/* Computes columns [j, j + vectors * LANES) of c. */
TPS_INLINE void
matrix_columns (const TpsGemm *gemm, gsize j, const guint vectors)
{
  gsize height = get_tile_height (gemm->m);

  for (gsize i = 0; i < gemm->m; i += height)
    scaled_rows (gemm->a + i * gemm->k, gemm->k, 1, gemm->k, gemm->b + j, gemm->n,
                 gemm->c + i * gemm->n + j, gemm->n, MIN (height, gemm->m - i), vectors, FALSE);
}

TPS_INLINE void
unpacked_times_matrix (const TpsGemm *gemm)
{
  gsize j = 0;

  for (; gemm->m <= WIDE_ROWS && j + 4 * LANES <= gemm->n; j += 4 * LANES)
    matrix_columns (gemm, j, 4);
  for (; j + 2 * LANES <= gemm->n; j += 2 * LANES)
    matrix_columns (gemm, j, 2);
  for (; j + LANES <= gemm->n; j += LANES)
    matrix_columns (gemm, j, 1);
  if (j == gemm->n)
    return;
  if (j > 0)
    {
      matrix_columns (gemm, gemm->n - LANES, 1); /* computes some columns again */
      return;
    }
  for (gsize i = 0; i < gemm->m; i++)
    scaled_row (gemm->a + i * gemm->k, 1, gemm->k, gemm->b, gemm->c + i * gemm->n, gemm->n);
}

/* Computes rows [i, i + rows) of c. */
TPS_INLINE void
transposed_rows (const TpsGemm *gemm, gsize i, const guint rows)
{
  const gfloat *a = gemm->a + i;
  gfloat *c = gemm->c + i * gemm->n;
  gsize n = gemm->n;
  gsize j = 0;

  for (; j + 4 * LANES <= n; j += 4 * LANES)
    scaled_tile (a, 1, gemm->m, gemm->k, gemm->b + j, n, c + j, n, rows, 4, FALSE);
  for (; j + LANES <= n; j += LANES)
    scaled_tile (a, 1, gemm->m, gemm->k, gemm->b + j, n, c + j, n, rows, 1, FALSE);
  if (j == n)
    return;
  if (j > 0)
    {
      j = n - LANES; /* computes some columns again */
      scaled_tile (a, 1, gemm->m, gemm->k, gemm->b + j, n, c + j, n, rows, 1, FALSE);
      return;
    }
  for (guint row = 0; row < rows; row++)
    scaled_row (a + row, gemm->m, gemm->k, gemm->b, c + row * n, n);
}

TPS_INLINE void
unpacked_transposed_times (const TpsGemm *gemm)
{
  gsize i = 0;

  for (; i + WIDE_ROWS <= gemm->m; i += WIDE_ROWS)
    transposed_rows (gemm, i, WIDE_ROWS);
  for (; i < gemm->m; i++)
    transposed_rows (gemm, i, 1);
}
