/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Records of one size, in chunks of their own, which are freed with their last record (but for the
 * only chunk with a free one). With malloc(), a small block that lives for hours keeps the page of
 * its short-lived neighbours, which no budget counts. A slab charges no budget: its user must
 * charge the records. Thread: one at a time. */

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
