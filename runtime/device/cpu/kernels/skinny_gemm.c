/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/device/cpu/kernels/skinny_gemm.h"

#include "runtime/device/cpu/kernels/skinny_products.h"
#include "runtime/device/cpu/kernels/vectorize.h"
#include "runtime/machine/tuning.h"

static gboolean
is_skinny (const TpsGemm *gemm)
{
  gsize few = gemm->transpose_a ? gemm->k : gemm->m;

  return gemm->alpha == 1 && gemm->beta == 0 && !(gemm->transpose_a && gemm->transpose_b)
         && few <= TPS_SKINNY_MAX_FEW
         && (gdouble) gemm->m * (gdouble) gemm->n * (gdouble) gemm->k
                <= (gdouble) tps_tuning_get ()->skinny_products;
}

/* Chooses the tiles for the processor. Tiles for AVX-512 do not fit into the registers of AVX2.
 * Tiles for AVX2 leave half of the width of AVX-512 unused. */
static const TpsSkinnyProducts *
choose_products (void)
{
#ifdef TPS_TARGET_V4
  if (__builtin_cpu_supports ("x86-64-v4"))
    return &tps_skinny_products_of_16;
#endif
  return &tps_skinny_products_of_8;
}

gboolean
tps_cpu_skinny_gemm (const TpsGemm *gemm)
{
  const TpsSkinnyProducts *products = choose_products ();

  if (!is_skinny (gemm))
    return FALSE;
  if (gemm->transpose_b)
    products->times_transposed (gemm);
  else if (gemm->transpose_a)
    products->transposed_times (gemm);
  else
    products->times_matrix (gemm);
  return TRUE;
}
