/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parts of the benchmark. Each starts its systems, and adds tasks and samples. */

#pragma once

#include "bench/engine/benchmark.h"
#include "bench/lookup/options.h"
#include "bench/lookup/peer.h"
#include "bench/lookup/server.h"
#include "bench/report/figures.h"

/* The states of the parts. */
typedef struct TpsLookupLocal TpsLookupLocal; /* bags in this process, with a number of threads */
typedef struct TpsLookupSmall TpsLookupSmall; /* the smallest calls by RPC */
typedef struct TpsLookupSteps TpsLookupSteps; /* steps of a trainer by RPC */

/* The state that the parts share. */
typedef struct
{
  const TpsLookupOptions *options;
  TpsFigures *figures; /* owned by the run */
  TpsServed *server;
  TpsDevice *device; /* of a caller on a device; NULL = none */

  /* For bags in this process and for steps. */
  TpsLookupBags bags;
  TpsLookupPeer peers[TPS_LOOKUP_N_PEERS]; /* without a child = not named by --peer */

  TpsLookupLocal *locals[2]; /* with one thread, and with several threads */
  guint n_threads[2];
  guint n_locals;
  gint64 n_pushes[2]; /* all pushes of each pattern */
  TpsLookupSmall *small;
  TpsLookupSteps *steps;
} TpsLookup;

/* The quantities of all main figures. */
extern const TpsQuantity tps_lookup_rows_per_s, tps_lookup_ms, tps_lookup_calls_per_s,
    tps_lookup_calls;

/* These functions add tasks to `run`. Errors: those of the first system that cannot start. */

/* Adds bags: a row of systems for each number of threads. The bags and the peers must be ready. */
gboolean tps_lookup_prepare_local (TpsLookup *lookup, TpsBenchRun *run, GError **error);
void tps_lookup_local_free (TpsLookupLocal *local);

/* Add lookups and pushes (rows of transports), and the smallest calls (a row of kinds for each
 * transport). The server must have started. */
gboolean tps_lookup_prepare_remote (TpsLookup *lookup, TpsBenchRun *run, GError **error);
gboolean tps_lookup_prepare_pushes (TpsLookup *lookup, TpsBenchRun *run, GError **error);
gboolean tps_lookup_prepare_small (TpsLookup *lookup, TpsBenchRun *run, GError **error);
void tps_lookup_small_free (TpsLookupSmall *small);

/* Adds steps: a row of systems for each work, and with lookup->device a row with both paths of the
 * results to it. The bags, the peers and the server must be ready. */
gboolean tps_lookup_prepare_steps (TpsLookup *lookup, TpsBenchRun *run, GError **error);
void tps_lookup_steps_free (TpsLookupSteps *steps);

/* Returns a line with the number of results that stayed on the device; NULL = there is no caller on
 * a device. The caller owns the result. */
gchar *tps_lookup_describe_device (const TpsLookup *lookup);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupLocal, tps_lookup_local_free)
