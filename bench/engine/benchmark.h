/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The life of a benchmark: its head, its systems, its rounds, its report, its exit status. */

#pragma once

#include "bench/engine/engine.h"
#include "bench/process/flags.h"
#include "bench/process/supervisor.h"
#include "bench/report/figures.h"
#include "bench/report/json_output.h"

G_BEGIN_DECLS

/* What the parts of a benchmark work with. */
typedef struct
{
  const gchar *name;
  gboolean has_said_length;
  TpsSupervisor *supervisor; /* of all its processes */
  TpsEngine *engine;
  TpsFigures *figures; /* where the benchmark has a style for them */
  gchar *folder;       /* for sockets and files; tps_benchmark_get_folder() */
} TpsBenchRun;

/* A benchmark's own parts. Each is called with `user_data`. */
typedef struct
{
  const gchar *name; /* "transfer"; static */
  /* Lines "name=value" of all flags in use; owned by the caller. */
  GPtrArray *(*describe) (gpointer user_data);
  /* Optional. Before anything starts: errors in flags and in files that they name. */
  gboolean (*load) (gpointer user_data, GError **error);
  /* Optional: what is worth knowing besides the host; owned by the caller. */
  gchar *(*note) (gpointer user_data);
  /* Optional: printed below. */
  void (*print_head) (gpointer user_data);
  /* Starts the systems and adds their tasks. */
  gboolean (*prepare) (gpointer user_data, TpsBenchRun *run, GError **error);
  /* Optional: the run has failed, `error` says why. Called before stop(). */
  void (*fail) (gpointer user_data, const GError *error);
  /* Ends the systems, where prepare() has not succeeded too. Processes that are left are ended
   * after it. */
  void (*stop) (gpointer user_data);

  /* Optional: what is in the run's figures is the report and goes to --json; the parts below come
   * after it. */
  const TpsFigureStyle *style;
  /* Optional: the report on standard output. */
  void (*print_report) (gpointer user_data);
  /* Optional: figures, peers, ratios and facts for --json. */
  void (*add_output) (gpointer user_data, TpsBenchOutput *output);
  /* Optional: other files that flags ask for. */
  gboolean (*write_more) (gpointer user_data, GError **error);
} TpsBenchmark;

/* Runs it. Returns the exit status: 0 done, 1 a system failed, 2 a bad flag, 130 interrupted.
 * Errors are on stderr. */
gint tps_benchmark_run (const TpsBenchmark *benchmark, const TpsRunFlags *flags,
                        gpointer user_data);

/* Says on stderr how long all tasks take that have been added, if that is known and long enough to
 * matter. For a benchmark whose systems take long to start; else it is said when they have
 * started. */
void tps_benchmark_say_length (TpsBenchRun *run);

/* A folder that is removed at the end, with its files; made by the first call. Borrowed; NULL on
 * error. */
const gchar *tps_benchmark_get_folder (TpsBenchRun *run, GError **error);

/* For main(): sets the locale of the text of --help, and says why `error` ends the program. Returns
 * the exit status 2. */
void tps_benchmark_init (void);
gint tps_benchmark_refuse (const gchar *name, const GError *error);

/* --version. Returns the exit status 0. */
gint tps_benchmark_print_version (const gchar *name);

G_END_DECLS
