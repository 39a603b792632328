/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Products of a batch of a few rows with a large matrix, as in training with tiny batches. OpenBLAS
 * packs both operands first, which takes longer than the product itself. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* Does the work of tps_cpu_gemm() and returns TRUE if the product is skinny. Otherwise returns
 * FALSE and does nothing. A product is skinny if alpha is 1, beta is 0, the batch has at most
 * TPS_SKINNY_MAX_FEW rows (k if `a` is transposed, otherwise m), `a` and `b` are not both
 * transposed, and m * n * k does not exceed `skinny_products` of runtime/machine/tuning.h. Thread:
 * any. */
gboolean tps_cpu_skinny_gemm (const TpsGemm *gemm);

G_END_DECLS
