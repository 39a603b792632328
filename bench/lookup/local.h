/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums of bags in this process: the backend's, those of a table store, and a raw gather. */

#pragma once

#include "bench/lookup/bags.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

typedef struct TpsLookupLocal TpsLookupLocal;

typedef enum
{
  TPS_LOOKUP_POOL,   /* embedding_pool of the backend, with the bags distributed over the threads */
  TPS_LOOKUP_STORE,  /* tps_table_store_lookup_bags() */
  TPS_LOOKUP_GATHER, /* the raw gather, from the rows of TPS_LOOKUP_POOL */
} TpsLookupSystem;
#define TPS_LOOKUP_N_SYSTEMS 3

/* Creates and fills the tables: the store's at `place`, the others on the CPU. `bags` is borrowed.
 * Owned by the caller. Errors: RESOURCE_EXHAUSTED; NOT_FOUND if there is no such device. */
TpsLookupLocal *tps_lookup_local_new (const TpsLookupBags *bags, guint n_threads,
                                      const TpsTablePlace *place, GError **error);
void tps_lookup_local_free (TpsLookupLocal *local);

/* Returns "pool", "store" or "gather"; static. */
const gchar *tps_lookup_system_name (TpsLookupSystem system);

/* Runs `n_batches` batches and checks the last one. Returns the rows read per second, or -1. */
gdouble tps_lookup_local_run (TpsLookupLocal *local, TpsLookupSystem system, gsize n_batches,
                              GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupLocal, tps_lookup_local_free)

G_END_DECLS
