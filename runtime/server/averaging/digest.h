/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* 128 bits that stand for a contribution, so that a repeat is known without keeping its bytes: XXH3
 * over kind, weight, shape, dtype and elements. Equal bits of an honest peer mean equal bytes; it
 * is no defence against forgery, and needs none: a trainer can only repeat itself.
 *
 * Elements are hashed in blocks, so that the same visit to a block can hash it and add it up, and
 * so that blocks can be hashed by several threads. Values are of this process only; they never
 * travel.
 *
 * Elements in a device's memory are not read: nothing but the shape is known of them, and a repeat
 * of the same shape counts as one of the same bytes.
 */

#pragma once

#include "runtime/tensor/gradient.h"

G_BEGIN_DECLS

/* What is hashed is still in the first-level cache when it is added up; a multiple of every element
 * size. */
#define TPS_DIGEST_BLOCK_BYTES (32 * 1024)

typedef struct
{
  guint64 low; /* of the elements; both 0 where they were not read */
  guint64 high;
  guint64 shape; /* of everything else; 0 for a block */
} TpsDigest;

/* How many blocks hold `n_bytes`. */
guint tps_digest_n_blocks (gsize n_bytes);

/* The hash of at most TPS_DIGEST_BLOCK_BYTES. Thread: any. */
TpsDigest tps_digest_of_block (gconstpointer data, gsize n_bytes);

/* The digest of a gradient from the hashes of its blocks in order: of `dense`, or of `indices` and
 * then `values`. Thread: any. */
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
