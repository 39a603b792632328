/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Products where a batch of a few rows meets a large matrix: what a trainer with tiny batches
 * computes. OpenBLAS packs both operands first, which takes longer there than the product. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* As tps_cpu_gemm() where the product is a skinny one: alpha 1, beta 0, at most 32 rows (of the
 * result, or that are summed over where `a` is transposed). FALSE, and nothing is done, where it is
 * not. Thread: any. */
gboolean tps_cpu_skinny_gemm (const TpsGemm *gemm);

G_END_DECLS
