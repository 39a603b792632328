/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* 128 bits that stand for a contribution, so that a repeat is recognised without its bytes: XXH3
 * over kind, weight, shape, dtype and elements. Equal digests from an honest peer mean equal bytes.
 * The digest does not protect against forgery, and need not: a trainer that forges a collision
 * affects only its own contribution.
 *
 * Elements are hashed in blocks, so that one visit to a block can hash it and add it up, and so
 * that several threads can hash blocks. Digests are meaningful within one process only; they are
 * never sent.
 *
 * Elements in a device's memory are not read. Only their shape is known, and a repeat with the same
 * shape counts as one with the same bytes.
 */

#pragma once

#include "runtime/tensor/gradient.h"

G_BEGIN_DECLS

/* The size of a block: `digest_block_bytes` of runtime/machine/tuning.h, a multiple of the size of
 * every element. */
gsize tps_digest_get_block_bytes (void);

typedef struct
{
  guint64 low; /* of the elements; both 0 where they were not read */
  guint64 high;
  guint64 shape; /* of everything else; 0 for a block */
} TpsDigest;

/* The number of blocks of `n_bytes`. */
guint tps_digest_n_blocks (gsize n_bytes);

/* The hash of at most one block. Thread: any. */
TpsDigest tps_digest_of_block (gconstpointer data, gsize n_bytes);

/* The digest of a gradient from the hashes of its blocks in order: those of `dense`, or those of
 * `indices` and then `values`. Thread: any. */
TpsDigest tps_digest_combine (const TpsGradient *gradient, const TpsDigest *blocks, guint n_blocks);

/* The digest of a gradient, all at once. Reads all elements that the host can read. Thread: any. */
TpsDigest tps_digest_of_gradient (const TpsGradient *gradient);

static inline gboolean
tps_digest_is_read (const TpsDigest *digest)
{
  return (digest->low | digest->high) != 0;
}

static inline gboolean
tps_digest_equal (const TpsDigest *a, const TpsDigest *b)
{
  if (!tps_digest_is_read (a) || !tps_digest_is_read (b))
    return a->shape == b->shape;
  return a->low == b->low && a->high == b->high && a->shape == b->shape;
}

G_END_DECLS
