/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Stochastic gradient descent in host memory. The factors are described in
 * runtime/device/backend.h. Arrays are borrowed. The functions never fail. Thread: any. */

#pragma once

#include "runtime/device/backend.h"

/* Takes a step of SGD for `n_elems` values. `velocity` [n_elems] may be NULL if momentum is 0. */
void tps_cpu_sgd (const TpsSgdFactors *factors, gfloat *values, const gfloat *gradient,
                  gfloat *velocity, gsize n_elems);
/* Updates the rows `indices` [n_rows], which must be unique, of values [., dim] and of velocity [.,
 * dim] by one step of SGD. `gradients` is [n_rows, dim]; `velocity` may be NULL if momentum is
 * 0. */
void tps_cpu_sgd_rows (const TpsSgdFactors *factors, gfloat *values, const gint64 *indices,
                       const gfloat *gradients, gfloat *velocity, gsize n_rows, gsize dim);
