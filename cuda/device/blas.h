/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* cuBLAS, loaded when the first product is asked for: its libraries are far larger than everything
 * else, and lie where the machine has them. */

#pragma once

#include <cublas_v2.h>

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* A handle for the current device whose work goes to `stream`. NULL with DEVICE_LOST: which library
 * is missing. */
cublasHandle_t tps_cuda_blas_handle_new (cudaStream_t stream, GError **error);
void tps_cuda_blas_handle_free (cublasHandle_t handle);

/* As the slot; m, n and k > 0. FALSE with DEVICE_LOST. */
gboolean tps_cuda_blas_gemm (cublasHandle_t handle, const TpsGemm *gemm, GError **error);

G_END_DECLS
