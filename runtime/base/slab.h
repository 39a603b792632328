/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Records of one size, in chunks of their own.
 *
 * The C allocator gives a page back to the system when all blocks in the page are free. A small
 * block that lives for hours keeps the page of its short-lived neighbours, and no budget counts
 * this memory. Records of a slab have no such neighbours. A chunk is freed with its last record,
 * unless it is the only chunk with a free record.
 *
 * A slab charges no budget: its user must charge the records. The number of chunks never exceeds
 * the number that was needed when the slab held the most records.
 *
 * Thread: one at a time. Ownership: the slab owns the chunks; a taken record belongs to the caller.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  gsize n_bytes; /* of a record */
  GQueue roomy;  /* of chunks with a free record; the next record comes from the first one */
  gsize n_chunks;
} TpsSlab;

/* Initialises an empty slab of records of `n_bytes`, aligned to 8 bytes. */
void tps_slab_init (TpsSlab *slab, gsize n_bytes);
/* Frees the chunks. All records must have been given back. */
void tps_slab_clear (TpsSlab *slab);

/* Takes a record, which is all zero, and gives it back. */
gpointer tps_slab_take (TpsSlab *slab);
void tps_slab_give (TpsSlab *slab, gpointer record);

G_END_DECLS
