/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Random ids of rows, with a uniform or a Zipf distribution. A permutation spreads the frequent ids
 * of the Zipf distribution over the table. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The distribution of ids. */
typedef struct
{
  gboolean is_zipf;
  gdouble exponent; /* of the Zipf distribution, above 0 */
} TpsLookupIdKind;

typedef struct TpsLookupIdSource TpsLookupIdSource;

/* Creates a source of ids in [0, n_rows). Sources of equal seeds return equal ids. The caller owns
 * the source. Thread: one thread at a time. */
TpsLookupIdSource *tps_lookup_id_source_new (const TpsLookupIdKind *kind, gsize n_rows,
                                             guint32 seed);
void tps_lookup_id_source_free (TpsLookupIdSource *source);

/* Draws `n` ids inside a measured loop. The ids of a Zipf distribution are copied from a random
 * position of a list that was drawn in advance. */
void tps_lookup_id_source_draw (TpsLookupIdSource *source, gint64 *ids, gsize n);

/* Draws `n` ids independently of each other. This takes longer and should be done only outside
 * measured loops. */
void tps_lookup_id_source_draw_each (TpsLookupIdSource *source, gint64 *ids, gsize n);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupIdSource, tps_lookup_id_source_free)

G_END_DECLS
