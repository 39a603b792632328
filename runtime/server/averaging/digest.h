/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* 128 bits that stand for a contribution, so that a repeat is recognised without its bytes: XXH3
 * over kind, weight, shape, dtype and elements. It need not protect against forgery: a trainer that
 * forges a collision affects only its own contribution.
 *
 * Elements are hashed in blocks: one visit to a block can hash it and add it up, on any thread.
 * Digests are meaningful only within one process. Elements in a device's memory are not read: a
 * repeat with the same kind, weight, shape and dtype counts as equal. */

#pragma once

#include "runtime/tensor/gradient.h"

G_BEGIN_DECLS

typedef struct
{
  guint64 low; /* hash of the elements; both words are 0 if the elements were not read */
  guint64 high;
  guint64 shape; /* hash of everything else; 0 for a block */
} TpsDigest;

guint tps_digest_n_blocks (gsize n_bytes);

/* Returns the hash of `n_bytes`, at most one block. Thread: any. */
TpsDigest tps_digest_of_block (gconstpointer data, gsize n_bytes);

/* Returns the digest of a gradient from the hashes of its blocks, in order: the blocks of `dense`,
 * or those of `indices` and then those of `values`. Thread: any. */
TpsDigest tps_digest_combine (const TpsGradient *gradient, const TpsDigest *blocks, guint n_blocks);

/* Computes a gradient's digest. Reads all elements that the host can read. Thread: any. */
TpsDigest tps_digest_of_gradient (const TpsGradient *gradient);

/* Returns TRUE if the elements were read. */
static inline gboolean
tps_digest_is_read (const TpsDigest *digest)
{
  return (digest->low | digest->high) != 0;
}

/* Returns TRUE if the digests are equal. If the elements of either gradient were not read, compares
 * only kind, weight, shape and dtype. */
static inline gboolean
tps_digest_equal (const TpsDigest *a, const TpsDigest *b)
{
  if (!tps_digest_is_read (a) || !tps_digest_is_read (b))
    return a->shape == b->shape;
  return a->low == b->low && a->high == b->high && a->shape == b->shape;
}

G_END_DECLS
