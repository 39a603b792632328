/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The digest of a push: of its trainer, version and gradients, hashed in blocks, in any order, so
 * that an update can hash a block when it reads it anyway. Blocks are numbered through all tensors;
 * each begins one of its own. Thread: any. */

#pragma once

#include "runtime/server/push_window.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* The size of a block. It is a constant because digests of pushes are stored with the push
 * window. */
#define TPS_UPDATE_DIGEST_BLOCK_BYTES 8192

gsize tps_update_digest_n_blocks (gsize n_bytes);

/* Returns the hash of one block of at most TPS_UPDATE_DIGEST_BLOCK_BYTES bytes. */
TpsPushDigest tps_update_digest_of_block (gconstpointer data, gsize n_bytes);

/* Returns the digest of a push from `blocks`, the hashes of all blocks of all gradients, in order.
 * Of `gradients` [n_gradients], only the shapes are read. */
TpsPushDigest tps_update_digest_combine (gint32 trainer, gint64 version, const TpsTensor *gradients,
                                         guint n_gradients, const TpsPushDigest *blocks);

/* Returns the digest of a push. Reads all elements. */
TpsPushDigest tps_update_digest_compute (gint32 trainer, gint64 version, const TpsTensor *gradients,
                                         guint n_gradients);

G_END_DECLS
