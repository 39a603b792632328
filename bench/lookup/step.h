/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The steps of one trainer by RPC over a Unix socket with shared memory: pooled lookups, alone or
 * followed by a push of the bags' gradients. */

#pragma once

#include "bench/lookup/server.h"
#include "bench/lookup/trained_rows.h"

G_BEGIN_DECLS

/* One kind of step. */
typedef struct
{
  const gchar *name;          /* the name of the peers' work: "lookup", "adagrad" */
  const gchar *row;           /* of the report: "lookup + push, adagrad" */
  const gchar *table;         /* of the server */
  TpsOptimizerKind optimizer; /* 0 = the step has only a lookup */
} TpsLookupWork;

#define TPS_LOOKUP_N_WORKS 4
extern const TpsLookupWork tps_lookup_works[TPS_LOOKUP_N_WORKS];

/* Returns the offsets of the bags, [n_bags]; owned by the caller. */
gint64 *tps_lookup_make_offsets (const TpsLookupShape *shape);

/* Returns the query of a batch, which borrows all arguments. */
TpsBagQuery tps_lookup_make_query (const TpsLookupBags *bags, const gint64 *offsets,
                                   const gchar *table, gsize batch);

/* Returns the sum of elements [n]. */
gdouble tps_lookup_sum_up (const gfloat *elements, gsize n);

typedef struct TpsLookupStepper TpsLookupStepper;

/* Connects a client, and creates and fills the tables of all works. `bags` and `gradients` [n_bags,
 * dim] are borrowed. Owned by the caller. */
TpsLookupStepper *tps_lookup_stepper_new (const TpsLookupServer *server, const TpsLookupBags *bags,
                                          const gfloat *gradients, const TpsTablePlace *place,
                                          GError **error);
void tps_lookup_stepper_free (TpsLookupStepper *stepper);

/* Runs `n_batches` batches from number `first` on. Each has one lookup. If the work has an
 * optimizer, a push follows, which is applied when its call returns. Returns the duration in
 * seconds, or -1 with an error. `checksum` receives the sum that peers report
 * (../peers/embedding_work.py). Blocks. */
gdouble tps_lookup_stepper_run (TpsLookupStepper *stepper, const TpsLookupWork *work, gsize first,
                                gsize n_batches, gdouble *checksum, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupStepper, tps_lookup_stepper_free)

G_END_DECLS
