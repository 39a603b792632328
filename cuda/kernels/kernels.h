/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The operations of runtime/device/backend.h on a GPU. Each function enqueues on `stream` of the
 * current device and returns. It has the meaning and the requirements of the slot of the same name
 * in TpsDeviceOps or TpsDenseOps.
 * Arrays are borrowed until the stream has passed the operation, and lie in device memory unless
 * stated otherwise. Structs are copied. The result is CUDA's status of enqueuing: cudaSuccess,
 * cudaErrorMemoryAllocation (no scratch memory), cudaErrorInvalidConfiguration (too many elements
 * for a grid), or another CUDA error. Later failures are reported when the stream is waited for.
 * Thread: any; a stream must be used by one thread at a time. */

#pragma once

#include <cuda_runtime_api.h>

#include "runtime/device/backend.h"
#include "runtime/device/cpu/optimizer/optimizer.h"

G_BEGIN_DECLS

/* TRUE: the library has code for the generation major.minor. Needs no context. Thread: any. */
gboolean tps_cuda_has_code_for (gint major, gint minor);
/* Checks with CUDA that this library has code for the current device. Enqueues nothing. Thread:
 * any. */
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

cudaError_t tps_cuda_embedding_pool (cudaStream_t stream, const TpsBags *bags, TpsDType dtype,
                                     gconstpointer table, gfloat *output);
/* Take scratch memory. Errors: also cudaErrorInvalidValue (2^32 - 1 indices or more). */
cudaError_t tps_cuda_embedding_backward (cudaStream_t stream, const TpsBags *bags,
                                         const gfloat *output_gradient, gfloat *table_gradient);
cudaError_t tps_cuda_embedding_backward_rows (cudaStream_t stream, const TpsBags *bags,
                                              const gfloat *output_gradient, gint64 *unique_indices,
                                              gfloat *row_gradients, gint64 *n_unique);

cudaError_t tps_cuda_bias_add (cudaStream_t stream, gfloat *values, const gfloat *bias, gsize rows,
                               gsize columns);
/* Takes scratch memory. */
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
/* Take scratch memory for the loss. `loss` and `input_gradient` may be NULL. */
cudaError_t tps_cuda_cross_entropy (cudaStream_t stream, gdouble *loss, gfloat *input_gradient,
                                    const gfloat *input, const gint64 *target, gsize rows,
                                    gsize columns);
cudaError_t tps_cuda_l1_loss (cudaStream_t stream, gdouble *loss, gfloat *input_gradient,
                              const gfloat *input, const gfloat *target, gsize n_elems);

/* Update rows by one step of an optimizer, one function each: tps_cuda_sgd_rows(), … `step` is
 * borrowed for the call. The formulas and the layout of the state are in
 * runtime/device/cpu/optimizer/. Without momentum SGD has no state (NULL). Errors: also
 * cudaErrorInvalidValue (an integer type or FLOAT64). */
#define TPS_CUDA_OPTIMIZER_ROWS(NAME, name, number)                                      \
  cudaError_t tps_cuda_##name##_rows (cudaStream_t stream, const TpsOptimizerStep *step, \
                                      const TpsRowUpdate *update);
TPS_OPTIMIZERS (TPS_CUDA_OPTIMIZER_ROWS)
#undef TPS_CUDA_OPTIMIZER_ROWS

/* Takes a step of SGD for `n_elems` values. `velocity` [n_elems] may be NULL if momentum is 0. */
cudaError_t tps_cuda_sgd (cudaStream_t stream, const TpsOptimizerStep *step, gfloat *values,
                          const gfloat *gradient, gfloat *velocity, gsize n_elems);

G_END_DECLS
