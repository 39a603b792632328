/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Blocks of the heap for buffers, and where they begin within a page.
 *
 * AMD's Zen 3 copies at a tenth of the speed if the destination lies 1 to 31 bytes after the source
 * modulo the page size ("rep movsb", which kernels use, and the C library from 2 to 512 KiB). Other
 * tensors lie near the start of a page: at 0, at 16 (large blocks of malloc) or at 64; those within
 * a message lie after its first 50 to 100 bytes. So blocks of 32 KiB and more begin in the middle
 * of a page. Blocks of 2 MiB and more are huge pages, if the system allows them, and begin at one.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns `n_bytes` at TPS_BUFFER_ALIGNMENT at least, not initialised, owned by the caller; NULL =
 * no memory. Takes up to 6 KiB more than `n_bytes`. Thread: any. */
gpointer tps_heap_block_new (gsize n_bytes);

/* `n_bytes`: as in tps_heap_block_new(). Thread: any. */
void tps_heap_block_free (gpointer block, gsize n_bytes);

G_END_DECLS
