/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The operations of runtime/device/backend.h on a GPU. Each function enqueues on `stream` of the
 * current device and returns; its meaning is that of the slot of the same name. Arrays lie in
 * device memory unless stated otherwise. The result is CUDA's status of enqueuing; later failures
 * are reported when the stream is waited for. Thread: any; a stream must be used by one thread at a
 * time. */

#pragma once

#include <cuda_runtime_api.h>

#include "runtime/device/backend.h"
#include "runtime/device/cpu/optimizer/optimizer.h"

G_BEGIN_DECLS

/* Returns TRUE if this library has code for devices of the generation major.minor. Needs no
 * context. */
gboolean tps_cuda_has_code_for (gint major, gint minor);
/* Checks with CUDA that this library has code for the current device. */
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

cudaError_t tps_cuda_coalesce_rows (cudaStream_t stream, TpsDType dtype, const gint64 *indices,
                                    gint64 bound, gconstpointer values, gsize n_rows, gsize dim,
                                    gint64 *unique_indices, gpointer sums, gint64 *n_unique);

cudaError_t tps_cuda_embedding_pool (cudaStream_t stream, const TpsBags *bags, TpsDType dtype,
                                     gconstpointer table, gfloat *output, gint64 *argmax);
cudaError_t tps_cuda_embedding_backward (cudaStream_t stream, const TpsBags *bags,
                                         const gfloat *output_gradient, const gint64 *argmax,
                                         gfloat *table_gradient);
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
/* The state of a row is its velocity; NULL if momentum is 0. `step` is the number of the step,
 * which only stochastic rounding uses. */
cudaError_t tps_cuda_sgd_rows (cudaStream_t stream, const TpsSgdFactors *factors, gint64 step,
                               const TpsRowUpdate *update);

/* Optimizers of rows, one file for each. `step` is borrowed for the call. */
cudaError_t tps_cuda_adagrad_rows (cudaStream_t stream, const TpsOptimizerStep *step,
                                   const TpsRowUpdate *update);
cudaError_t tps_cuda_rowwise_adagrad_rows (cudaStream_t stream, const TpsOptimizerStep *step,
                                           const TpsRowUpdate *update);
cudaError_t tps_cuda_adam_rows (cudaStream_t stream, const TpsOptimizerStep *step,
                                const TpsRowUpdate *update);
cudaError_t tps_cuda_ftrl_rows (cudaStream_t stream, const TpsOptimizerStep *step,
                                const TpsRowUpdate *update);

G_END_DECLS
