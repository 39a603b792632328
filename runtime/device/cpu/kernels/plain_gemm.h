/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Matrix products for machines without OpenBLAS: correct, but slow. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* Implements the gemm slot of runtime/device/backend.h. Each sum is computed in double in the order
 * of k, and rounded once. Thread: any. */
void tps_cpu_plain_gemm (const TpsGemm *gemm);

G_END_DECLS
