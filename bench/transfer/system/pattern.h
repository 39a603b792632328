/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The contents of the tensors: the same in every process, without repetitions and without zeros.
 * Memory that was never written is a mapping of a single page of zeros, which copies faster than
 * any other memory. */

#pragma once

#include "runtime/base/buffer.h"

G_BEGIN_DECLS

#define TPS_TRANSFER_MAX_BYTES ((gsize) 256 << 20) /* of a row */

/* Fill or check memory. `n_bytes` must be a multiple of 4. tps_transfer_pattern_matches() returns
 * TRUE if the memory contains the pattern. */
void tps_transfer_pattern_fill (gpointer data, gsize n_bytes);
gboolean tps_transfer_pattern_matches (gconstpointer data, gsize n_bytes);

/* Creates a buffer with the pattern. The caller owns the result. */
TpsBuffer *tps_transfer_pattern_new (gsize n_bytes);

G_END_DECLS
