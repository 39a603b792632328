/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Blocks of the heap for buffers, with a chosen position within a page.
 *
 * On AMD's Zen 3, "rep movsb" copies at a tenth of its speed if the destination lies 1 to 31 bytes
 * after the source modulo the page size. Operating systems use this instruction, and so does the C
 * library for 2 to 512 KiB. The tensors of other programs lie near the start of a page: at byte 0,
 * 16 (large blocks of malloc) or 64. A tensor within a message lies after the first 50 to 100 bytes
 * of the message. Blocks of 32 KiB and more therefore begin in the middle of a page. Blocks of 2
 * MiB and more begin at a huge page, and consist of huge pages if the system allows them.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns a block of `n_bytes` with undefined contents, aligned to TPS_BUFFER_ALIGNMENT or more;
 * owned by the caller. NULL = there is no memory. A block below 2 MiB takes up to 6 KiB more than
 * `n_bytes`. Thread: any. */
gpointer tps_heap_block_new (gsize n_bytes);

/* Frees a block. `n_bytes` must be the size that tps_heap_block_new() received. Thread: any. */
void tps_heap_block_free (gpointer block, gsize n_bytes);

G_END_DECLS
