/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How work is cut into blocks of threads. Host code. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_CUDA_BLOCK_THREADS 256
/* The largest x of a grid, on every generation. */
#define TPS_CUDA_MAX_BLOCKS G_MAXINT32

/* Blocks for `n_items` of which a block does `per_block`; 0 of none. FALSE: more than a grid can
 * have. */
static inline gboolean
tps_cuda_geometry_blocks (gsize n_items, gsize per_block, guint *n_blocks)
{
  gsize blocks = n_items / per_block + (n_items % per_block != 0 ? 1 : 0);

  *n_blocks = (guint) MIN (blocks, TPS_CUDA_MAX_BLOCKS);
  return blocks <= TPS_CUDA_MAX_BLOCKS;
}

/* Columns that a thread does at once: 4, as one access of 16 bytes, where all rows begin at such a
 * boundary; else 1. */
static inline gsize
tps_cuda_geometry_columns (gsize dim, gconstpointer a, gconstpointer b, gconstpointer c)
{
  return (dim % 4 | ((gsize) a | (gsize) b | (gsize) c) % 16) == 0 ? 4 : 1;
}

/* The lowest bits that tell ids of [0, n), and -1, from each other and keep -1 last: 2^bits is
 * above n. */
static inline gint
tps_cuda_geometry_id_bits (gint64 n)
{
  return n > 0 ? (gint) g_bit_storage ((gulong) n) : 1;
}

G_END_DECLS
