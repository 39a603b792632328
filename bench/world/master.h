/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The master: serves the rendezvous, gathers the roles, runs the passes, collects what they
 * measured. */

#pragma once

#include "bench/engine/benchmark.h"
#include "bench/report/results.h"
#include "bench/world/world.h"
#include "plugin/client/client.h"
#include "runtime/trainer/pass/train_plan.h"

G_BEGIN_DECLS

typedef struct TpsMaster TpsMaster;

/* What a benchmark has its world do. */
typedef struct
{
  /* What trainer number `trainer` does in the next pass; owned by the caller, NULL with an error.
   * The master adds who and where everybody is: pass_name, rank, world_size, servers, rendezvous,
   * rpc_timeout_ns. */
  TpsTrainPlan *(*make_plan) (gpointer user_data, guint trainer, gboolean is_warm_up,
                              GError **error);

  /* Before each pass, for each server in turn: brings it into its first state. */
  gboolean (*prepare_server) (gpointer user_data, TpsClient *client, guint server, GError **error);

  /* All trainers must end a pass with the same parameters. */
  gboolean parameters_agree;

  /* Optional: epoch `epoch` of a pass has begun on trainer 0. Called for every epoch, in order,
   * perhaps late. */
  void (*epoch_begins) (gpointer user_data, guint epoch);

  /* So many trainers may be lost in mid-pass, and the others go on without them. */
  guint n_spare_trainers;
} TpsMasterWork;

/* Starts to serve the rendezvous. The supervisor of `run` watches over local children, its engine
 * shows how far passes are. `flags`: lines "name=value" of all flags in use, which every role must
 * share. Everything is borrowed, `flags` for the call. */
TpsMaster *tps_master_new (const TpsWorld *world, TpsBenchRun *run, const GPtrArray *flags,
                           const TpsMasterWork *work, gpointer user_data, GError **error);

/* The run has failed: the roles will be told why, and end with an exit status that says so. */
void tps_master_fail (TpsMaster *master, const gchar *why);

/* Tells all roles to end, stops to serve. */
void tps_master_free (TpsMaster *master);

/* The port that roles find the master at. */
guint tps_master_get_port (const TpsMaster *master);

/* Waits until all roles have said where they are. */
gboolean tps_master_meet_roles (TpsMaster *master, GError **error);

/* Prepares the servers, trains on all trainers, waits for all. `results` gets the metrics of all
 * roles; NULL = warm-up. Errors name the role that failed. */
gboolean tps_master_run_pass (TpsMaster *master, TpsBenchResults *results, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsMaster, tps_master_free)

G_END_DECLS
