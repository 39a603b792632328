/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The slots of runtime/device/backend.h. Each slot calls its kernel, unless the stream is in the
 * error state, and stores a failure in the stream. */

#include "cuda/device/blas.h"
#include "cuda/device/device.h"
#include "cuda/kernels/kernels.h"

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

static void
cuda_cast (TpsStream *stream, TpsDType to_dtype, gpointer to, TpsDType from_dtype,
           gconstpointer from, gsize n_elems)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (
        cuda, tps_cuda_cast (cuda->handle, to_dtype, to, from_dtype, from, n_elems), "cast");
}

static void
cuda_fill (TpsStream *stream, TpsDType dtype, gpointer values, gdouble value, gsize n_elems)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (cuda, tps_cuda_fill (cuda->handle, dtype, values, value, n_elems),
                           "fill");
}

static void
cuda_accumulate (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                 gsize n_elems)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (cuda, tps_cuda_accumulate (cuda->handle, dtype, sum, gradient, n_elems),
                           "accumulate");
}

static void
cuda_scale (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient, gdouble weight,
            gsize n_elems)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (
        cuda, tps_cuda_scale (cuda->handle, dtype, sum, gradient, weight, n_elems), "scale");
}

static void
cuda_scale_accumulate (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                       gdouble weight, gsize n_elems)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (
        cuda, tps_cuda_scale_accumulate (cuda->handle, dtype, sum, gradient, weight, n_elems),
        "scale_accumulate");
}

static void
cuda_divide (TpsStream *stream, TpsDType dtype, gpointer average, gconstpointer sum,
             gdouble divisor, gsize n_elems)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (
        cuda, tps_cuda_divide (cuda->handle, dtype, average, sum, divisor, n_elems), "divide");
}

static void
cuda_embedding_pool (TpsStream *stream, const TpsBags *bags, TpsDType dtype, gconstpointer table,
                     gfloat *output)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (cuda, tps_cuda_embedding_pool (cuda->handle, bags, dtype, table, output),
                           "embedding_pool");
}

static void
cuda_embedding_backward (TpsStream *stream, const TpsBags *bags, const gfloat *output_gradient,
                         gfloat *table_gradient)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (
        cuda, tps_cuda_embedding_backward (cuda->handle, bags, output_gradient, table_gradient),
        "embedding_backward");
}

static void
cuda_bias_add (TpsStream *stream, gfloat *values, const gfloat *bias, gsize rows, gsize columns)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (cuda, tps_cuda_bias_add (cuda->handle, values, bias, rows, columns),
                           "bias_add");
}

static void
cuda_column_sum (TpsStream *stream, gfloat *sums, const gfloat *values, gsize rows, gsize columns)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (cuda, tps_cuda_column_sum (cuda->handle, sums, values, rows, columns),
                           "column_sum");
}

static void
cuda_relu (TpsStream *stream, gfloat *output, const gfloat *input, gsize n_elems)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (cuda, tps_cuda_relu (cuda->handle, output, input, n_elems), "relu");
}

static void
cuda_relu_backward (TpsStream *stream, gfloat *input_gradient, const gfloat *output_gradient,
                    const gfloat *output, gsize n_elems)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (
        cuda,
        tps_cuda_relu_backward (cuda->handle, input_gradient, output_gradient, output, n_elems),
        "relu_backward");
}

static void
cuda_softmax (TpsStream *stream, gfloat *output, const gfloat *input, gsize rows, gsize columns)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (cuda, tps_cuda_softmax (cuda->handle, output, input, rows, columns),
                           "softmax");
}

static void
cuda_softmax_backward (TpsStream *stream, gfloat *input_gradient, const gfloat *output_gradient,
                       const gfloat *output, gsize rows, gsize columns)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (cuda,
                           tps_cuda_softmax_backward (cuda->handle, input_gradient, output_gradient,
                                                      output, rows, columns),
                           "softmax_backward");
}

static void
cuda_cross_entropy (TpsStream *stream, gdouble *loss, gfloat *input_gradient, const gfloat *input,
                    const gint64 *target, gsize rows, gsize columns)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (
        cuda,
        tps_cuda_cross_entropy (cuda->handle, loss, input_gradient, input, target, rows, columns),
        "cross_entropy");
}

static void
cuda_l1_loss (TpsStream *stream, gdouble *loss, gfloat *input_gradient, const gfloat *input,
              const gfloat *target, gsize n_elems)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (
        cuda, tps_cuda_l1_loss (cuda->handle, loss, input_gradient, input, target, n_elems),
        "l1_loss");
}

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

/* -- rows of equal id -- */

static void
cuda_coalesce_rows (TpsStream *stream, TpsDType dtype, const gint64 *indices, gint64 bound,
                    gconstpointer values, gsize n_rows, gsize dim, gint64 *unique_indices,
                    gpointer sums, gint64 *n_unique)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (cuda,
                           tps_cuda_coalesce_rows (cuda->handle, dtype, indices, bound, values,
                                                   n_rows, dim, unique_indices, sums, n_unique),
                           "coalesce_rows");
}

static void
cuda_embedding_backward_rows (TpsStream *stream, const TpsBags *bags, const gfloat *output_gradient,
                              gint64 *unique_indices, gfloat *row_gradients, gint64 *n_unique)
{
  TpsCudaStream *cuda = stream_of (stream);

  if (tps_cuda_stream_enter (cuda))
    tps_cuda_stream_check (cuda,
                           tps_cuda_embedding_backward_rows (cuda->handle, bags, output_gradient,
                                                             unique_indices, row_gradients,
                                                             n_unique),
                           "embedding_backward_rows");
}

/* -- products -- */

/* Computes c = beta * c, the result for k = 0. If beta is 0, c is not read. */
static void
scale_result (TpsStream *stream, const TpsGemm *gemm)
{
  gsize n_elems = gemm->m * gemm->n;

  if (gemm->beta == 0)
    cuda_zero (stream, gemm->c, n_elems * sizeof gemm->c[0]);
  else
    cuda_scale (stream, TPS_DTYPE_FLOAT32, gemm->c, gemm->c, (gdouble) gemm->beta, n_elems);
}

static void
cuda_gemm (TpsStream *stream, const TpsGemm *gemm)
{
  TpsCudaStream *cuda = stream_of (stream);
  GError *error = NULL;

  if (gemm->m == 0 || gemm->n == 0)
    return;
  if (gemm->k == 0)
    {
      scale_result (stream, gemm);
      return;
    }
  if (!tps_cuda_stream_enter (cuda))
    return;
  if (cuda->cublas == NULL)
    cuda->cublas = tps_cuda_blas_handle_new ((TpsCudaDevice *) stream->device, cuda->handle,
                                             &error);
  if (cuda->cublas == NULL || !tps_cuda_blas_gemm (cuda->cublas, gemm, &error))
    tps_cuda_stream_fail (cuda, error);
}

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
  .coalesce_rows = cuda_coalesce_rows,
  .embedding_pool = cuda_embedding_pool,
  .embedding_backward = cuda_embedding_backward,
  .embedding_backward_rows = cuda_embedding_backward_rows,
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
  .update_rows = cuda_update_rows,
};
