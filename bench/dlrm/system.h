/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A system that trains, and its processes. The processes follow the protocol of role.h. */

#pragma once

#include "bench/dlrm/pass_file.h"
#include "bench/process/child.h"

G_BEGIN_DECLS

/* A system and its results. */
typedef struct
{
  const gchar *name;   /* "servers"; static */
  GPtrArray *children; /* of TpsChild */
  const gchar *folder; /* of the files of passes; borrowed */
  guint64 n_steps;     /* number of steps so far */

  /* Results of each measured pass; of gdouble. Filled by the caller. */
  GArray *log_loss, *auc;
} TpsDlrmSystem;

/* Creates a system without processes. `name` is static; `folder` is borrowed. The caller owns the
 * result. */
TpsDlrmSystem *tps_dlrm_system_new (const gchar *name, const gchar *folder);
void tps_dlrm_system_free (TpsDlrmSystem *system);

/* Starts a process `argv`, ended by NULL. Errors: those of the supervisor. */
gboolean tps_dlrm_system_start (TpsDlrmSystem *system, TpsSupervisor *supervisor, gchar **argv,
                                GError **error);

/* Waits until all processes are ready. Blocks. Errors: those of the processes. */
gboolean tps_dlrm_system_wait (TpsDlrmSystem *system, GError **error);

/* Orders all processes to train the next `n_steps` steps. `pass` receives the measurements of all
 * processes. Returns the seconds of the slowest process; negative with an error. Blocks. */
gdouble tps_dlrm_system_run (TpsDlrmSystem *system, guint n_steps, TpsDlrmPass *pass,
                             GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDlrmSystem, tps_dlrm_system_free)

G_END_DECLS
