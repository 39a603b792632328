/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parts of the benchmark. Each starts its systems, adds its tasks to the engine and its samples
 * to the figures. */

#pragma once

#include "bench/engine/benchmark.h"
#include "bench/lookup/local.h"
#include "bench/lookup/options.h"
#include "bench/lookup/push.h"
#include "bench/lookup/remote.h"
#include "bench/process/child.h"
#include "bench/report/figures.h"

G_BEGIN_DECLS

typedef struct
{
  const TpsLookupOptions *options;
  TpsFigures *figures; /* owned by the run */

  /* For bags in this process. */
  TpsLookupBags bags;
  TpsLookupLocal *locals[2]; /* one thread, and several */
  guint n_threads[2];
  guint n_locals;
  TpsChild *peer;

  /* For rows by RPC. */
  TpsLookupServer *server;
  TpsLookupRemoteShape remote;
  TpsLookupPushes pushes[TPS_LOOKUP_N_PATTERNS];
} TpsLookup;

/* The quantities of all main figures. */
extern const TpsQuantity tps_lookup_rows_per_s, tps_lookup_ms, tps_lookup_calls_per_s,
    tps_lookup_calls;

/* Adds bags: a row of systems for each number of threads. */
gboolean tps_lookup_prepare_local (TpsLookup *lookup, TpsBenchRun *run, GError **error);

/* Adds lookups and pushes: a row of transports for each kind. The server must have started. */
gboolean tps_lookup_prepare_remote (TpsLookup *lookup, TpsBenchRun *run, GError **error);
gboolean tps_lookup_prepare_pushes (TpsLookup *lookup, TpsBenchRun *run, GError **error);

G_END_DECLS
