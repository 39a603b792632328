/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parts of the benchmark. Each part starts its systems, adds its tasks to the engine, and its
 * samples to the figures. */

#pragma once

#include "bench/engine/benchmark.h"
#include "bench/lookup/device_caller.h"
#include "bench/lookup/local.h"
#include "bench/lookup/options.h"
#include "bench/lookup/peer.h"
#include "bench/lookup/push.h"
#include "bench/lookup/remote.h"
#include "bench/lookup/small.h"
#include "bench/lookup/step.h"
#include "bench/report/figures.h"

G_BEGIN_DECLS

/* One work of the steps on one system, and its progress. */
typedef struct
{
  TpsLookupTrainedRows *rows; /* the expected rows; NULL = the work only has lookups */
  gsize n_done;               /* batches so far */
} TpsLookupStepTask;

/* The state that the parts share. */
typedef struct
{
  const TpsLookupOptions *options;
  TpsFigures *figures; /* owned by the run */

  /* For bags in this process and for steps. */
  TpsLookupBags bags;
  TpsLookupPeer peers[TPS_LOOKUP_N_PEERS]; /* without a child = not named by --peer */

  /* For bags in this process. */
  TpsLookupLocal *locals[2]; /* with one thread, and with several threads */
  guint n_threads[2];
  guint n_locals;

  /* For rows by RPC. */
  TpsLookupServer *server;
  TpsLookupRemoteShape remote;
  TpsLookupPushes pushes[TPS_LOOKUP_N_PATTERNS];
  TpsLookupSmall *small;

  /* For steps. The first system is ours. */
  gfloat *gradients; /* [n_bags, dim] */
  TpsLookupSamples *samples;
  TpsLookupStepper *stepper;
  TpsLookupStepTask steps[1 + TPS_LOOKUP_N_PEERS][TPS_LOOKUP_N_WORKS];

  /* For callers on a device. */
  TpsDevice *device; /* NULL = none */
  TpsLookupDeviceCaller *device_callers[TPS_LOOKUP_N_WAYS];
  gsize n_device_batches[TPS_LOOKUP_N_WAYS]; /* batches so far */
} TpsLookup;

/* The quantities of all main figures. */
extern const TpsQuantity tps_lookup_rows_per_s, tps_lookup_ms, tps_lookup_calls_per_s,
    tps_lookup_calls;

/* The following functions add tasks to `run`. Errors: those of the first system that cannot
 * start. */

/* Adds bags: a row of systems for each number of threads. The bags and the peers must be ready. */
gboolean tps_lookup_prepare_local (TpsLookup *lookup, TpsBenchRun *run, GError **error);

/* Add lookups and pushes (rows of transports), and the smallest calls (a row of kinds for each
 * transport). The server must have started. */
gboolean tps_lookup_prepare_remote (TpsLookup *lookup, TpsBenchRun *run, GError **error);
gboolean tps_lookup_prepare_pushes (TpsLookup *lookup, TpsBenchRun *run, GError **error);
gboolean tps_lookup_prepare_small (TpsLookup *lookup, TpsBenchRun *run, GError **error);

/* Adds steps: a row of systems for each work. The bags, the peers and the server must be ready.
 * tps_lookup_clear_steps() must be called at the end; it does not free `stepper`, which belongs to
 * the caller. */
gboolean tps_lookup_prepare_steps (TpsLookup *lookup, TpsBenchRun *run, GError **error);
void tps_lookup_clear_steps (TpsLookup *lookup);

/* Adds lookups of a caller on lookup->device: a row with both paths of the results.
 * tps_lookup_prepare_steps() must have been called. */
gboolean tps_lookup_prepare_device (TpsLookup *lookup, TpsBenchRun *run, GError **error);
/* Returns a line with the number of results that stayed on the device; NULL = there is no caller on
 * a device. The caller owns the result. */
gchar *tps_lookup_describe_device (const TpsLookup *lookup);
/* Frees the callers on the device. Must be called before the server exits. */
void tps_lookup_clear_device (TpsLookup *lookup);

G_END_DECLS
