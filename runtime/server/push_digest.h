/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The digest of a request, XXH3-128 over its parts in order. It distinguishes a repeat from a
 * different request that was given the same push id by mistake. It is no defence against forgery.
 * Snapshots store digests; they are never sent.
 *
 *   TpsPushHash *hash = tps_push_hash_new ();
 *   tps_push_hash_add_string (hash, table);
 *   tps_push_hash_add_tensor (hash, indices);
 *   digest = tps_push_hash_end (hash);
 */

#pragma once

#include <string.h>

#include "runtime/server/push_window.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

typedef struct TpsPushHash TpsPushHash;

/* Begins a digest. tps_push_hash_end() frees the hash. Thread: one at a time. */
TpsPushHash *tps_push_hash_new (void);

/* Add a part. Strings and tensors include their lengths, so two different lists of parts of the
 * same kinds never have the same bytes. */
void tps_push_hash_add_i64 (TpsPushHash *hash, gint64 value);
void tps_push_hash_add_string (TpsPushHash *hash, const gchar *text);
/* Adds shape, dtype and elements. A view that is all zero means that there is no tensor, which
 * differs from an empty tensor. */
void tps_push_hash_add_tensor (TpsPushHash *hash, TpsTensorView tensor);
/* Adds a tensor by the digests of its blocks. The result differs from that of
 * tps_push_hash_add_tensor(). */
void tps_push_hash_add_blocks (TpsPushHash *hash, const TpsShape *shape,
                               const TpsPushDigest *blocks, gsize n_blocks);

/* Returns the digest and frees `hash`. */
TpsPushDigest tps_push_hash_end (TpsPushHash *hash);

/* Returns the digest of plain bytes, such as a block of a tensor. Thread: any. */
TpsPushDigest tps_push_digest_of_bytes (gconstpointer bytes, gsize n_bytes);

/* Returns TRUE if both digests are equal. Thread: any. */
static inline gboolean
tps_push_digest_is_same (const TpsPushDigest *a, const TpsPushDigest *b)
{
  return memcmp (a->bytes, b->bytes, sizeof a->bytes) == 0;
}

G_END_DECLS
