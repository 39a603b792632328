/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The products of skinny_tiles.h with a large matrix `b`. Before a block of `b` is used, it is
 * copied ("packed") into panels. A panel is two vectors wide, and its rows follow each other in
 * memory. In `b` itself, the rows of a tile lie n elements apart, so that they would all compete
 * for a few sets of the cache if n is a power of two. */

#include <string.h>

#include "runtime/machine/tuning.h"

#define PANEL (2 * LANES)       /* columns of a panel */
#define SHORT_COLUMNS 512       /* of a block of transposed_times */
#define SQUARE 128              /* rows and columns of a block of times_matrix */
#define BLOCK (16 * 1024)       /* elements of a block: 64 KiB, a part of the second-level cache */
#define GROUP (8 * NARROW_ROWS) /* rows of the result whose factors are packed at a time */

G_STATIC_ASSERT (BLOCK >= TPS_SKINNY_MAX_FEW * SHORT_COLUMNS && BLOCK >= SQUARE * SQUARE);
G_STATIC_ASSERT (SHORT_COLUMNS % PANEL == 0 && SQUARE % PANEL == 0);

/* Copies [n_terms, columns] of a matrix with rows of n elements into panels, and prefetches the
 * same number of further columns. They are the next block, which the hardware does not prefetch by
 * itself. The last panel is filled up with zeros. */
TPS_INLINE void
pack_panels (const gfloat *b, gsize n, gsize n_terms, gsize columns, gfloat *panels)
{
  for (gsize l = 0; l < n_terms; l++, b += n)
    {
      gsize j = 0;

      for (; j + PANEL <= columns; j += PANEL)
        {
          gfloat *row = panels + j * n_terms + l * PANEL;

          for (gsize line = 0; line < PANEL; line += 64 / sizeof (gfloat))
            __builtin_prefetch (b + j + columns + line, 0, 2);
          STORE (row, LOAD (b + j));
          STORE (row + LANES, LOAD (b + j + LANES));
        }
      for (gsize lane = 0; j < columns && lane < PANEL; lane++)
        panels[j * n_terms + l * PANEL + lane] = j + lane < columns ? b[j + lane] : 0;
    }
}

/* Copies the factors of `rows` rows of the result into groups of NARROW_ROWS. The factors are
 * [n_terms, rows] of a matrix with rows of m elements. */
TPS_INLINE void
pack_factors (const gfloat *a, gsize m, gsize n_terms, gsize rows, gfloat *factors)
{
  gsize i = 0;

  for (; i + NARROW_ROWS <= rows; i += NARROW_ROWS)
    for (gsize l = 0; l < n_terms; l++)
      for (gsize row = 0; row < NARROW_ROWS; row++)
        factors[i * n_terms + l * NARROW_ROWS + row] = a[l * m + i + row];
  for (gsize l = 0; l < n_terms; l++)
    for (gsize row = 0; row < rows - i; row++)
      factors[i * n_terms + l * NARROW_ROWS + row] = a[l * m + i + row];
}

/* c [rows, columns] = `a` times the panels, plus c itself if `adds`; see scaled_tile(). */
SKINNY_TARGETS static void
panel_rows (const gfloat *a, gsize row_step, gsize term_step, gsize n_terms, const gfloat *panels,
            gfloat *c, gsize c_step, gsize rows, gsize columns, gboolean adds)
{
  gsize j = 0;

  for (; j + PANEL <= columns; j += PANEL)
    scaled_rows (a, row_step, term_step, n_terms, panels + j * n_terms, PANEL, c + j, c_step, rows,
                 2, adds);
  if (j == columns)
    return;

  gfloat edge[NARROW_ROWS * PANEL] = { 0 };

  for (gsize i = 0; i < rows && adds; i++)
    memcpy (edge + i * PANEL, c + i * c_step + j, (columns - j) * sizeof (gfloat));
  scaled_rows (a, row_step, term_step, n_terms, panels + j * n_terms, PANEL, edge, PANEL, rows, 2,
               adds);
  for (gsize i = 0; i < rows; i++)
    memcpy (c + i * c_step + j, edge + i * PANEL, (columns - j) * sizeof (gfloat));
}

/* Implements times_matrix with panels. */
SKINNY_TARGETS static void
packed_times_matrix (const TpsGemm *gemm)
{
  gfloat panels[BLOCK] __attribute__ ((aligned (64)));
  gsize height = get_tile_height (gemm->m);
  gsize k = gemm->k;
  gsize n = gemm->n;

  for (gsize l = 0; l < k; l += SQUARE)
    for (gsize j = 0; j < n; j += SQUARE)
      {
        gsize n_terms = MIN (SQUARE, k - l);
        gsize columns = MIN (SQUARE, n - j);

        pack_panels (gemm->b + l * n + j, n, n_terms, columns, panels);
        for (gsize i = 0; i < gemm->m; i += height)
          panel_rows (gemm->a + i * k + l, k, 1, n_terms, panels, gemm->c + i * n + j, n,
                      MIN (height, gemm->m - i), columns, l > 0);
      }
}

/* Implements transposed_times with panels. */
SKINNY_TARGETS static void
packed_transposed_times (const TpsGemm *gemm)
{
  gfloat panels[BLOCK] __attribute__ ((aligned (64)));
  gfloat factors[TPS_SKINNY_MAX_FEW * GROUP];
  gsize n_terms = gemm->k;
  gsize n = gemm->n;

  for (gsize j = 0; j < n; j += SHORT_COLUMNS)
    {
      gsize columns = MIN (SHORT_COLUMNS, n - j);

      pack_panels (gemm->b + j, n, n_terms, columns, panels);
      for (gsize first = 0; first < gemm->m; first += GROUP)
        {
          gsize rows = MIN (GROUP, gemm->m - first);

          pack_factors (gemm->a + first, gemm->m, n_terms, rows, factors);
          for (gsize i = 0; i < rows; i += NARROW_ROWS)
            panel_rows (factors + i * n_terms, 1, NARROW_ROWS, n_terms, panels,
                        gemm->c + (first + i) * n + j, n, MIN (NARROW_ROWS, rows - i), columns,
                        FALSE);
        }
    }
}

/* ---- the products ---------------------------------------------------------------------------- */

/* The least number of rows for which packing is worthwhile: it costs about as much as the products
 * of a few rows. */
#define LEAST_ROWS 8

SKINNY_TARGETS static void
times_matrix (const TpsGemm *gemm)
{
  gsize b_bytes = gemm->k * gemm->n * sizeof (gfloat);

  if (gemm->m >= LEAST_ROWS && b_bytes >= tps_tuning_get ()->pack_matrix_bytes)
    packed_times_matrix (gemm);
  else
    unpacked_times_matrix (gemm);
}

SKINNY_TARGETS static void
transposed_times (const TpsGemm *gemm)
{
  gsize b_bytes = gemm->k * gemm->n * sizeof (gfloat);

  if (gemm->k >= LEAST_ROWS && gemm->k <= TPS_SKINNY_MAX_FEW
      && b_bytes >= tps_tuning_get ()->pack_rows_bytes)
    packed_transposed_times (gemm);
  else
    unpacked_transposed_times (gemm);
}

#define SKINNY_PRODUCTS                                                 \
  {                                                                     \
    .times_transposed = times_transposed, .times_matrix = times_matrix, \
    .transposed_times = transposed_times                                \
  }
