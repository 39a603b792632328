/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The division of work into blocks of threads. Host code. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_CUDA_BLOCK_THREADS 256
/* The largest x dimension of a grid, on every generation. */
#define TPS_CUDA_MAX_BLOCKS G_MAXINT32

/* Computes the number of blocks for `n_items`, with `per_block` items in each; 0 if there are no
 * items. Returns FALSE if this number of blocks exceeds the limit of a grid. */
static inline gboolean
tps_cuda_geometry_blocks (gsize n_items, gsize per_block, guint *n_blocks)
{
  gsize blocks = n_items / per_block + (n_items % per_block != 0 ? 1 : 0);

  *n_blocks = (guint) MIN (blocks, TPS_CUDA_MAX_BLOCKS);
  return blocks <= TPS_CUDA_MAX_BLOCKS;
}

/* Returns the number of columns that a thread handles at once: 4 (one access of 16 bytes) if all
 * rows of the arrays are aligned to 16 bytes, otherwise 1. An array may be NULL. */
static inline gsize
tps_cuda_geometry_columns (gsize dim, gconstpointer a, gconstpointer b, gconstpointer c)
{
  return (dim % 4 | ((gsize) a | (gsize) b | (gsize) c) % 16) == 0 ? 4 : 1;
}

/* Returns the number of low bits that distinguish the ids in [0, n) and -1. If ids are sorted by
 * these bits, -1 comes last, because 2^bits is greater than n. */
static inline gint
tps_cuda_geometry_id_bits (gint64 n)
{
  return n > 0 ? (gint) g_bit_storage ((gulong) n) : 1;
}

G_END_DECLS
