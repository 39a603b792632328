/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums of bags in this process: the backend's, those of a table store, and the raw gather. */

#pragma once

#include "bench/lookup/bags.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

typedef struct TpsLookupLocal TpsLookupLocal;

typedef enum
{
  TPS_LOOKUP_POOL,   /* the backend's embedding_pool, bags dealt to the threads */
  TPS_LOOKUP_STORE,  /* tps_table_store_lookup_bags() */
  TPS_LOOKUP_GATHER, /* the raw one; its rows are those of TPS_LOOKUP_POOL */
} TpsLookupSystem;
#define TPS_LOOKUP_N_SYSTEMS 3

/* Fills the tables, the store's at `place`; the others are the CPU's. `bags` is borrowed. Errors:
 * RESOURCE_EXHAUSTED; NOT_FOUND where there is no such device. */
TpsLookupLocal *tps_lookup_local_new (const TpsLookupBags *bags, guint n_threads,
                                      const TpsTablePlace *place, GError **error);
void tps_lookup_local_free (TpsLookupLocal *local);

/* "pool", "store", "gather"; static. */
const gchar *tps_lookup_system_name (TpsLookupSystem system);

/* So many batches; rows that were read in a second, or -1. The last batch is checked. */
gdouble tps_lookup_local_run (TpsLookupLocal *local, TpsLookupSystem system, gsize n_batches,
                              GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupLocal, tps_lookup_local_free)

G_END_DECLS
