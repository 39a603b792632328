/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Gradients: contributions to an average, and the average itself. A gradient is either dense or
 * consists of some rows of a [rows, dim] matrix. */

#pragma once

#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_GRADIENT_NONE = 0, /* the trainer takes part without data; weight is 0 */
  TPS_GRADIENT_DENSE = 1,
  TPS_GRADIENT_SPARSE = 2,
} TpsGradientKind;

/* A plain value that owns its tensors. An all-zero value is TPS_GRADIENT_NONE with weight 0. Data
 * with weight 0 is allowed: its shape is checked, but its elements do not change the average. */
typedef struct
{
  TpsGradientKind kind;
  gdouble weight;    /* 0, or FLT_MIN to FLT_MAX */
  TpsTensor dense;   /* DENSE: any shape, floating point */
  TpsTensor indices; /* SPARSE: INT64 [nnz] */
  TpsTensor values;  /* SPARSE: [nnz, dim], floating point */
  gint64 rows;       /* SPARSE: number of rows of the whole matrix */
} TpsGradient;

/* Releases the tensors; the gradient is NONE afterwards. */
void tps_gradient_clear (TpsGradient *gradient);

/* Moves the contents of `from` to `to`. `from` is NONE afterwards; the previous contents of `to`
 * are released. */
void tps_gradient_move (TpsGradient *to, TpsGradient *from);

/* Initialises `gradient` as a further owner of the elements of `other`. */
void tps_gradient_init_ref (TpsGradient *gradient, const TpsGradient *other);

/* Checks the weight, the floating-point dtype, indices INT64 [nnz] in [0, rows), and values [nnz,
 * dim]. Reads all indices. Errors: INVALID_ARGUMENT; the message names the value and its
 * position. */
gboolean tps_gradient_check (const TpsGradient *gradient, GError **error);

/* Describes a gradient: "dense FLOAT32 [30, 100]", "sparse FLOAT32 [1024, 64]" (the shape of the
 * whole matrix), or "no data". Owned by the caller. */
gchar *tps_gradient_to_string (const TpsGradient *gradient);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsGradient, tps_gradient_clear)

G_END_DECLS
