/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Stands in for libcublas: sgemm as BLAS defines it, with columns first. */

#include <cublas_v2.h>

#include "tests/cuda/host/fake_runtime.h"

struct cublasContext
{
  cudaStream_t stream;
};

namespace {

float
element (const float *a, int ld, bool is_transposed, int row, int column)
{
  return is_transposed ? a[(size_t) row * ld + column] : a[(size_t) column * ld + row];
}

} /* namespace */

extern "C"
{
  cublasStatus_t
  cublasCreate_v2 (cublasHandle_t *handle)
  {
    *handle = new cublasContext ();
    return CUBLAS_STATUS_SUCCESS;
  }

  cublasStatus_t
  cublasDestroy_v2 (cublasHandle_t handle)
  {
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
  }

  cublasStatus_t
  cublasSetStream_v2 (cublasHandle_t handle, cudaStream_t stream)
  {
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
  }

  const char *
  cublasGetStatusString (cublasStatus_t status)
  {
    return "fake";
  }

  cublasStatus_t
  cublasSgemm_v2 (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                  int n, int k, const float *alpha, const float *a, int lda, const float *b,
                  int ldb, const float *beta, float *c, int ldc)
  {
    handle->stream->begin ();
    for (int column = 0; column < n; column++)
      for (int row = 0; row < m; row++)
        {
          double sum = 0;
          float *to = &c[(size_t) column * ldc + row];

          for (int i = 0; i < k; i++)
            sum += (double) element (a, lda, transa == CUBLAS_OP_T, row, i)
                   * element (b, ldb, transb == CUBLAS_OP_T, i, column);
          *to = (float) (*alpha * sum) + (*beta == 0 ? 0 : *beta * *to);
        }
    handle->stream->end ();
    return CUBLAS_STATUS_SUCCESS;
  }
}
