/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The master: serves the rendezvous, gathers the roles, runs the passes, collects what they
 * measured. */

#pragma once

#include "bench/configuration.h"
#include "bench/options.h"
#include "bench/results.h"
#include "bench/supervisor.h"

G_BEGIN_DECLS

typedef struct TpsMaster TpsMaster;

/* Generates the data and starts to serve the rendezvous. `supervisor` (borrowed) watches over local
 * children; it may be empty. Everything else is borrowed too. */
TpsMaster *tps_master_new (const TpsBenchOptions *options, TpsSupervisor *supervisor,
                           const TpsBenchConfiguration *data, const TpsBenchConfiguration *model,
                           GVariant *trainer_arguments, GError **error);

/* Tells all roles to end, stops to serve. */
void tps_master_free (TpsMaster *master);

/* The port that roles find the master at. */
guint tps_master_get_port (const TpsMaster *master);

/* Waits until all roles have said where they are. */
gboolean tps_master_meet_roles (TpsMaster *master, GError **error);

/* Resets the servers, trains on all trainers, waits for all. `title` shows in the progress line.
 * `results` gets the metrics of all roles; NULL = warm-up. Errors name the role that failed. */
gboolean tps_master_run_pass (TpsMaster *master, const gchar *title, TpsBenchResults *results,
                              GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsMaster, tps_master_free)

G_END_DECLS
