/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The slots of runtime/device/backend.h. Each slot calls its kernel, unless the stream is in the
 * error state, and stores a failure in the stream. */

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

static void
cuda_copy (TpsStream *stream, gpointer to, gconstpointer from, gsize n_bytes)
{
  TpsCudaStream *cuda = stream_of (stream);

  /* With cudaMemcpyDefault, CUDA derives the kinds of memory from the addresses. */
  if (n_bytes > 0 && tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (
        cuda, cudaMemcpyAsync (to, from, n_bytes, cudaMemcpyDefault, cuda->handle), "copy");
}

static void
cuda_copy_rows (TpsStream *stream, gpointer to, gsize to_stride, gconstpointer from,
                gsize from_stride, gsize row_bytes, gsize n_rows)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (row_bytes > 0 && n_rows > 0 && tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (cuda,
                           cudaMemcpy2DAsync (to, to_stride, from, from_stride, row_bytes, n_rows,
                                              cudaMemcpyDefault, cuda->handle),
                           "copy_rows");
}

static void
cuda_zero (TpsStream *stream, gpointer values, gsize n_bytes)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (n_bytes > 0 && tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (cuda, cudaMemsetAsync (values, 0, n_bytes, cuda->handle), "zero");
}

TPS_CUDA_SLOT (cast,
               (TpsDType to_dtype, gpointer to, TpsDType from_dtype, gconstpointer from,
                gsize n_elems),
               (to_dtype, to, from_dtype, from, n_elems))

TPS_CUDA_SLOT (fill, (TpsDType dtype, gpointer values, gdouble value, gsize n_elems),
               (dtype, values, value, n_elems))

TPS_CUDA_SLOT (accumulate, (TpsDType dtype, gpointer sum, gconstpointer gradient, gsize n_elems),
               (dtype, sum, gradient, n_elems))

TPS_CUDA_SLOT (scale,
               (TpsDType dtype, gpointer sum, gconstpointer gradient, gdouble weight,
                gsize n_elems),
               (dtype, sum, gradient, weight, n_elems))

TPS_CUDA_SLOT (scale_accumulate,
               (TpsDType dtype, gpointer sum, gconstpointer gradient, gdouble weight,
                gsize n_elems),
               (dtype, sum, gradient, weight, n_elems))

TPS_CUDA_SLOT (divide,
               (TpsDType dtype, gpointer average, gconstpointer sum, gdouble divisor,
                gsize n_elems),
               (dtype, average, sum, divisor, n_elems))

TPS_CUDA_SLOT (embedding_pool,
               (const TpsBags *bags, TpsDType dtype, gconstpointer table, gfloat *output),
               (bags, dtype, table, output))

TPS_CUDA_SLOT (embedding_backward,
               (const TpsBags *bags, const gfloat *output_gradient, gfloat *table_gradient),
               (bags, output_gradient, table_gradient))

TPS_CUDA_SLOT (embedding_backward_rows,
               (const TpsBags *bags, const gfloat *output_gradient, gint64 *unique_indices,
                gfloat *row_gradients, gint64 *n_unique),
               (bags, output_gradient, unique_indices, row_gradients, n_unique))

/* -- optimizers -- */

typedef cudaError_t RowUpdater (cudaStream_t stream, const TpsOptimizerStep *step,
                                const TpsRowUpdate *update);

#define ROW_UPDATER(NAME, name, number) [number] = tps_cuda_##name##_rows,

static RowUpdater *const updaters[] = { TPS_OPTIMIZERS (ROW_UPDATER) };

static void
cuda_update_rows (TpsStream *stream, const TpsOptimizerSpec *spec, gint64 step,
                  const TpsRowUpdate *update)
{
  TpsCudaStream *cuda = stream_of (stream);
  TpsOptimizerStep factors;

  g_assert ((gsize) spec->kind < G_N_ELEMENTS (updaters) && updaters[spec->kind] != NULL);
  tps_cpu_optimizer_step_init (&factors, spec, step);
  if (update->n_rows * update->dim > 0 && tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (cuda, updaters[spec->kind](cuda->handle, &factors, update),
                           "update_rows");
}

const TpsDeviceOps tps_cuda_ops = {
  .name = "cuda",
  .alloc = tps_cuda_alloc,
  .alloc_host = tps_cuda_alloc_host,
  .alloc_exported = tps_cuda_alloc_exported,
  .open_exported = tps_cuda_open_exported,
  .get_uuid = tps_cuda_get_uuid,
  .stream_new = tps_cuda_stream_new,
  .stream_free = tps_cuda_stream_free,
  .stream_sync = tps_cuda_stream_sync,
  .stream_check = tps_cuda_stream_check_failure,
  .event_new = tps_cuda_event_new,
  .event_free = tps_cuda_event_free,
  .event_record = tps_cuda_event_record,
  .stream_wait_event = tps_cuda_stream_wait_event,
  .event_query = tps_cuda_event_query,
  .event_sync = tps_cuda_event_sync,
  .events_elapsed = tps_cuda_events_elapsed,
  .copy = cuda_copy,
  .copy_rows = cuda_copy_rows,
  .zero = cuda_zero,
  .fill = cuda_fill,
  .cast = cuda_cast,
  .accumulate = cuda_accumulate,
  .scale = cuda_scale,
  .scale_accumulate = cuda_scale_accumulate,
  .divide = cuda_divide,
  .embedding_pool = cuda_embedding_pool,
  .embedding_backward = cuda_embedding_backward,
  .embedding_backward_rows = cuda_embedding_backward_rows,
  .update_rows = cuda_update_rows,
};

/* ---- the dense operations of runtime/device/dense.h, which only trainers use ----------------- */

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
