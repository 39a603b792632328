/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One contribution to an average, and the average itself: dense, or some rows of a [rows, dim]
 * matrix. */

#pragma once

#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_GRADIENT_NONE = 0, /* takes part without data; weight is 0 */
  TPS_GRADIENT_DENSE = 1,
  TPS_GRADIENT_SPARSE = 2,
} TpsGradientKind;

/* A plain value that owns its tensors. All zero = TPS_GRADIENT_NONE with weight 0.
 * Data with weight 0 is allowed: its shape counts, its elements do not. */
typedef struct
{
  TpsGradientKind kind;
  gdouble weight;    /* finite, >= 0 */
  TpsTensor dense;   /* DENSE: any shape, floating point */
  TpsTensor indices; /* SPARSE: INT64 [nnz] */
  TpsTensor values;  /* SPARSE: [nnz, dim], floating point */
  gint64 rows;       /* SPARSE: of the whole matrix */
} TpsGradient;

void tps_gradient_clear (TpsGradient *gradient);

/* Moves ownership: `from` is empty afterwards, what `to` held is released. */
void tps_gradient_move (TpsGradient *to, TpsGradient *from);

/* Another owner of the same elements. */
void tps_gradient_init_ref (TpsGradient *gradient, const TpsGradient *other);

/* Checks what does not depend on other gradients: weight, floating-point dtype, indices INT64 [nnz]
 * in [0, rows), values [nnz, dim]. Reads all indices. Errors: TPS_ERROR_INVALID_ARGUMENT naming
 * what and where. Thread: any. */
gboolean tps_gradient_check (const TpsGradient *gradient, GError **error);

/* "dense FLOAT32 [30, 100]", "sparse FLOAT32 [1024, 64]" (the shape of the whole matrix), "no
 * data"; owned. */
gchar *tps_gradient_to_string (const TpsGradient *gradient);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsGradient, tps_gradient_clear)

G_END_DECLS
