/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The master: serves the rendezvous, registers roles, runs passes and collects measurements. */

#pragma once

#include "bench/engine/benchmark.h"
#include "bench/report/report.h"
#include "bench/world/world.h"
#include "plugin/client/client.h"
#include "runtime/tensor/train_plan.h"

typedef struct TpsMaster TpsMaster;

/* The work of a benchmark; the functions are called on the thread of the master. */
typedef struct
{
  /* Returns the plan of trainer `trainer` (from 0) for the next pass; the caller owns the result.
   * NULL with an error. The master adds pass_name, rank, world_size, servers and rpc_timeout_ns. */
  TpsTrainPlan *(*make_plan) (gpointer user_data, guint trainer, gboolean is_warm_up,
                              GError **error);

  /* Puts server `server` (from 0) into its initial state. Called before each pass. */
  gboolean (*prepare_server) (gpointer user_data, TpsClient *client, guint server, GError **error);

  /* All trainers must have the same parameters at the end of a pass. */
  gboolean parameters_agree;

  /* Optional: called in order for every epoch of a pass that trainer 0 has begun, possibly late. */
  void (*epoch_begins) (gpointer user_data, guint epoch);

  /* The number of trainers that may be lost during a pass without ending the pass. */
  guint n_spare_trainers;
} TpsMasterWork;

/* Replaces a string of a plan with a copy of `value`. */
void tps_plan_set (gchar **field, const gchar *value);

/* Starts the rendezvous. The supervisor of `run` watches local children, and the engine of `run`
 * shows the progress of passes. `flags` are lines "name=value" of all flags, which must be equal in
 * every role. All arguments are borrowed, `flags` only for the call. The caller owns the result.
 * Errors: those of the plugin and of the server. */
TpsMaster *tps_master_new (const TpsWorld *world, TpsBenchRun *run, const GPtrArray *flags,
                           const TpsMasterWork *work, gpointer user_data, GError **error);

/* Marks the run as failed. The roles get the reason, which is copied, and end with a failure. */
void tps_master_fail (TpsMaster *master, const gchar *why);
/* Tells all roles to end, waits for a short time, stops the rendezvous and frees the master. */
void tps_master_free (TpsMaster *master);

/* Returns the TCP port of the master. */
guint tps_master_get_port (const TpsMaster *master);

/* Waits until all roles have registered. Blocks. Errors: those of tps_roster_meet(). */
gboolean tps_master_meet_roles (TpsMaster *master, GError **error);

/* Prepares the servers, starts all trainers and waits for them. `results` receives the metrics of
 * all roles; NULL = warm-up. Blocks. The error names the role that has failed. */
gboolean tps_master_run_pass (TpsMaster *master, TpsBenchResults *results, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsMaster, tps_master_free)
