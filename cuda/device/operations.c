/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The slots of runtime/device/backend.h. Each slot calls its kernel, unless the stream is in the
 * error state, and stores a failure in the stream. */

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

/* -- rows of equal id -- */

TPS_CUDA_SLOT (coalesce_rows,
               (TpsDType dtype, const gint64 *indices, gint64 bound, gconstpointer values,
                gsize n_rows, gsize dim, gint64 *unique_indices, gpointer sums, gint64 *n_unique),
               (dtype, indices, bound, values, n_rows, dim, unique_indices, sums, n_unique))

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
  .coalesce_rows = cuda_coalesce_rows,
  .embedding_pool = cuda_embedding_pool,
  .embedding_backward = cuda_embedding_backward,
  .embedding_backward_rows = cuda_embedding_backward_rows,
  .update_rows = cuda_update_rows,
};
