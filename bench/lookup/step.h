/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The steps of one trainer by RPC, over a Unix socket with shared memory: pooled lookups, alone or
 * followed by a push of the gradients of bags. */

#pragma once

#include "bench/lookup/server.h"
#include "bench/lookup/trained_rows.h"

G_BEGIN_DECLS

/* One kind of step; static. */
typedef struct
{
  const gchar *name;          /* the name of the work of peers, such as "lookup" or "adagrad" */
  const gchar *row;           /* the row of the report, such as "lookup + push, adagrad" */
  const gchar *table;         /* the table of the server */
  TpsOptimizerKind optimizer; /* 0 = the step only has a lookup */
} TpsLookupWork;

#define TPS_LOOKUP_N_WORKS 4
extern const TpsLookupWork tps_lookup_works[TPS_LOOKUP_N_WORKS];

/* Returns the offsets of the bags [n_bags]. The caller owns the result. */
gint64 *tps_lookup_make_offsets (const TpsLookupShape *shape);

/* Returns the query of a batch. It borrows all arguments. */
TpsBagQuery tps_lookup_make_query (const TpsLookupBags *bags, const gint64 *offsets,
                                   const gchar *table, gsize batch);

/* Returns the sum of `elements` [n]. */
gdouble tps_lookup_sum_up (const gfloat *elements, gsize n);

typedef struct TpsLookupStepper TpsLookupStepper;

/* Connects a client, and creates and fills the tables of all works. `bags` and `gradients` [n_bags,
 * dim] are borrowed. The caller owns the result. Blocks. Errors: those of the calls. */
TpsLookupStepper *tps_lookup_stepper_new (const TpsLookupServer *server, const TpsLookupBags *bags,
                                          const gfloat *gradients, const TpsTablePlace *place,
                                          GError **error);
void tps_lookup_stepper_free (TpsLookupStepper *stepper);

/* Runs `n_batches` batches from number `first` on. Each batch has one lookup. If the work has an
 * optimizer, a push follows; it has been applied when its call returns. Returns the duration in
 * seconds; -1 with an error. `*checksum` receives the sum that peers report, too
 * (../peers/embedding_work.py). Blocks. */
gdouble tps_lookup_stepper_run (TpsLookupStepper *stepper, const TpsLookupWork *work, gsize first,
                                gsize n_batches, gdouble *checksum, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupStepper, tps_lookup_stepper_free)

G_END_DECLS
