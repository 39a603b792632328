/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The operations of runtime/device/backend.h on a GPU: each enqueues on `stream` of the current
 * device and returns; meanings are those of the slots of the same name. Arrays lie in the device's
 * memory, unless said otherwise. Returned is what CUDA said when the work was enqueued; what goes
 * wrong later shows when the stream is waited for. Thread: any, one stream one at a time. */

#pragma once

#include <cuda_runtime_api.h>

#include "runtime/device/backend.h"
#include "runtime/device/cpu/optimizer/optimizer.h"

G_BEGIN_DECLS

/* Whether there is code in here for devices of a generation, as far as its numbers tell. Needs no
 * context. */
gboolean tps_cuda_has_code_for (gint major, gint minor);
/* Whether there is code in here for the current device, as CUDA says. */
cudaError_t tps_cuda_probe (void);

cudaError_t tps_cuda_fill (cudaStream_t stream, TpsDType dtype, gpointer values, gdouble value,
                           gsize n_elems);
cudaError_t tps_cuda_cast (cudaStream_t stream, TpsDType to_dtype, gpointer to, TpsDType from_dtype,
                           gconstpointer from, gsize n_elems);
cudaError_t tps_cuda_accumulate (cudaStream_t stream, TpsDType dtype, gpointer sum,
                                 gconstpointer gradient, gsize n_elems);
cudaError_t tps_cuda_scale (cudaStream_t stream, TpsDType dtype, gpointer sum,
                            gconstpointer gradient, gdouble weight, gsize n_elems);
cudaError_t tps_cuda_scale_accumulate (cudaStream_t stream, TpsDType dtype, gpointer sum,
                                       gconstpointer gradient, gdouble weight, gsize n_elems);
cudaError_t tps_cuda_divide (cudaStream_t stream, TpsDType dtype, gpointer average,
                             gconstpointer sum, gdouble divisor, gsize n_elems);

/* `n_unique` in the device's memory, [1]. */
cudaError_t tps_cuda_coalesce_rows (cudaStream_t stream, TpsDType dtype, const gint64 *indices,
                                    gconstpointer values, gsize n_rows, gsize dim,
                                    gint64 *unique_indices, gpointer sums, gint64 *n_unique);

cudaError_t tps_cuda_embedding_pool (cudaStream_t stream, const TpsBags *bags, const gfloat *table,
                                     gfloat *output, gint64 *argmax);
cudaError_t tps_cuda_embedding_backward (cudaStream_t stream, const TpsBags *bags,
                                         const gfloat *output_gradient, const gint64 *argmax,
                                         gfloat *table_gradient);
/* `n_unique` in the device's memory, [1]. */
cudaError_t tps_cuda_embedding_backward_rows (cudaStream_t stream, const TpsBags *bags,
                                              const gfloat *output_gradient, const gint64 *argmax,
                                              gint64 *unique_indices, gfloat *row_gradients,
                                              gint64 *n_unique);

cudaError_t tps_cuda_bias_add (cudaStream_t stream, gfloat *values, const gfloat *bias, gsize rows,
                               gsize columns);
cudaError_t tps_cuda_column_sum (cudaStream_t stream, gfloat *sums, const gfloat *values,
                                 gsize rows, gsize columns);
cudaError_t tps_cuda_relu (cudaStream_t stream, gfloat *output, const gfloat *input, gsize n_elems);
cudaError_t tps_cuda_relu_backward (cudaStream_t stream, gfloat *input_gradient,
                                    const gfloat *output_gradient, const gfloat *output,
                                    gsize n_elems);
cudaError_t tps_cuda_softmax (cudaStream_t stream, gfloat *output, const gfloat *input, gsize rows,
                              gsize columns);
cudaError_t tps_cuda_softmax_backward (cudaStream_t stream, gfloat *input_gradient,
                                       const gfloat *output_gradient, const gfloat *output,
                                       gsize rows, gsize columns);
cudaError_t tps_cuda_cross_entropy (cudaStream_t stream, gdouble *loss, gfloat *input_gradient,
                                    const gfloat *input, const gint64 *target, gsize rows,
                                    gsize columns);
cudaError_t tps_cuda_l1_loss (cudaStream_t stream, gdouble *loss, gfloat *input_gradient,
                              const gfloat *input, const gfloat *target, gsize n_elems);

cudaError_t tps_cuda_sgd (cudaStream_t stream, const TpsSgdFactors *factors, gfloat *values,
                          const gfloat *gradient, gfloat *velocity, gsize n_elems);
cudaError_t tps_cuda_sgd_rows (cudaStream_t stream, const TpsSgdFactors *factors, gfloat *values,
                               const gint64 *indices, const gfloat *gradients, gfloat *velocity,
                               gsize n_rows, gsize dim);

/* Optimizers of rows, one file each. `step` is borrowed for the call. */
cudaError_t tps_cuda_adagrad_rows (cudaStream_t stream, const TpsOptimizerStep *step,
                                   const TpsRowUpdate *update);
cudaError_t tps_cuda_rowwise_adagrad_rows (cudaStream_t stream, const TpsOptimizerStep *step,
                                           const TpsRowUpdate *update);
cudaError_t tps_cuda_adam_rows (cudaStream_t stream, const TpsOptimizerStep *step,
                                const TpsRowUpdate *update);
cudaError_t tps_cuda_ftrl_rows (cudaStream_t stream, const TpsOptimizerStep *step,
                                const TpsRowUpdate *update);

G_END_DECLS
