/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/dot_interaction.h"

#include "runtime/trainer/dense/dense.h"

#include <string.h>

gsize
tps_dot_interaction_get_width (const TpsDotInteraction *interaction)
{
  return interaction->dim + interaction->n_vectors * (interaction->n_vectors - 1) / 2;
}

static void
gather_triangle (const gfloat *products, gsize n, gfloat *pairs)
{
  for (gsize i = 1; i < n; i++)
    {
      memcpy (pairs, products + i * n, i * sizeof *pairs);
      pairs += i;
    }
}

void
tps_dot_interaction_forward (const TpsDotInteraction *interaction, TpsStream *stream,
                             const gfloat *features, gfloat *scratch, gfloat *output, gsize rows)
{
  gsize n = interaction->n_vectors, dim = interaction->dim;
  gsize width = tps_dot_interaction_get_width (interaction);
  TpsGemm gemm = { .transpose_b = TRUE, .m = n, .n = n, .k = dim, .alpha = 1, .c = scratch };

  g_assert (stream->device->is_host);
  for (gsize row = 0; row < rows; row++)
    {
      gemm.a = gemm.b = features + row * n * dim;
      tps_dense_ops (stream)->gemm (stream, &gemm);
      memcpy (output + row * width, gemm.a, dim * sizeof *output);
      gather_triangle (scratch, n, output + row * width + dim);
    }
}

/* Fills a symmetric matrix with a diagonal of 0 from its lower triangle. The matrix is symmetric,
 * because the product of vectors i and j depends on both vectors in the same way. */
static void
spread_triangle (const gfloat *pairs, gsize n, gfloat *matrix)
{
  for (gsize i = 0; i < n; i++)
    {
      matrix[i * n + i] = 0;
      for (gsize j = 0; j < i; j++)
        matrix[i * n + j] = matrix[j * n + i] = *pairs++;
    }
}

void
tps_dot_interaction_backward (const TpsDotInteraction *interaction, TpsStream *stream,
                              const gfloat *features, const gfloat *output_gradient,
                              gfloat *scratch, gfloat *feature_gradient, gsize rows)
{
  gsize n = interaction->n_vectors, dim = interaction->dim;
  gsize width = tps_dot_interaction_get_width (interaction);
  TpsGemm gemm = { .m = n, .n = dim, .k = n, .alpha = 1, .a = scratch };

  g_assert (stream->device->is_host);
  for (gsize row = 0; row < rows; row++)
    {
      const gfloat *gradient = output_gradient + row * width;

      spread_triangle (gradient + dim, n, scratch);
      gemm.b = features + row * n * dim;
      gemm.c = feature_gradient + row * n * dim;
      tps_dense_ops (stream)->gemm (stream, &gemm);
      stream->device->ops->accumulate (stream, TPS_DTYPE_FLOAT32, gemm.c, gradient, dim);
    }
}
