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

/* The functions of a benchmark, called with its `user_data`. */
typedef struct
{
  TpsFillServer fill_server;
  TpsMasterWork work;
  gboolean no_warm_up; /* measure the first pass, too */

  /* Optional: checks flags and files before any process starts. Not called in roles. */
  gboolean (*load) (gpointer user_data, GError **error);

  const TpsCommandLine *command_line;

  /* Optional: prints more lines below the flags. */
  void (*print_head) (gpointer user_data);

  /* The peers, of which --peer names one or "both"; ends with an entry without a name. */
  const TpsPeerKind *peers;
  /* Optional: returns further arguments of peers; the caller owns the result. */
  gchar **(*make_peer_arguments) (gpointer user_data);

  /* Prints the report to stdout. */
  void (*print_report) (gpointer user_data, TpsBenchResults *ours, GPtrArray *peers);

  /* Adds figures, peers, ratios and facts to --json. */
  void (*add_output) (gpointer user_data, TpsBenchResults *ours, GPtrArray *peers,
                      TpsBenchOutput *output);
} TpsProgram;

/* Runs the program. `flags` must be the first member of the options of the command line. Sets the
 * actual port of the master in `world`. Returns the exit status: 0 success, 1 a role or a pass
 * failed, 2 a bad flag, 130 interrupted. Blocks. */
gint tps_program_run (const TpsProgram *program, TpsWorld *world, const TpsRunFlags *flags,
                      gpointer user_data);

/* -- reports shared by most programs -- */

/* Prints the tables of all roles, the outcome, and the ratios to each peer. */
void tps_program_print_tables (const TpsRunFlags *flags, TpsBenchResults *ours, GPtrArray *peers);

/* Adds all series of all roles and peers, the outcome, and ratios of common series. */
void tps_program_add_figures (TpsBenchResults *ours, GPtrArray *peers, TpsBenchOutput *output);
