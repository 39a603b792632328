/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Matrix products by OpenBLAS, and its settings. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* As the slot of runtime/device/backend.h. Dimensions up to G_MAXINT32. Thread: any. */
void tps_cpu_gemm (const TpsGemm *gemm);

/* How many threads one product may use, in the whole process; at least 1. The library's own default
 * is all processors. Thread: any, but not while a product runs. */
void tps_blas_set_num_threads (guint n_threads);
guint tps_blas_get_num_threads (void);

/* "OpenBLAS 0.3.21 … SkylakeX …": version, options and the kernels in use; static. Thread: any. */
const gchar *tps_blas_get_version (void);

G_END_DECLS
