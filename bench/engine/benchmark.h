/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The life of a benchmark: its head, its systems, its rounds, its report and its exit status. */

#pragma once

#include "bench/engine/engine.h"
#include "bench/process/flags.h"
#include "bench/process/supervisor.h"
#include "bench/report/figures.h"
#include "bench/report/json_output.h"

G_BEGIN_DECLS

/* The objects shared by the parts of a benchmark. */
typedef struct
{
  const gchar *name;
  gboolean has_said_length;
  TpsSupervisor *supervisor; /* of all its processes */
  TpsEngine *engine;
  TpsFigures *figures; /* NULL if the benchmark has no style for them */
  gchar *folder;       /* for sockets and files; tps_benchmark_get_folder() */
} TpsBenchRun;

/* The benchmark's own functions. Each is called with `user_data`. */
typedef struct
{
  const gchar *name; /* "transfer"; static */
  /* Returns lines "name=value" of all flags; owned by the caller. */
  GPtrArray *(*describe) (gpointer user_data);
  /* Optional. Checks flags and the files that they name, before anything is started. */
  gboolean (*load) (gpointer user_data, GError **error);
  /* Optional: returns further notes on the environment; owned by the caller. */
  gchar *(*note) (gpointer user_data);
  /* Optional: prints more below the head. */
  void (*print_head) (gpointer user_data);
  /* Starts the systems and adds their tasks. */
  gboolean (*prepare) (gpointer user_data, TpsBenchRun *run, GError **error);
  /* Optional: called after a failure, before stop(); `error` gives the reason. */
  void (*fail) (gpointer user_data, const GError *error);
  /* Ends the systems, also after a failed prepare(). Remaining processes are ended afterwards. */
  void (*stop) (gpointer user_data);

  /* Optional: the run's figures are printed as the report and written to --json; the output of the
   * functions below follows. */
  const TpsFigureStyle *style;
  /* Optional: prints the report to standard output. */
  void (*print_report) (gpointer user_data);
  /* Optional: adds figures, peers, ratios and facts to --json. */
  void (*add_output) (gpointer user_data, TpsBenchOutput *output);
  /* Optional: writes other files named by flags. */
  gboolean (*write_more) (gpointer user_data, GError **error);
} TpsBenchmark;

/* Runs the benchmark. Prints errors to stderr. Returns the exit status: 0 success, 1 a system
 * failed, 2 a bad flag, 130 interrupted. */
gint tps_benchmark_run (const TpsBenchmark *benchmark, const TpsRunFlags *flags,
                        gpointer user_data);

/* Prints the expected length of all added tasks to stderr, if it is known and long. For benchmarks
 * whose systems start slowly; others print it when the systems have started. */
void tps_benchmark_say_length (TpsBenchRun *run);

/* Returns a folder that is removed with its files at the end; the first call creates it. Borrowed;
 * NULL on error. */
const gchar *tps_benchmark_get_folder (TpsBenchRun *run, GError **error);

/* For main(). tps_benchmark_init() sets the locale for the text of --help. The other function
 * prints `error`, which ends the program, and returns the exit status 2. */
void tps_benchmark_init (void);
gint tps_benchmark_refuse (const gchar *name, const GError *error);

/* Prints the version for --version. Returns the exit status 0. */
gint tps_benchmark_print_version (const gchar *name);

G_END_DECLS
