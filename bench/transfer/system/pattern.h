/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The contents of the benchmark's tensors: the same in every process, different everywhere, without
 * zeros.
 * Memory that was never written to is one page of zeros again and again, which copies faster than
 * any other.
 */

#pragma once

#include "runtime/base/buffer.h"

G_BEGIN_DECLS

#define TPS_TRANSFER_MAX_BYTES ((gsize) 256 << 20) /* of a row */

/* `n_bytes`: whole elements of 4 bytes. */
void tps_transfer_pattern_fill (gpointer data, gsize n_bytes);
gboolean tps_transfer_pattern_matches (gconstpointer data, gsize n_bytes);

/* Filled; the caller's. */
TpsBuffer *tps_transfer_pattern_new (gsize n_bytes);

G_END_DECLS
