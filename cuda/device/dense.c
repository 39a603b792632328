/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The dense operations of runtime/device/dense.h, which only trainers use. Each slot is as those of
 * operations.c. */

#include "cuda/device/blas.h"
#include "cuda/device/device.h"
#include "cuda/kernels/kernels.h"
#include "runtime/base/error.h"
#include "runtime/device/dense.h"

static TpsCudaStream *
stream_of (TpsStream *stream)
{
  return (TpsCudaStream *) stream;
}

TPS_CUDA_SLOT (bias_add, (gfloat * values, const gfloat *bias, gsize rows, gsize columns),
               (values, bias, rows, columns))

TPS_CUDA_SLOT (column_sum, (gfloat * sums, const gfloat *values, gsize rows, gsize columns),
               (sums, values, rows, columns))

TPS_CUDA_SLOT (relu, (gfloat * output, const gfloat *input, gsize n_elems),
               (output, input, n_elems))

TPS_CUDA_SLOT (relu_backward,
               (gfloat * input_gradient, const gfloat *output_gradient, const gfloat *output,
                gsize n_elems),
               (input_gradient, output_gradient, output, n_elems))

TPS_CUDA_SLOT (softmax, (gfloat * output, const gfloat *input, gsize rows, gsize columns),
               (output, input, rows, columns))

TPS_CUDA_SLOT (softmax_backward,
               (gfloat * input_gradient, const gfloat *output_gradient, const gfloat *output,
                gsize rows, gsize columns),
               (input_gradient, output_gradient, output, rows, columns))

TPS_CUDA_SLOT (cross_entropy,
               (gdouble * loss, gfloat *input_gradient, const gfloat *input, const gint64 *target,
                gsize rows, gsize columns),
               (loss, input_gradient, input, target, rows, columns))

TPS_CUDA_SLOT (l1_loss,
               (gdouble * loss, gfloat *input_gradient, const gfloat *input, const gfloat *target,
                gsize n_elems),
               (loss, input_gradient, input, target, n_elems))

/* Rounds the factors to float; see TpsSgdFactors. */
static TpsOptimizerStep
step_of (const TpsSgdFactors *factors)
{
  return (TpsOptimizerStep) { .step = 1,
                              .learning_rate = (gfloat) factors->learning_rate,
                              .momentum = (gfloat) factors->momentum,
                              .weight_decay = (gfloat) factors->weight_decay };
}

static void
cuda_sgd (TpsStream *stream, const TpsSgdFactors *factors, gfloat *values, const gfloat *gradient,
          gfloat *velocity, gsize n_elems)
{
  TpsCudaStream *cuda = stream_of (stream);
  TpsOptimizerStep step = step_of (factors);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (
        cuda, tps_cuda_sgd (cuda->handle, &step, values, gradient, velocity, n_elems), "sgd");
}

static void
cuda_sgd_rows (TpsStream *stream, const TpsSgdFactors *factors, gfloat *values,
               const gint64 *indices, const gfloat *gradients, gfloat *velocity, gsize n_rows,
               gsize dim)
{
  TpsCudaStream *cuda = stream_of (stream);
  TpsRowUpdate update = { indices,           n_rows, dim, values, velocity, gradients, NULL,
                          TPS_DTYPE_FLOAT32, { 0 } };
  TpsOptimizerStep step = step_of (factors);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (cuda, tps_cuda_sgd_rows (cuda->handle, &step, &update), "sgd_rows");
}

/* -- products -- */

/* If memory runs out, unused memory of the pool is returned to the GPU, and the handle is created
 * once more. */
static cublasHandle_t
new_handle (const TpsCudaStream *cuda, GError **error)
{
  cublasHandle_t handle = tps_cuda_blas_handle_new (cuda->handle, error);

  if (handle != NULL || !g_error_matches (*error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED))
    return handle;
  g_clear_error (error);
  tps_cuda_memory_trim ((TpsCudaDevice *) cuda->parent.device);
  return tps_cuda_blas_handle_new (cuda->handle, error);
}

static void
cuda_gemm (TpsStream *stream, const TpsGemm *gemm)
{
  TpsCudaStream *cuda = stream_of (stream);
  GError *error = NULL;

  if (gemm->m == 0 || gemm->n == 0)
    return;
  if (gemm->k == 0) /* c = beta * c; if beta is 0, c is not read */
    {
      gsize n_elems = gemm->m * gemm->n;

      if (gemm->beta == 0)
        tps_cuda_ops.zero (stream, gemm->c, n_elems * sizeof gemm->c[0]);
      else
        tps_cuda_ops.scale (stream, TPS_DTYPE_FLOAT32, gemm->c, gemm->c, (gdouble) gemm->beta,
                            n_elems);
      return;
    }
  if (!tps_cuda_stream_enter (cuda))
    return;
  if (cuda->cublas == NULL)
    cuda->cublas = new_handle (cuda, &error);
  if (cuda->cublas == NULL || !tps_cuda_blas_gemm (cuda->cublas, gemm, &error))
    tps_cuda_stream_fail (cuda, error);
}

const TpsDenseOps tps_cuda_dense_ops = {
  .gemm = cuda_gemm,
  .bias_add = cuda_bias_add,
  .column_sum = cuda_column_sum,
  .relu = cuda_relu,
  .relu_backward = cuda_relu_backward,
  .softmax = cuda_softmax,
  .softmax_backward = cuda_softmax_backward,
  .cross_entropy = cuda_cross_entropy,
  .l1_loss = cuda_l1_loss,
  .sgd = cuda_sgd,
  .sgd_rows = cuda_sgd_rows,
};
