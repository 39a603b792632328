/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Which blocks of values are the largest. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Values in a block. In "topk" a block costs an index of 8 bytes: with single values that is three
 * bytes for each one that is of use, with 16 values 1.125. Larger blocks save little more and
 * choose worse: small gradients travel along. */
#define TPS_TOP_K_BLOCK 16

/* Blocks of TPS_TOP_K_BLOCK values, the last one may be short; `n_wanted` is at most their number.
 *
 * Chooses those whose sum of squares is largest, of equal ones the first, and puts their numbers,
 * ascending, into `chosen` [n_wanted]. Blocks of zeros are not chosen; one with a NaN counts as the
 * largest. Returns how many were chosen. `keys`
 * [blocks] is scratch memory. The same on every CPU. */
gsize tps_block_choice (const gfloat *values, gsize n_elems, gsize n_wanted, guint32 *keys,
                        gint64 *chosen);

G_END_DECLS
