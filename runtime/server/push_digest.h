/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The digest of a request, XXH3-128 over its parts in order. It tells a repeat from another request
 * that was given the same push id by mistake; it is no defence against forgery. Values are of this
 * process only; they never travel.
 *
 *   TpsPushHash *hash = tps_push_hash_new ();
 *   tps_push_hash_add_string (hash, table);
 *   tps_push_hash_add_tensor (hash, indices);
 *   digest = tps_push_hash_end (hash);
 */

#pragma once

#include "runtime/server/push_window.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

typedef struct TpsPushHash TpsPushHash;

/* One thread at a time. */
TpsPushHash *tps_push_hash_new (void);

/* Each part says how long it is, so that no two lists of parts are the same bytes. */
void tps_push_hash_add_i64 (TpsPushHash *hash, gint64 value);
void tps_push_hash_add_string (TpsPushHash *hash, const gchar *text);
/* Shape, dtype and elements. All zero = no tensor, which is different from an empty one. */
void tps_push_hash_add_tensor (TpsPushHash *hash, TpsTensorView tensor);
/* A tensor whose elements are known by the digests of their blocks, which is not the same part. */
void tps_push_hash_add_blocks (TpsPushHash *hash, const TpsShape *shape,
                               const TpsPushDigest *blocks, gsize n_blocks);

/* The digest; frees `hash`. */
TpsPushDigest tps_push_hash_end (TpsPushHash *hash);

/* Of bytes alone, such as a block of a tensor. Thread: any. */
TpsPushDigest tps_push_digest_of_bytes (gconstpointer bytes, gsize n_bytes);

G_END_DECLS
