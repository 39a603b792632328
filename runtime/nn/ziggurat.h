/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Normal numbers, several times faster than runtime/nn/rng.h makes them, and others: by the
 * ziggurat method (Marsaglia and Tsang: The Ziggurat Method for Generating Random Variables,
 * Journal of Statistical Software 5, 2000), with Doornik's improvement that the layer and the
 * number come from different bits. One word of the generator makes nearly every number. The same on
 * every platform, as all of rng.h.
 */

#pragma once

#include "runtime/nn/rng.h"

G_BEGIN_DECLS

/* Mean 0, deviation 1; each is a multiple of 2^-24 of its layer's width. */
void tps_ziggurat_fill (TpsRng *rng, gfloat *values, gsize n);

G_END_DECLS
