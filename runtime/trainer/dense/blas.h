/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Matrix products by OpenBLAS, and settings of the library, which is loaded at the first use. */

#pragma once

#include "runtime/device/dense.h"

G_BEGIN_DECLS

/* Implements the gemm slot of runtime/device/dense.h. Dimensions must not exceed G_MAXINT32.
 * Without OpenBLAS, a plain loop computes the product, correctly but slowly. Thread: any. */
void tps_cpu_gemm (TpsStream *stream, const TpsGemm *gemm);

/* Limits the number of threads of one product, for the whole process; at least 1. The default is
 * the number of processors. Thread: any, but not while a product runs. */
void tps_blas_set_num_threads (guint n_threads);

G_END_DECLS
