/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Products of a batch of a few rows with a large matrix, as in training with tiny batches. OpenBLAS
 * packs both operands first, which takes longer than the product itself. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* Does the work of tps_cpu_gemm() if the product is a skinny one: alpha 1, beta 0, and at most 32
 * rows (of the result, or, if `a` is transposed, of the sum). Otherwise returns FALSE and does
 * nothing. Thread: any. */
gboolean tps_cpu_skinny_gemm (const TpsGemm *gemm);

G_END_DECLS
