/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* cuBLAS, loaded at the first product. Its libraries are far larger than everything else, so the
 * installed ones are used. */

#pragma once

#include <cublas_v2.h>

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* Creates a handle for the current device that enqueues on `stream`. Owned by the caller. Errors
 * (NULL): DEVICE_LOST; the message names the missing library. */
cublasHandle_t tps_cuda_blas_handle_new (cudaStream_t stream, GError **error);
void tps_cuda_blas_handle_free (cublasHandle_t handle);

/* The gemm slot of the backend; m, n and k must be > 0. Errors: DEVICE_LOST. */
gboolean tps_cuda_blas_gemm (cublasHandle_t handle, const TpsGemm *gemm, GError **error);

G_END_DECLS
