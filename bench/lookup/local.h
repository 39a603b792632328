/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums of bags in this process: by the operation of the backend, by a table store, and by a raw
 * gather. */

#pragma once

#include "bench/lookup/bags.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

typedef struct TpsLookupLocal TpsLookupLocal;

/* The systems of this process. */
typedef enum
{
  TPS_LOOKUP_POOL,   /* embedding_pool of the backend; the threads share the bags */
  TPS_LOOKUP_STORE,  /* tps_table_store_lookup_bags() */
  TPS_LOOKUP_GATHER, /* the raw gather, of the same rows */
} TpsLookupSystem;
#define TPS_LOOKUP_N_SYSTEMS 3

/* Creates and fills the tables: the table of the store at `place`, the other on the CPU. `bags` is
 * borrowed. The caller owns the result. Errors: RESOURCE_EXHAUSTED; NOT_FOUND (no such device). */
TpsLookupLocal *tps_lookup_local_new (const TpsLookupBags *bags, guint n_threads,
                                      const TpsTablePlace *place, GError **error);
void tps_lookup_local_free (TpsLookupLocal *local);

/* Returns "pool", "store" or "gather". Static. */
const gchar *tps_lookup_system_name (TpsLookupSystem system);

/* Runs `n_batches` batches and checks the last one. Returns the number of rows read per second; -1
 * with an error. Blocks. */
gdouble tps_lookup_local_run (TpsLookupLocal *local, TpsLookupSystem system, gsize n_batches,
                              GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupLocal, tps_lookup_local_free)

G_END_DECLS
