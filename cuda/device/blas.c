/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "cuda/device/blas.h"

#include "cuda/device/search.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* The functions that this file uses, with their types in cublas_v2.h. */
static struct
{
  gchar *missing; /* the reason why the functions cannot be used; NULL = they can */
  __typeof__ (&cublasCreate_v2) create;
  __typeof__ (&cublasDestroy_v2) destroy;
  __typeof__ (&cublasSetStream_v2) set_stream;
  __typeof__ (&cublasSgemm_v2_64) sgemm;
  __typeof__ (&cublasGetStatusString) status_string;
} blas;

static void
load (void)
{
  const TpsCudaFunction functions[] = {
    { "cublasCreate_v2", &blas.create, sizeof blas.create },
    { "cublasDestroy_v2", &blas.destroy, sizeof blas.destroy },
    { "cublasSetStream_v2", &blas.set_stream, sizeof blas.set_stream },
    { "cublasSgemm_v2_64", &blas.sgemm, sizeof blas.sgemm },
    { "cublasGetStatusString", &blas.status_string, sizeof blas.status_string },
  };
  GError *error = NULL;

  /* libcublas needs libcublasLt, and does not always find it by itself. The result is not used: if
   * libcublasLt is missing, the next call fails and gives the reason. */
  tps_cuda_search_library ("libcublasLt.so." G_STRINGIFY (CUBLAS_VER_MAJOR), NULL, 0, NULL);
  if (tps_cuda_search_library ("libcublas.so." G_STRINGIFY (CUBLAS_VER_MAJOR), functions,
                               G_N_ELEMENTS (functions), &error))
    return;
  blas.missing = g_strdup (error->message);
  g_error_free (error);
}

static gboolean
check_loaded (GError **error)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;

  tps_sync_check (pthread_once (&once, load));
  if (blas.missing != NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_DEVICE_LOST, "no matrix products: %s", blas.missing);
  return blas.missing == NULL;
}

static gboolean
check_status (cublasStatus_t status, const gchar *what, GError **error)
{
  if (status == CUBLAS_STATUS_SUCCESS)
    return TRUE;
  return tps_fail (error,
                   status == CUBLAS_STATUS_ALLOC_FAILED ? TPS_ERROR_RESOURCE_EXHAUSTED
                                                        : TPS_ERROR_DEVICE_LOST,
                   "cuBLAS: %s: %s", what, blas.status_string (status));
}

cublasHandle_t
tps_cuda_blas_handle_new (cudaStream_t stream, GError **error)
{
  cublasHandle_t handle = NULL;

  if (!check_loaded (error) || !check_status (blas.create (&handle), "new handle", error))
    return NULL;
  if (check_status (blas.set_stream (handle, stream), "setting the stream", error))
    return handle;
  blas.destroy (handle);
  return NULL;
}

void
tps_cuda_blas_handle_free (cublasHandle_t handle)
{
  blas.destroy (handle);
}

/* cuBLAS is column-major, so it reads each of our row-major matrices as its transpose. The call
 * therefore computes c' = op (b)' op (a)'. */
gboolean
tps_cuda_blas_gemm (cublasHandle_t handle, const TpsGemm *gemm, GError **error)
{
  gint64 m = (gint64) gemm->m, n = (gint64) gemm->n, k = (gint64) gemm->k;

  return check_status (blas.sgemm (handle, gemm->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                                   gemm->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k,
                                   &gemm->alpha, gemm->b, gemm->transpose_b ? k : n, gemm->a,
                                   gemm->transpose_a ? m : k, &gemm->beta, gemm->c, n),
                       "sgemm", error);
}
