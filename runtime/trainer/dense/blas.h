/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Matrix products by OpenBLAS, and settings of the library, which is loaded at the first use. */

#pragma once

#include "runtime/device/dense.h"

G_BEGIN_DECLS

/* Implements the gemm slot of runtime/device/dense.h. Dimensions must not exceed G_MAXINT32.
 * Without OpenBLAS, a plain loop computes the product, correctly but slowly. Thread: any. */
void tps_cpu_gemm (const TpsGemm *gemm);

/* Set and return the limit of the number of threads of one product, for the whole process.
 * `n_threads` must be at least 1. The library's default is the number of processors. Without
 * OpenBLAS, the limit is 1. Thread: any, but not while a product runs. */
void tps_blas_set_num_threads (guint n_threads);
guint tps_blas_get_num_threads (void);

/* Returns the version, options and kernels in use, "OpenBLAS 0.3.21 … SkylakeX …", or "no
 * OpenBLAS". Static. Thread: any. */
const gchar *tps_blas_get_version (void);

G_END_DECLS
