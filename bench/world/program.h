/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The life of a benchmark program, which is a launcher, or one of the roles that it starts: its
 * parts, its passes in turn with those of its peers, its report.
 */

#pragma once

#include "bench/engine/benchmark.h"
#include "bench/process/flags.h"
#include "bench/report/json_output.h"
#include "bench/world/master.h"
#include "bench/world/peer.h"
#include "bench/world/role.h"

G_BEGIN_DECLS

/* Of `user_data`, which is the benchmark's own. */
typedef struct
{
  TpsFillServer fill_server;
  TpsMasterWork work;
  gboolean no_warm_up; /* measure from the first pass on */

  /* Before anything starts, not in roles: what can be found wrong with flags and files now. */
  gboolean (*load) (gpointer user_data, GError **error);

  /* Lines "name=value" of all flags in use; owned by the caller. */
  GPtrArray *(*describe) (gpointer user_data);

  /* Optional: printed below the flags. */
  void (*print_head) (gpointer user_data);

  /* Starts the peers that were asked for and adds them (TpsPeer *) to `peers`. */
  gboolean (*start_peers) (gpointer user_data, TpsSupervisor *supervisor, GPtrArray *peers,
                           GError **error);

  /* The report on stdout. */
  void (*print_report) (gpointer user_data, TpsBenchResults *ours, GPtrArray *peers);

  /* Optional: the tables of the report as files in `folder`, which is there; else those of all
   * roles. */
  gboolean (*write_csv) (gpointer user_data, TpsBenchResults *ours, const gchar *folder,
                         GError **error);

  /* Figures, peers, ratios and facts for --json. */
  void (*add_output) (gpointer user_data, TpsBenchResults *ours, GPtrArray *peers,
                      TpsBenchOutput *output);
} TpsProgram;

/* Exit status: 0 done, 1 a role or a pass failed, 2 a bad flag, 130 interrupted. */
gint tps_program_run (const TpsProgram *program, const TpsWorld *world, const TpsRunFlags *flags,
                      gpointer user_data);

/* Whether to go on after parsing the flags; else `*status` is the exit status, and what is to be
 * said was said. */
gboolean tps_program_check_verdict (const gchar *name, TpsBenchVerdict verdict, const GError *error,
                                    gint *status);

/* -- reports that do for most -- */

/* Tables of all roles, the outcome, and the ratios to each peer. */
void tps_program_print_tables (const TpsRunFlags *flags, TpsBenchResults *ours, GPtrArray *peers);

/* All series of all roles, the outcome; the peers' and the ratios of what both have. */
void tps_program_add_figures (TpsBenchResults *ours, GPtrArray *peers, TpsBenchOutput *output);

G_END_DECLS
