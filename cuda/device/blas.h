/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* cuBLAS, loaded at the first product. Its libraries are far larger than this one, so they are not
 * bundled. The installed libraries are used. */

#pragma once

#include <cublas_v2.h>

#include "runtime/device/dense.h"

/* Creates a handle that enqueues on `stream`, owned by the caller. Its device must be the current
 * one. Errors (NULL): RESOURCE_EXHAUSTED; DEVICE_LOST, also if a library is missing, which the
 * message names. */
cublasHandle_t tps_cuda_blas_handle_new (cudaStream_t stream, GError **error);
/* Frees a handle. Its device must be the current one. */
void tps_cuda_blas_handle_free (cublasHandle_t handle);

/* Implements the slot gemm; m, n and k must be > 0. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST. */
gboolean tps_cuda_blas_gemm (cublasHandle_t handle, const TpsGemm *gemm, GError **error);
