/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The life of a benchmark program: its parts, its passes, alternating with those of its peers, and
 * its report. The program is a launcher, or one of the roles that the launcher starts. */

#pragma once

#include "bench/engine/benchmark.h"
#include "bench/process/flags.h"
#include "bench/report/json_output.h"
#include "bench/world/master.h"
#include "bench/world/peer.h"
#include "bench/world/role.h"

G_BEGIN_DECLS

/* The functions of a benchmark, called with its `user_data`. */
typedef struct
{
  TpsFillServer fill_server;
  TpsMasterWork work;
  gboolean no_warm_up; /* measure the first pass, too */

  /* Checks flags and files before any process starts. Not called in roles. */
  gboolean (*load) (gpointer user_data, GError **error);

  /* Returns a line "name=value" for each flag; the caller owns the result. */
  GPtrArray *(*describe) (gpointer user_data);

  /* Optional: prints more lines below the flags. */
  void (*print_head) (gpointer user_data);

  /* Starts the requested peers and adds them (TpsPeer *) to `peers`. */
  gboolean (*start_peers) (gpointer user_data, TpsSupervisor *supervisor, GPtrArray *peers,
                           GError **error);

  /* Prints the report to stdout. */
  void (*print_report) (gpointer user_data, TpsBenchResults *ours, GPtrArray *peers);

  /* Adds figures, peers, ratios and facts to --json. */
  void (*add_output) (gpointer user_data, TpsBenchResults *ours, GPtrArray *peers,
                      TpsBenchOutput *output);
} TpsProgram;

/* Runs the program. Returns the exit status: 0 success, 1 a role or a pass failed, 2 a bad flag,
 * 130 interrupted. Blocks. */
gint tps_program_run (const TpsProgram *program, const TpsWorld *world, const TpsRunFlags *flags,
                      gpointer user_data);

/* Returns TRUE if the program must continue after parsing the flags. Otherwise prints the error and
 * sets `*status` to the exit status. */
gboolean tps_program_check_verdict (const gchar *name, TpsBenchVerdict verdict, const GError *error,
                                    gint *status);

/* -- reports shared by most programs -- */

/* Prints the tables of all roles, the outcome, and the ratios to each peer. */
void tps_program_print_tables (const TpsRunFlags *flags, TpsBenchResults *ours, GPtrArray *peers);

/* Adds all series of all roles and the outcome, the series of the peers, and the ratios of series
 * that both have. */
void tps_program_add_figures (TpsBenchResults *ours, GPtrArray *peers, TpsBenchOutput *output);

G_END_DECLS
