/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The digest of a push: of trainer, version and gradients. Elements are hashed in blocks, so that
 * the visit that adds up a block can hash it too, in any order of blocks.
 *
 * Blocks are numbered through all tensors. Each tensor begins with a block of its own; an empty
 * tensor has none. Thread: any.
 */

#pragma once

#include "runtime/server/push_window.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* A constant, because digests of pushes are stored with the push window. */
#define TPS_UPDATE_DIGEST_BLOCK_BYTES 8192

/* The number of blocks of a tensor of `n_bytes`. */
gsize tps_update_digest_n_blocks (gsize n_bytes);

/* Of at most TPS_UPDATE_DIGEST_BLOCK_BYTES. */
TpsPushDigest tps_update_digest_of_block (gconstpointer data, gsize n_bytes);

/* From the hashes of all blocks, in order. */
TpsPushDigest tps_update_digest_combine (gint32 trainer, gint64 version, const TpsTensor *gradients,
                                         guint n_gradients, const TpsPushDigest *blocks);

/* Computes the whole digest at once; reads all elements. */
TpsPushDigest tps_update_digest_compute (gint32 trainer, gint64 version, const TpsTensor *gradients,
                                         guint n_gradients);

G_END_DECLS
