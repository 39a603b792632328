/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Normal numbers by the ziggurat method, which is several times as fast as the method of
 * runtime/base/rng.h and gives a different sequence. Source: Marsaglia and Tsang, The Ziggurat
 * Method for Generating Random Variables, Journal of Statistical Software 5, 2000, with Doornik's
 * improvement that the layer and the number come from different bits. One word of the generator
 * suffices for nearly every number. The numbers are the same on every platform.
 */

#pragma once

#include "runtime/base/rng.h"

G_BEGIN_DECLS

/* Fills `values` [n] with normal numbers of mean 0 and standard deviation 1. Except in the tail, a
 * number is a multiple of 2^-24 of its layer's width. */
void tps_ziggurat_fill (TpsRng *rng, gfloat *values, gsize n);

G_END_DECLS
