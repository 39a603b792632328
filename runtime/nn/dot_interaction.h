/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The dot interaction of DLRM: the products of all pairs of vectors of a sample. The arithmetic is
 * that of the "dot" interaction of Naumov et al., Deep Learning Recommendation Model for
 * Personalization and Recommendation Systems, 2019, without the products of a vector with itself.
 *
 * The arrays must be in host memory, because the triangle of the products is gathered here. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* The sizes: vectors of a sample, and floats of a vector. */
typedef struct
{
  gsize n_vectors, dim;
} TpsDotInteraction;

/* Returns the width of the output: dim + n_vectors * (n_vectors - 1) / 2. */
gsize tps_dot_interaction_get_width (const TpsDotInteraction *interaction);

/* For each sample, writes the first vector and then the products of vector i with all vectors j <
 * i, for i = 1, 2, … features: [rows, n_vectors, dim]; scratch: [n_vectors, n_vectors]; output:
 * [rows, width]. The stream must be of the CPU. */
void tps_dot_interaction_forward (const TpsDotInteraction *interaction, TpsStream *stream,
                                  const gfloat *features, gfloat *scratch, gfloat *output,
                                  gsize rows);

/* Computes the gradient of the features, [rows, n_vectors, dim], from the features and the gradient
 * of the output. */
void tps_dot_interaction_backward (const TpsDotInteraction *interaction, TpsStream *stream,
                                   const gfloat *features, const gfloat *output_gradient,
                                   gfloat *scratch, gfloat *feature_gradient, gsize rows);

G_END_DECLS
