/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The work of the part "local" and of the steps: bags of random ids, and the expected sums.
 *
 * Values are multiples of 1/256 and at most 1, so these sums are exact in any order. Every system
 * must therefore compute the same checksum. bench/peers/embedding_work.py has the same formula. */

#pragma once

#include "bench/lookup/id_source.h"

G_BEGIN_DECLS

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

/* tps_lookup_bags_init() draws the ids and computes the checksums. tps_lookup_bags_clear() frees
 * them. */
void tps_lookup_bags_init (TpsLookupBags *bags, const TpsLookupShape *shape);
void tps_lookup_bags_clear (TpsLookupBags *bags);

/* Returns the ids of a set [n_bags * bag_length]. Borrowed. */
const gint64 *tps_lookup_bags_get_ids (const TpsLookupBags *bags, gsize set);

/* Writes the values of the rows [first, first + n), multiplied by `factor`, to `values` [n,
 * dim]. */
void tps_lookup_fill_rows (gfloat *values, gsize first, gsize n, gsize dim, gfloat factor);

/* Compares `checksum` with that of a set. Errors: INTERNAL "`system`: a wrong sum …". */
gboolean tps_lookup_bags_check (const TpsLookupBags *bags, gsize set, gdouble checksum,
                                const gchar *system, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLookupBags, tps_lookup_bags_clear)

G_END_DECLS
