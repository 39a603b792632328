/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A few rows of a trained table, computed here for comparison with the rows of the systems.
 *
 * The rows are those of the first ids of the bags (see `n_samples` of TpsLookupBags). All rows are
 * zero before the first step. Gradients of bags are multiples of 1/256 with a magnitude below 1/4,
 * so their sums are exact in any order. bench/peers/embedding_work.py has the same formulas. */

#pragma once

#include "bench/lookup/bags.h"
#include "runtime/tensor/optimizer.h"

G_BEGIN_DECLS

#define TPS_LOOKUP_LEARNING_RATE 0.01
#define TPS_LOOKUP_EPSILON 1e-8

/* Writes the gradients [n_bags, dim], which are the same for every batch. */
void tps_lookup_fill_gradients (gfloat *gradients, const TpsLookupShape *shape);

typedef struct TpsLookupSamples TpsLookupSamples;

/* Adds up the gradients of the rows for all sets of ids. `bags` is borrowed. The caller owns the
 * result. */
TpsLookupSamples *tps_lookup_samples_new (const TpsLookupBags *bags, const gfloat *gradients);
void tps_lookup_samples_free (TpsLookupSamples *samples);

typedef struct TpsLookupTrainedRows TpsLookupTrainedRows;

/* Creates the rows of one table of one system. `samples` is borrowed. The caller owns the
 * result. */
TpsLookupTrainedRows *tps_lookup_trained_rows_new (const TpsLookupSamples *samples,
                                                   TpsOptimizerKind optimizer);
void tps_lookup_trained_rows_free (TpsLookupTrainedRows *rows);

/* Makes `n` more steps; step number i has the ids of set i % n_sets. Then compares the sum of all
 * elements with `sum`, the result of the system after the same steps. Errors: INTERNAL "`system`,
 * `optimizer`: …". */
gboolean tps_lookup_trained_rows_check (TpsLookupTrainedRows *rows, gsize n, gdouble sum,
                                        const gchar *system, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupSamples, tps_lookup_samples_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupTrainedRows, tps_lookup_trained_rows_free)

G_END_DECLS
