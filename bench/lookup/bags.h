/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The work of the part "local" and of the steps: bags of random ids, and the expected sums. */

#pragma once

#include <glib.h>

/* -- id source -- */

/* Random ids of rows, with a uniform or a Zipf distribution. A permutation spreads the frequent ids
 * of the Zipf distribution over the table. */

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

/* Draws `n` ids independently of each other, which takes longer, outside measured loops. */
void tps_lookup_id_source_draw_each (TpsLookupIdSource *source, gint64 *ids, gsize n);

/* -- bags -- */

/* The work of the part "local" and of the steps: bags of random ids, and the expected sums.
 *
 * Values are multiples of 1/256 and at most 1, so these sums are exact in any order. Every system
 * must therefore compute the same checksum. bench/peers/embedding_work.py has the same formula. */

/* The sizes of the work. */
typedef struct
{
  gsize n_rows, dim;
  gsize n_bags, bag_length; /* of a batch */
  gsize n_sets;             /* sets of ids, which batches use in turn */
  TpsLookupIdKind ids;
} TpsLookupShape;

/* The ids and the expected sums; owned. */
typedef struct
{
  TpsLookupShape shape;
  gint64 *ids;       /* [n_sets, n_bags * bag_length] */
  gdouble *checksum; /* [n_sets], the sum of all outputs */
  gsize n_samples;   /* the first ids of the first set; their rows are checked after steps */
} TpsLookupBags;

/* tps_lookup_bags_init() draws the ids and computes the checksums, and _clear() frees them. */
void tps_lookup_bags_init (TpsLookupBags *bags, const TpsLookupShape *shape);
void tps_lookup_bags_clear (TpsLookupBags *bags);

/* Returns the ids of a set [n_bags * bag_length]. Borrowed. */
const gint64 *tps_lookup_bags_get_ids (const TpsLookupBags *bags, gsize set);

/* Writes the rows [first, first + n), multiplied by `factor`, to `values` [n, dim]. */
void tps_lookup_fill_rows (gfloat *values, gsize first, gsize n, gsize dim, gfloat factor);

/* Compares `checksum` with that of a set. Errors: INTERNAL "`system`: a wrong sum …". */
gboolean tps_lookup_bags_check (const TpsLookupBags *bags, gsize set, gdouble checksum,
                                const gchar *system, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupIdSource, tps_lookup_id_source_free)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLookupBags, tps_lookup_bags_clear)
