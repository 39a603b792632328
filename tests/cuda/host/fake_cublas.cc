/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A fake libcublas. Its sgemm works as BLAS defines it, column-major. */

#include <cublas_v2.h>

#include <cstdint>

#include "tests/cuda/host/fake_runtime.h"

struct cublasContext
{
  cudaStream_t stream;
};

namespace {

int64_t last_shape[3];
int n_failing_creates;

float
element (const float *a, int64_t ld, bool is_transposed, int64_t row, int64_t column)
{
  return is_transposed ? a[row * ld + column] : a[column * ld + row];
}

} /* namespace */

extern "C"
{
  /* Returns m, n and k of the last product, as they were passed. */
  const int64_t *
  fake_cublas_get_last_shape (void)
  {
    return last_shape;
  }

  /* Makes the next `n_calls` creations of a handle fail for lack of memory. */
  void
  fake_cublas_fail_create (int n_calls)
  {
    n_failing_creates = n_calls;
  }

  cublasStatus_t
  cublasCreate_v2 (cublasHandle_t *handle)
  {
    if (n_failing_creates > 0)
      {
        n_failing_creates--;
        return CUBLAS_STATUS_ALLOC_FAILED;
      }
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
  cublasSgemm_v2_64 (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                     int64_t m, int64_t n, int64_t k, const float *alpha, const float *a,
                     int64_t lda, const float *b, int64_t ldb, const float *beta, float *c,
                     int64_t ldc)
  {
    last_shape[0] = m;
    last_shape[1] = n;
    last_shape[2] = k;
    if (m > INT32_MAX || n > INT32_MAX || k > INT32_MAX)
      return CUBLAS_STATUS_SUCCESS; /* such operands would not fit into memory */
    handle->stream->begin ();
    for (int64_t column = 0; column < n; column++)
      for (int64_t row = 0; row < m; row++)
        {
          double sum = 0;
          float *to = &c[column * ldc + row];

          for (int64_t i = 0; i < k; i++)
            sum += (double) element (a, lda, transa == CUBLAS_OP_T, row, i)
                   * element (b, ldb, transb == CUBLAS_OP_T, i, column);
          *to = (float) (*alpha * sum) + (*beta == 0 ? 0 : *beta * *to);
        }
    handle->stream->end ();
    return CUBLAS_STATUS_SUCCESS;
  }
}
