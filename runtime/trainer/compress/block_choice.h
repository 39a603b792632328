/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Selection of the largest blocks of values. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The number of values in a block. In "topk" a block costs an index of 8 bytes. With single values
 * that is 12 bytes for each useful value instead of 4; with 16 values it is 4.5. Larger blocks save
 * little more and select worse, because they include more small gradients. */
#define TPS_TOP_K_BLOCK 16

/* Chooses the `n_wanted` blocks with the largest sums of squares. A block has TPS_TOP_K_BLOCK
 * values; the last may be shorter. `n_wanted` must not exceed the number of blocks. Of equal
 * blocks, the first are chosen. Blocks whose sum of squares is 0 are not chosen, and a block with a
 * NaN counts as the largest.
 *
 * Writes the numbers of the chosen blocks, ascending, to `chosen` [n_wanted] and returns their
 * count. `keys` [blocks] is scratch memory. The result is the same on every CPU. Thread: any. */
gsize tps_block_choice (const gfloat *values, gsize n_elems, gsize n_wanted, guint32 *keys,
                        gint64 *chosen);

G_END_DECLS
