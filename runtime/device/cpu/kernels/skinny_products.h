/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The three products that the passes of a linear layer need, with tiles that fit into the registers
 * of one kind of processor. `few` is the number of rows of the batch:
 *
 *   times_transposed   c [few, n] = a [few, k] b [n, k]'    forward: dot products of rows
 *   times_matrix       c [few, n] = a [few, k] b [k, n]     gradient of the input: sums of rows
 *   transposed_times   c [m, n] = a [few, m]' b [few, n]    gradient of the weight: short sums
 *
 * alpha must be 1, and beta 0. The arrays need no alignment beyond that of a float. Thread: any. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* The largest number of rows of a batch for which these products are used. Results with more rows
 * are correct, but OpenBLAS is faster. */
#define TPS_SKINNY_MAX_FEW 32

typedef struct
{
  void (*times_transposed) (const TpsGemm *gemm);
  void (*times_matrix) (const TpsGemm *gemm);
  void (*transposed_times) (const TpsGemm *gemm);
} TpsSkinnyProducts;

/* The products for processors with 32 registers of 16 floats. In builds in which TPS_TARGET_CLONES
 * is not empty, these functions use x86-64-v4 (AVX-512) and must not be called on a processor
 * without it. */
extern const TpsSkinnyProducts tps_skinny_products_of_16;

/* The products for processors with 16 registers of 8 floats. */
extern const TpsSkinnyProducts tps_skinny_products_of_8;

G_END_DECLS
