/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The dot interaction of DLRM: the dot products of all pairs of vectors of a sample. The arithmetic
 * is that of the "dot" interaction of Naumov et al., Deep Learning Recommendation Model for
 * Personalization and Recommendation Systems, 2019, without the products of a vector with itself.
 *
 * The arrays must be in host memory, because the CPU gathers the triangle of the products. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* The numbers of vectors of a sample and of floats of a vector. */
typedef struct
{
  gsize n_vectors, dim;
} TpsDotInteraction;

/* Returns the width of the output: dim + n_vectors * (n_vectors - 1) / 2. */
gsize tps_dot_interaction_get_width (const TpsDotInteraction *interaction);

/* For each sample, writes the first vector and then, for i = 1, 2, …, the products of vector i with
 * all vectors j < i. `features` is [rows, n_vectors, dim], `scratch` [n_vectors, n_vectors], and
 * `output` [rows, width]. The stream must belong to the CPU. */
void tps_dot_interaction_forward (const TpsDotInteraction *interaction, TpsStream *stream,
                                  const gfloat *features, gfloat *scratch, gfloat *output,
                                  gsize rows);

/* Computes `feature_gradient` [rows, n_vectors, dim] from the features and the gradient of the
 * output [rows, width]. `scratch` and the stream are as above. */
void tps_dot_interaction_backward (const TpsDotInteraction *interaction, TpsStream *stream,
                                   const gfloat *features, const gfloat *output_gradient,
                                   gfloat *scratch, gfloat *feature_gradient, gsize rows);

G_END_DECLS
