/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The operations of runtime/device/backend.h on a GPU. Each function enqueues on `stream` of the
 * current device and returns. It has the meaning and the requirements of the slot of the same name.
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

/* Returns TRUE if this library has code for devices of the generation major.minor. Needs no
 * context. Thread: any. */
gboolean tps_cuda_has_code_for (gint major, gint minor);
/* Checks with CUDA that this library has code for the current device. Enqueues nothing. Thread:
 * any. */
cudaError_t tps_cuda_probe (void);

/* Sets `n_elems` values to `value`, converted to `dtype` (any type). */
cudaError_t tps_cuda_fill (cudaStream_t stream, TpsDType dtype, gpointer values, gdouble value,
                           gsize n_elems);
/* Converts `n_elems` elements between any two types. The arrays must not overlap, unless both are
 * the same array of the same type. */
cudaError_t tps_cuda_cast (cudaStream_t stream, TpsDType to_dtype, gpointer to, TpsDType from_dtype,
                           gconstpointer from, gsize n_elems);
/* Adds a gradient of `dtype` to a sum, which has the type of sums for `dtype`; [n_elems] each. */
cudaError_t tps_cuda_accumulate (cudaStream_t stream, TpsDType dtype, gpointer sum,
                                 gconstpointer gradient, gsize n_elems);
/* Sets a sum to `weight` times a gradient; [n_elems] each. Starts a sum. */
cudaError_t tps_cuda_scale (cudaStream_t stream, TpsDType dtype, gpointer sum,
                            gconstpointer gradient, gdouble weight, gsize n_elems);
/* Adds `weight` times a gradient to a sum; [n_elems] each. */
cudaError_t tps_cuda_scale_accumulate (cudaStream_t stream, TpsDType dtype, gpointer sum,
                                       gconstpointer gradient, gdouble weight, gsize n_elems);
/* Sets `average` of `dtype` to the sum divided by `divisor`, rounded once; [n_elems] each. May be
 * in place if the types are equal. */
cudaError_t tps_cuda_divide (cudaStream_t stream, TpsDType dtype, gpointer average,
                             gconstpointer sum, gdouble divisor, gsize n_elems);

/* Combines rows of equal id: `indices` [n_rows] in [0, bound), or any ids >= 0 if `bound` is 0;
 * `values` [n_rows, dim] of `dtype`. Writes *n_unique, the first *n_unique ids of `unique_indices`,
 * and rows of `sums` [., dim]. Takes scratch memory. Errors: also cudaErrorInvalidValue (2^32 - 1
 * rows or more). */
cudaError_t tps_cuda_coalesce_rows (cudaStream_t stream, TpsDType dtype, const gint64 *indices,
                                    gint64 bound, gconstpointer values, gsize n_rows, gsize dim,
                                    gint64 *unique_indices, gpointer sums, gint64 *n_unique);

/* Pools the rows of each bag into output [n_bags, dim]. `table` is [rows, dim] of FLOAT32, FLOAT16
 * or BFLOAT16. */
cudaError_t tps_cuda_embedding_pool (cudaStream_t stream, const TpsBags *bags, TpsDType dtype,
                                     gconstpointer table, gfloat *output);
/* Writes table_gradient [rows, dim], the dense gradient of a table, from output_gradient [n_bags,
 * dim]. Takes scratch memory. Errors: also cudaErrorInvalidValue (2^32 - 1 indices or more). */
cudaError_t tps_cuda_embedding_backward (cudaStream_t stream, const TpsBags *bags,
                                         const gfloat *output_gradient, gfloat *table_gradient);
/* As tps_cuda_embedding_backward(), but writes the gradient as *n_unique rows: their ids to
 * `unique_indices` [capacity], and the rows to `row_gradients` [capacity, dim]. */
cudaError_t tps_cuda_embedding_backward_rows (cudaStream_t stream, const TpsBags *bags,
                                              const gfloat *output_gradient, gint64 *unique_indices,
                                              gfloat *row_gradients, gint64 *n_unique);

/* Adds bias [columns] to each row of values [rows, columns]. */
cudaError_t tps_cuda_bias_add (cudaStream_t stream, gfloat *values, const gfloat *bias, gsize rows,
                               gsize columns);
/* Writes sums [columns], the sum over the rows of values [rows, columns]. Takes scratch memory. */
cudaError_t tps_cuda_column_sum (cudaStream_t stream, gfloat *sums, const gfloat *values,
                                 gsize rows, gsize columns);
/* Sets output[i] = max (input[i], 0); [n_elems] each. NaN stays NaN. May be in place. */
cudaError_t tps_cuda_relu (cudaStream_t stream, gfloat *output, const gfloat *input, gsize n_elems);
/* Sets input_gradient[i] to output_gradient[i] where output[i] > 0, otherwise to 0; [n_elems] each.
 * May be in place. */
cudaError_t tps_cuda_relu_backward (cudaStream_t stream, gfloat *input_gradient,
                                    const gfloat *output_gradient, const gfloat *output,
                                    gsize n_elems);
/* Writes output [rows, columns], the softmax of each row of `input`. May be in place. */
cudaError_t tps_cuda_softmax (cudaStream_t stream, gfloat *output, const gfloat *input, gsize rows,
                              gsize columns);
/* Writes the gradient of the input of a softmax from its `output` and the gradient of the output;
 * [rows, columns] each. May be in place. */
cudaError_t tps_cuda_softmax_backward (cudaStream_t stream, gfloat *input_gradient,
                                       const gfloat *output_gradient, const gfloat *output,
                                       gsize rows, gsize columns);
/* Writes *loss, the mean cross-entropy of the rows of input [rows, columns] with the classes target
 * [rows], and its gradient. `loss` and `input_gradient` may be NULL; the gradient may be in place.
 * Takes scratch memory for the loss. */
cudaError_t tps_cuda_cross_entropy (cudaStream_t stream, gdouble *loss, gfloat *input_gradient,
                                    const gfloat *input, const gint64 *target, gsize rows,
                                    gsize columns);
/* Writes *loss, the mean of |input - target|, and its gradient; arrays are [n_elems]. `loss` and
 * `input_gradient` may be NULL; the gradient may be in place. Takes scratch memory for the loss. */
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

/* Updates `n_elems` values by one step of SGD. `velocity` [n_elems] may be NULL if momentum is
 * 0. */
cudaError_t tps_cuda_sgd (cudaStream_t stream, const TpsOptimizerStep *step, gfloat *values,
                          const gfloat *gradient, gfloat *velocity, gsize n_elems);

G_END_DECLS
