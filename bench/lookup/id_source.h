/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Random ids of rows: uniform, or with a Zipf distribution, whose frequent ids are spread over the
 * table. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* How ids are drawn. */
typedef struct
{
  gboolean is_zipf;
  gdouble exponent; /* of the Zipf distribution, above 0 */
} TpsLookupIdKind;

typedef struct TpsLookupIdSource TpsLookupIdSource;

/* Creates a source of ids in [0, n_rows). Sources of equal seeds return equal ids. The caller owns
 * the source. Thread: one at a time. */
TpsLookupIdSource *tps_lookup_id_source_new (const TpsLookupIdKind *kind, gsize n_rows,
                                             guint32 seed);
void tps_lookup_id_source_free (TpsLookupIdSource *source);

/* Draws `n` ids. Fast enough for a loop that is measured: the ids of a Zipf distribution are drawn
 * in advance, and this copies a part of them from a random place on. */
void tps_lookup_id_source_draw (TpsLookupIdSource *source, gint64 *ids, gsize n);

/* Draws `n` ids, each by itself. Takes longer, so it is for ids that are drawn before the measured
 * loop. */
void tps_lookup_id_source_draw_each (TpsLookupIdSource *source, gint64 *ids, gsize n);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupIdSource, tps_lookup_id_source_free)

G_END_DECLS
