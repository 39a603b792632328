/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The master: serves the rendezvous, registers the roles, runs the passes, and collects the
 * measurements. */

#pragma once

#include "bench/engine/benchmark.h"
#include "bench/report/results.h"
#include "bench/world/world.h"
#include "plugin/client/client.h"
#include "runtime/trainer/pass/train_plan.h"

G_BEGIN_DECLS

typedef struct TpsMaster TpsMaster;

/* The work of a benchmark's world. */
typedef struct
{
  /* Returns the plan of trainer number `trainer` for the next pass; owned by the caller, NULL with
   * an error. The master adds names and addresses: pass_name, rank, world_size, servers,
   * rendezvous, rpc_timeout_ns. */
  TpsTrainPlan *(*make_plan) (gpointer user_data, guint trainer, gboolean is_warm_up,
                              GError **error);

  /* Called before each pass for each server in turn: puts the server into its initial state. */
  gboolean (*prepare_server) (gpointer user_data, TpsClient *client, guint server, GError **error);

  /* All trainers must end a pass with the same parameters. */
  gboolean parameters_agree;

  /* Optional: called for every epoch of a pass that has begun on trainer 0, in order, possibly
   * late. */
  void (*epoch_begins) (gpointer user_data, guint epoch);

  /* The number of trainers that may be lost during a pass without ending it. */
  guint n_spare_trainers;
} TpsMasterWork;

/* Starts the rendezvous. The supervisor of `run` watches local children, and its engine shows the
 * progress of passes. `flags` are lines "name=value" of all flags, which must be equal in every
 * role. Everything is borrowed; `flags` only for the call. Owned by the caller. */
TpsMaster *tps_master_new (const TpsWorld *world, TpsBenchRun *run, const GPtrArray *flags,
                           const TpsMasterWork *work, gpointer user_data, GError **error);

/* Marks the run as failed: the roles receive the reason and end with an exit status for failure. */
void tps_master_fail (TpsMaster *master, const gchar *why);

/* Tells all roles to end, and stops the rendezvous. */
void tps_master_free (TpsMaster *master);

/* Returns the port on which roles reach the master. */
guint tps_master_get_port (const TpsMaster *master);

/* Waits until all roles have registered. Blocks. */
gboolean tps_master_meet_roles (TpsMaster *master, GError **error);

/* Prepares the servers, starts all trainers and waits for them. `results` receives the metrics of
 * all roles; NULL = warm-up. Blocks. Errors name the role that failed. */
gboolean tps_master_run_pass (TpsMaster *master, TpsBenchResults *results, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsMaster, tps_master_free)

G_END_DECLS
