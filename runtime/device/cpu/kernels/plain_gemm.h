/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Matrix products on machines where OpenBLAS is not installed: right, and slow. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* As the slot of runtime/device/backend.h. Each sum is taken in double precision in the order of
 * k, and rounded once. Thread: any. */
void tps_cpu_plain_gemm (const TpsGemm *gemm);

G_END_DECLS
