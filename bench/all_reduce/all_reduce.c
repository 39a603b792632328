/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Measures the speed at which the ranks of one host sum their gradients. The systems are our
 * process group in place, through shared memory and through sockets, the least memory traffic of
 * such a sum and, optionally, PyTorch's Gloo.
 *
 * A task of the engine is a size on a system. A figure is the median of the rounds, in GB/s of the
 * data of one rank. Every system checks a sum before the timed calls. */

#include <stdio.h>
#include <string.h>

#include "bench/all_reduce/rank.h"
#include "bench/engine/benchmark.h"
#include "bench/process/child.h"
#include "bench/process/runfiles.h"
#include "bench/report/figures.h"
#include "plugin/plugin.h"
#include "runtime/base/error.h"

#define NAME "all_reduce"
#define PEER "pytorch"
#define KIB ((gsize) 1 << 10)
#define MIB ((gsize) 1 << 20)
#define MAX_RANKS 64

/* For the estimate: the slowest system takes nearly all of the time of a round. */
#define USUAL_CALL_S 0.0005
#define USUAL_BYTES_PER_S 1e9
#define USUAL_WARM_UP_S 0.1

/* A system under test and its processes: one process for each rank, or a single process. */

/* The systems. */
typedef enum
{
  TPS_ALL_REDUCE_PLACED,  /* our group; the data are in its memory */
  TPS_ALL_REDUCE_SHARED,  /* our group; other data, through shared memory */
  TPS_ALL_REDUCE_TCP,     /* our group, through sockets */
  TPS_ALL_REDUCE_PYTORCH, /* torch.distributed with Gloo */
  TPS_ALL_REDUCE_MEMORY,  /* the limit of memory, see tps_all_reduce_run_limit() */
} Kind;

#define TPS_ALL_REDUCE_N_KINDS 5

#define PEER_SCRIPT "bench/peers/pytorch_all_reduce.py"

typedef struct
{
  Kind kind;
  GPtrArray *children; /* of TpsChild */
  gchar *version;
} System;

static const struct
{
  const gchar *name;
  const gchar *role; /* the role of our program; NULL = none */
} kinds[TPS_ALL_REDUCE_N_KINDS] = {
  [TPS_ALL_REDUCE_PLACED] = { "in place", "placed" },
  [TPS_ALL_REDUCE_SHARED] = { "shared memory", "shared" },
  [TPS_ALL_REDUCE_TCP] = { "tcp", "tcp" },
  [TPS_ALL_REDUCE_PYTORCH] = { "pytorch", NULL },
  [TPS_ALL_REDUCE_MEMORY] = { "memory", "limit" },
};

/* -- processes -- */

static gboolean
start_child (System *system, TpsSupervisor *supervisor, guint rank, guint size, const gchar *store,
             GError **error)
{
  gboolean is_peer = system->kind == TPS_ALL_REDUCE_PYTORCH;
  g_autofree gchar *found = is_peer ? tps_bench_find_file (PEER_SCRIPT, error)
                                    : tps_bench_find_program ();
  g_autofree gchar *name = g_strdup_printf ("%s, rank %u", kinds[system->kind].name, rank);
  g_auto (GStrv) argv = NULL;
  TpsChild *child;

  if (found == NULL)
    return FALSE;
  argv = tps_argv_format (
      "%s\n%s\n%s%s\n--rank=%u\n--ranks=%u\n--store=%s", is_peer ? tps_bench_find_python () : "",
      found, is_peer ? "" : "--role=", is_peer ? "" : kinds[system->kind].role, rank, size, store);
  child = tps_child_start (supervisor, name, argv, error);
  if (child != NULL)
    g_ptr_array_add (system->children, child);
  return child != NULL;
}

/* Receives the first line of each rank, such as "torch 1.13.0". */
static gboolean
receive_versions (System *system, GError **error)
{
  for (guint i = 0; i < system->children->len; i++)
    {
      g_free (system->version);
      system->version = tps_child_receive_from_script (system->children->pdata[i], error);
      if (system->version == NULL)
        return FALSE;
    }
  return TRUE;
}

static void
system_free (System *system)
{
  g_ptr_array_unref (system->children);
  g_free (system->version);
  g_free (system);
}

/* Starts the processes of a system with `size` ranks. `store` is the address of the store of our
 * ranks, or the path of PyTorch's file store. */
static System *
system_start (TpsSupervisor *supervisor, Kind kind, guint size, const gchar *store, GError **error)
{
  System *system = g_new0 (System, 1);
  guint n_children = kind == TPS_ALL_REDUCE_MEMORY ? 1 : size;
  gboolean ok = TRUE;

  system->kind = kind;
  system->children = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_child_free);
  for (guint rank = 0; ok && rank < n_children; rank++)
    ok = start_child (system, supervisor, rank, size, store, error);
  if (ok && (kind != TPS_ALL_REDUCE_PYTORCH || receive_versions (system, error)))
    return system;
  system_free (system);
  return NULL;
}

/* -- orders -- */

/* Returns the mean seconds of an all-reduce of `n_bytes` on the slowest rank; -1 with an error. */
static gdouble
system_run (System *system, gsize n_bytes, guint n_calls, GError **error)
{
  g_autofree gchar *order = g_strdup_printf ("%" G_GSIZE_FORMAT " %u", n_bytes, n_calls);
  gdouble slowest = 0;

  for (guint i = 0; i < system->children->len; i++)
    if (!tps_child_send (system->children->pdata[i], order, error))
      return -1;
  for (guint i = 0; i < system->children->len; i++)
    {
      gdouble seconds = tps_child_receive_seconds (system->children->pdata[i], NULL, error);

      if (seconds < 0)
        return -1;
      slowest = MAX (slowest, seconds);
    }
  return slowest / n_calls;
}

typedef struct
{
  TpsRunFlags run;
  gint n_ranks, n_calls;
  gint64 n_bytes;
  gchar *role, *store; /* for child processes */
  gint rank;
} Options;

static Options flags;

#define FIELD(name) G_STRUCT_OFFSET (Options, name)

static const TpsFlag table[] = {
  { "ranks", G_OPTION_ARG_INT, FIELD (n_ranks), "processes, 2 to 64 (2)", "N", 2, 2, MAX_RANKS },
  { "bytes", G_OPTION_ARG_INT64, FIELD (n_bytes),
    "a single size, 4 to 1073741824 (default: a table of sizes)", "N", 0, 4, 1 << 30 },
  { "calls", G_OPTION_ARG_INT, FIELD (n_calls), "calls per round (depends on the size)", "N", 0, 0,
    1000000 },
  { "peer", G_OPTION_ARG_STRING, FIELD (run.peer), "pytorch: PyTorch's Gloo with the same sizes",
    "NAME", .words = PEER },
  { "role", G_OPTION_ARG_STRING, FIELD (role) },
  { "rank", G_OPTION_ARG_INT, FIELD (rank) },
  { "store", G_OPTION_ARG_STRING, FIELD (store) },
  { NULL },
};

static const TpsCommandLine command_line = {
  NAME,
  "Measures sums of gradients by processes of this host: in place, through shared memory, through "
  "sockets,\nnext to the memory traffic of such a sum.",
  { { table, 0 }, { tps_run_flags, FIELD (run) } },
};

typedef struct
{
  TpsPlugin *plugin; /* serves the store through which our ranks join */
  TpsServer *server;
  GPtrArray *systems;  /* of System */
  TpsFigures *figures; /* owned by the run */
  gsize sizes[8];
  guint n_sizes;
} AllReduce;

/* -- systems -- */

static gboolean
serve_store (AllReduce *bench, const gchar *folder, GError **error)
{
  TpsPluginOptions options = { .name = NAME, .n_trainers = 1 };
  g_autofree gchar *address = g_strdup_printf ("unix:%s/store.sock", folder);

  bench->plugin = tps_plugin_new (&options, error);
  if (bench->plugin == NULL)
    return FALSE;
  bench->server = tps_plugin_new_server (bench->plugin, NULL);
  return tps_server_listen (bench->server, address, error)
         && tps_server_start (bench->server, error);
}

static gboolean
start_system (AllReduce *bench, TpsBenchRun *run, Kind kind, GError **error)
{
  g_autofree gchar *file = g_build_filename (run->folder, "torch", NULL);
  const gchar *store = kind == TPS_ALL_REDUCE_PYTORCH ? file
                                                      : tps_server_get_addresses (bench->server)[0];
  System *system = system_start (run->supervisor, kind, (guint) flags.n_ranks, store, error);

  if (system != NULL)
    g_ptr_array_add (bench->systems, system);
  return system != NULL;
}

static gboolean
start_systems (AllReduce *bench, TpsBenchRun *run, GError **error)
{
  TpsFigureLimit tcp = { .name = kinds[TPS_ALL_REDUCE_TCP].name, .title = "of tcp" };
  TpsFigureLimit memory = { .name = kinds[TPS_ALL_REDUCE_MEMORY].name,
                            .title = "of memory",
                            .version = "sums in memory that all threads map" };
  TpsFigureLimit pytorch = { .name = PEER, .title = "of torch" };

  if (!start_system (bench, run, TPS_ALL_REDUCE_PLACED, error)
      || !start_system (bench, run, TPS_ALL_REDUCE_SHARED, error)
      || !start_system (bench, run, TPS_ALL_REDUCE_TCP, error)
      || !start_system (bench, run, TPS_ALL_REDUCE_MEMORY, error)
      || (flags.run.peer != NULL && !start_system (bench, run, TPS_ALL_REDUCE_PYTORCH, error)))
    return FALSE;
  tps_figures_add_limit (bench->figures, &tcp);
  tps_figures_add_limit (bench->figures, &memory);
  pytorch.version = ((System *) bench->systems->pdata[bench->systems->len - 1])->version;
  if (flags.run.peer != NULL)
    {
      tps_figures_add_limit (bench->figures, &pytorch);
      printf ("%s", tps_bench_describe_python ());
    }
  return TRUE;
}

/* -- tasks -- */

/* Chooses a number of calls that takes about a tenth of a second. */
static guint
choose_n_calls (gsize n_bytes)
{
  if (flags.n_calls > 0)
    return (guint) flags.n_calls;
  return flags.run.smoke ? 3 : (guint) CLAMP (256 * MIB / n_bytes, 4, 1000);
}

static gchar *
make_title (gsize n_bytes)
{
  if (n_bytes >= MIB)
    return g_strdup_printf ("all-reduce %.4g MiB", (gdouble) n_bytes / (gdouble) MIB);
  return g_strdup_printf ("all-reduce %.4g KiB", (gdouble) n_bytes / (gdouble) KIB);
}

static gchar *
name_ours (const gchar *system, const gchar *row)
{
  return g_strdup_printf ("%s %s", row, system);
}

static const TpsQuantity rate = { "", "GB/s" };

static const TpsFigureColumn columns[] = {
  { "GB/s, p50", "", NULL, 50 },
  { "p95", "", NULL, 95 },
  { NULL, NULL, NULL, 0 },
};

static const TpsFigureStyle style = { .name = name_ours, .label = name_ours, .columns = columns };

static gboolean
run_task (gpointer bench, gpointer system, gpointer size, gboolean is_warm_up, GError **error)
{
  gsize n_bytes = *(const gsize *) size;
  guint n_calls = choose_n_calls (n_bytes);
  g_autofree gchar *title = make_title (n_bytes);
  gdouble seconds = system_run (system, n_bytes, is_warm_up ? MIN (n_calls, 2) : n_calls, error);

  if (seconds < 0)
    return FALSE;
  if (!is_warm_up)
    tps_figures_add (((AllReduce *) bench)->figures, kinds[((System *) system)->kind].name, title,
                     &rate, (gdouble) n_bytes / seconds / 1e9);
  return TRUE;
}

static void
add_row (AllReduce *bench, TpsEngine *engine, gsize n_bytes)
{
  g_autofree gchar *title = make_title (n_bytes);
  gsize *size = &bench->sizes[bench->n_sizes++];

  *size = n_bytes;
  tps_engine_begin_row (engine);
  for (guint i = 0; i < bench->systems->len; i++)
    {
      TpsTask task = {
        .run = run_task, .bench = bench, .system = bench->systems->pdata[i], .row = size
      };

      task.measured_s = choose_n_calls (n_bytes)
                        * (USUAL_CALL_S + (gdouble) n_bytes / USUAL_BYTES_PER_S);
      task.warm_up_s = MIN (task.measured_s, USUAL_WARM_UP_S);
      tps_engine_add (engine, &task, "%s", title);
    }
}

static gboolean
prepare (gpointer user_data, TpsBenchRun *run, GError **error)
{
  static const gsize sizes[] = { 4 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 25 * MIB, 64 * MIB };
  AllReduce *bench = user_data;
  const gchar *folder = tps_benchmark_get_folder (run, error);

  bench->figures = run->figures;
  if (folder == NULL || !serve_store (bench, folder, error) || !start_systems (bench, run, error))
    return FALSE;
  if (flags.n_bytes > 0)
    add_row (bench, run->engine, (gsize) flags.n_bytes);
  else
    for (guint i = 0; i < (flags.run.smoke ? 3 : G_N_ELEMENTS (sizes)); i++)
      add_row (bench, run->engine, sizes[i]);
  return TRUE;
}

static void
stop (gpointer user_data)
{
  AllReduce *bench = user_data;

  g_ptr_array_set_size (bench->systems, 0);
  g_clear_object (&bench->server);
  g_clear_pointer (&bench->plugin, tps_plugin_free);
}

static gint
run_benchmark (void)
{
  static const TpsBenchmark benchmark = {
    .command_line = &command_line,
    .prepare = prepare,
    .stop = stop,
    .style = &style,
  };
  AllReduce bench = { .systems = g_ptr_array_new_with_free_func ((GDestroyNotify) system_free) };
  gint status = tps_benchmark_run (&benchmark, &flags.run, &bench);

  g_ptr_array_unref (bench.systems);
  return status;
}

static gint
run_role (void)
{
  TpsAllReduceRank rank = {
    .rank = (guint) flags.rank,
    .size = (guint) flags.n_ranks,
    .role = flags.role,
    .store = flags.store,
  };

  if (g_str_equal (flags.role, "limit"))
    return tps_all_reduce_run_limit (rank.size);
  return tps_all_reduce_run_rank (&rank);
}

gint
main (gint argc, gchar **argv)
{
  g_autoptr (GError) error = NULL;
  gint status;

  tps_benchmark_init ();
  if (!tps_command_line_parse (&command_line, &flags, argc, argv, NULL, &error))
    return tps_benchmark_refuse (NAME, error);
  tps_flags_default_number (&flags.run.repeats, flags.run.smoke ? 1 : 5);
  status = flags.role != NULL ? run_role () : run_benchmark ();
  tps_command_line_clear (&command_line, &flags);
  return status;
}
