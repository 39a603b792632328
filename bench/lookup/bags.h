/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The work of the local part and of the steps: bags of random ids, and the expected sums.
 *
 * Values are multiples of 1/256 and at most 1, so the sums here are exact in any order, and every
 * system must compute the same checksum. bench/peers/embedding_work.py uses the same formula.
 */

#pragma once

#include "bench/lookup/id_source.h"

G_BEGIN_DECLS

typedef struct
{
  gsize n_rows, dim;
  gsize n_bags, bag_length; /* of a batch */
  gsize n_sets;             /* sets of ids that batches use in turn */
  TpsLookupIdKind ids;
} TpsLookupShape;

typedef struct
{
  TpsLookupShape shape;
  gint64 *ids;       /* [n_sets, n_bags * bag_length] */
  gdouble *checksum; /* [n_sets]: the sum of all outputs */
  gsize n_samples;   /* the first ids of the first set, whose rows are checked after steps */
} TpsLookupBags;

void tps_lookup_bags_init (TpsLookupBags *bags, const TpsLookupShape *shape);
void tps_lookup_bags_clear (TpsLookupBags *bags);

/* Returns the ids of a set, borrowed. */
const gint64 *tps_lookup_bags_get_ids (const TpsLookupBags *bags, gsize set);

/* Writes rows [first, first + n), multiplied by `factor`, to `values` [n, dim]. */
void tps_lookup_fill_rows (gfloat *values, gsize first, gsize n, gsize dim, gfloat factor);

/* Checks a checksum. Errors: TPS_ERROR_INTERNAL, "`system`: a wrong sum …". */
gboolean tps_lookup_bags_check (const TpsLookupBags *bags, gsize set, gdouble checksum,
                                const gchar *system, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLookupBags, tps_lookup_bags_clear)

G_END_DECLS
