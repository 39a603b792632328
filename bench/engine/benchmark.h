/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The life of a benchmark: its head, its systems, its rounds, its report and its exit status. */

#pragma once

#include "bench/engine/engine.h"
#include "bench/process/flags.h"
#include "bench/process/child.h"
#include "bench/report/figures.h"
#include "bench/report/json_output.h"

/* The objects shared by the parts of a benchmark. */
typedef struct
{
  const gchar *name;
  gboolean has_said_length;  /* by tps_benchmark_say_length() */
  TpsSupervisor *supervisor; /* of all processes of the benchmark */
  TpsEngine *engine;
  TpsFigures *figures; /* NULL if the benchmark has no style */
  gchar *folder;       /* for sockets and files; NULL before tps_benchmark_get_folder() */
} TpsBenchRun;

/* The functions of a benchmark. Each is called with `user_data`. */
typedef struct
{
  const TpsCommandLine *command_line; /* its name is that of the benchmark */
  /* Optional. Checks flags, and the files that they name, before any system starts. */
  gboolean (*load) (gpointer user_data, GError **error);
  /* Optional: returns further notes on the environment; the caller owns the result. */
  gchar *(*note) (gpointer user_data);
  /* Optional: prints more lines below the head. */
  void (*print_head) (gpointer user_data);
  /* Starts the systems and adds their tasks to `run->engine`. */
  gboolean (*prepare) (gpointer user_data, TpsBenchRun *run, GError **error);
  /* Optional: called after a failure, before stop(); `error` gives the reason. */
  void (*fail) (gpointer user_data, const GError *error);
  /* Ends the systems, even if prepare() has failed. Remaining processes are ended afterwards. */
  void (*stop) (gpointer user_data);

  /* Optional. If set, the figures of the run are printed as the report and are written to --json.
   * The output of the following functions comes after them. */
  const TpsFigureStyle *style;
  /* Optional: prints the report to standard output. */
  void (*print_report) (gpointer user_data);
  /* Optional: adds figures, peers, ratios and facts to --json. */
  void (*add_output) (gpointer user_data, TpsBenchOutput *output);
} TpsBenchmark;

/* Runs the benchmark and prints errors to stderr. `flags` must be the first member of the options.
 * Returns the exit status: 0; 1 a system failed, 2 a bad flag, 130 interrupted. Blocks. */
gint tps_benchmark_run (const TpsBenchmark *benchmark, const TpsRunFlags *flags,
                        gpointer user_data);

/* Prints the expected time of all added tasks to stderr, if it is known and long; once per run. A
 * benchmark whose systems start slowly may call it before the end of prepare(). */
void tps_benchmark_say_length (TpsBenchRun *run);

/* Returns a folder that is removed with its files at the end of the run; NULL on error. The first
 * call creates the folder. Borrowed. */
const gchar *tps_benchmark_get_folder (TpsBenchRun *run, GError **error);

/* For main(). tps_benchmark_init() sets the locale, which the text of --help needs.
 * tps_benchmark_refuse() prints `error` and returns the exit status 2, which main() must return. */
void tps_benchmark_init (void);
gint tps_benchmark_refuse (const gchar *name, const GError *error);
