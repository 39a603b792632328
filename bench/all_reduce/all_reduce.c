/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How fast the ranks of one host sum up their gradients: our process group through shared memory, the same group through
 * sockets, the memory traffic that such a sum cannot do without and, if asked for, PyTorch's Gloo.
 *
 * All systems run in turn, size by size and round after round, so that what disturbs one disturbs all. A figure is the median
 * of the rounds. Every rank checks a sum before it is timed.
 */

#include <locale.h>
#include <stdio.h>

#include "bench/all_reduce/figures.h"
#include "bench/all_reduce/rank.h"
#include "bench/process/flags.h"
#include "bench/process/interrupt.h"
#include "bench/process/runfiles.h"
#include "bench/process/status_line.h"
#include "plugin/plugin.h"
#include "runtime/base/version.h"

#define PEER "pytorch"
#define KIB ((gsize) 1 << 10)
#define MIB ((gsize) 1 << 20)
#define MAX_RANKS 64

static struct
{
  TpsRunFlags run;
  gchar *peer;
  gint n_ranks, n_calls;
  gint64 n_bytes;
  gchar *role, *store; /* for children */
  gint rank;
  gchar **given;
} flags = { .n_ranks = 2 };

static const GOptionEntry entries[] = {
  { "ranks", 0, 0, G_OPTION_ARG_INT, &flags.n_ranks, "processes that sum up, 2 to 64 (2)", "N" },
  { "bytes", 0, 0, G_OPTION_ARG_INT64, &flags.n_bytes,
    "one size only, 4 to 1073741824 (default: a table of sizes)", "N" },
  { "calls", 0, 0, G_OPTION_ARG_INT, &flags.n_calls, "calls of a round (by the size)", "N" },
  { "peer", 0, 0, G_OPTION_ARG_STRING, &flags.peer, "pytorch: its Gloo on the same sizes", "NAME" },
  { "role", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &flags.role, NULL, NULL },
  { "rank", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_INT, &flags.rank, NULL, NULL },
  { "store", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &flags.store, NULL, NULL },
  { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
};

typedef struct
{
  TpsSupervisor *supervisor;
  gchar *folder;     /* of the store's socket, and PyTorch's */
  TpsPlugin *plugin; /* the store */
  TpsServer *server;
  GPtrArray *systems; /* of TpsAllReduceSystem */
  GArray *rows;       /* of TpsAllReduceRow */
  const gchar *pytorch;
  TpsStatusLine status;
} AllReduce;

/* -- preparations -- */

/* About a tenth of a second each. */
static guint
choose_n_calls (gsize n_bytes)
{
  if (flags.n_calls > 0)
    return (guint) flags.n_calls;
  return flags.run.smoke ? 3 : (guint) CLAMP (256 * MIB / n_bytes, 4, 1000);
}

static void
add_row (AllReduce *bench, gsize n_bytes)
{
  TpsAllReduceRow row;

  tps_all_reduce_row_init (&row, n_bytes, choose_n_calls (n_bytes));
  g_array_append_val (bench->rows, row);
}

static void
add_rows (AllReduce *bench)
{
  static const gsize sizes[] = { 4 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 25 * MIB, 64 * MIB };

  if (flags.n_bytes > 0)
    add_row (bench, (gsize) flags.n_bytes);
  else
    for (guint i = 0; i < (flags.run.smoke ? 3 : G_N_ELEMENTS (sizes)); i++)
      add_row (bench, sizes[i]);
}

/* Where our ranks meet. */
static gboolean
serve_store (AllReduce *bench, GError **error)
{
  TpsPluginOptions options = { .name = "all_reduce", .parameter_server = { .n_trainers = 1 } };
  g_autofree gchar *address = g_strdup_printf ("unix:%s/store.sock", bench->folder);

  bench->plugin = tps_plugin_new (&options, error);
  if (bench->plugin == NULL)
    return FALSE;
  bench->server = tps_plugin_new_server (bench->plugin, NULL);
  return tps_server_listen (bench->server, address, error)
         && tps_server_start (bench->server, error);
}

static gboolean
start_system (AllReduce *bench, TpsAllReduceKind kind, GError **error)
{
  g_autofree gchar *file = g_build_filename (bench->folder, "torch", NULL);
  const gchar *store = kind == TPS_ALL_REDUCE_PYTORCH ? file
                                                      : tps_server_get_addresses (bench->server)[0];
  TpsAllReduceSystem *system = tps_all_reduce_system_start (bench->supervisor, kind,
                                                            (guint) flags.n_ranks, store, error);

  if (system == NULL)
    return FALSE;
  g_ptr_array_add (bench->systems, system);
  if (kind == TPS_ALL_REDUCE_PYTORCH)
    bench->pytorch = tps_all_reduce_system_get_version (system);
  return TRUE;
}

static gboolean
start_systems (AllReduce *bench, GError **error)
{
  return start_system (bench, TPS_ALL_REDUCE_SHARED, error)
         && start_system (bench, TPS_ALL_REDUCE_TCP, error)
         && (flags.peer == NULL || start_system (bench, TPS_ALL_REDUCE_PYTORCH, error))
         && start_system (bench, TPS_ALL_REDUCE_MEMORY, error);
}

/* -- rounds -- */

static gboolean
run_row (AllReduce *bench, TpsAllReduceRow *row, gboolean is_warm_up, GError **error)
{
  for (guint i = 0; i < bench->systems->len; i++)
    {
      TpsAllReduceSystem *system = bench->systems->pdata[i];
      guint n_calls = is_warm_up ? MIN (row->n_calls, 2) : row->n_calls;
      gdouble seconds;

      if (!tps_interrupt_check (error))
        return FALSE;
      seconds = tps_all_reduce_system_run (system, row->n_bytes, n_calls, error);
      if (seconds < 0)
        return FALSE;
      if (!is_warm_up)
        tps_all_reduce_row_add (row, tps_all_reduce_system_get_kind (system), seconds);
    }
  return TRUE;
}

static void
show_progress (AllReduce *bench, gint round)
{
  g_autofree gchar *text = NULL;

  if (!tps_status_line_is_due (&bench->status))
    return;
  text = round == 0 ? g_strdup ("warm-up")
                    : g_strdup_printf ("round %d of %d", round, flags.run.repeats);
  tps_status_line_show (&bench->status, text);
}

static gboolean
run_rounds (AllReduce *bench, GError **error)
{
  for (gint round = 0; round <= flags.run.repeats; round++)
    for (guint i = 0; i < bench->rows->len; i++)
      {
        show_progress (bench, round);
        if (!run_row (bench, &g_array_index (bench->rows, TpsAllReduceRow, i), round == 0, error))
          return FALSE;
      }
  return TRUE;
}

static gboolean
run (AllReduce *bench, GError **error)
{
  gboolean ok;

  bench->folder = g_dir_make_tmp ("thriftps-XXXXXX", error);
  if (bench->folder == NULL || !serve_store (bench, error) || !start_systems (bench, error))
    return FALSE;
  add_rows (bench);
  tps_status_line_init (&bench->status);
  ok = run_rounds (bench, error);
  tps_status_line_end (&bench->status);
  return ok;
}

/* -- the end -- */

static gboolean
report (const AllReduce *bench, GPtrArray *described, GError **error)
{
  g_autofree gchar *table = tps_all_reduce_show (bench->rows);
  g_auto (TpsBenchOutput) output;

  fputs (table, stdout);
  tps_bench_output_init (&output, "all_reduce", described);
  tps_all_reduce_output (bench->rows, bench->pytorch, &output);
  return flags.run.json == NULL || tps_bench_output_write_json (&output, flags.run.json, error);
}

static void
all_reduce_clear (AllReduce *bench)
{
  g_ptr_array_unref (bench->systems);
  tps_supervisor_free (bench->supervisor);
  g_clear_object (&bench->server);
  g_clear_pointer (&bench->plugin, tps_plugin_free);
  for (guint i = 0; i < bench->rows->len; i++)
    tps_all_reduce_row_clear (&g_array_index (bench->rows, TpsAllReduceRow, i));
  g_array_unref (bench->rows);
  g_clear_pointer (&bench->folder, tps_bench_remove_folder);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (AllReduce, all_reduce_clear)

static void
describe_flags (GPtrArray *described)
{
  tps_flags_add_number (described, "ranks", flags.n_ranks);
  tps_flags_add_number (described, "bytes", (gdouble) flags.n_bytes);
  tps_flags_add_number (described, "calls", flags.n_calls);
  tps_flags_add_text (described, "peer", flags.peer);
  tps_flags_add_number (described, "repeats", flags.run.repeats);
}

static void
free_system (gpointer system)
{
  tps_all_reduce_system_free (system);
}

static gint
run_benchmark (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *host = tps_bench_describe_host ();
  g_autoptr (GPtrArray) described = g_ptr_array_new_with_free_func (g_free);
  g_auto (AllReduce) bench = { .supervisor = tps_supervisor_new (),
                               .systems = g_ptr_array_new_with_free_func (free_system),
                               .rows = g_array_new (FALSE, FALSE, sizeof (TpsAllReduceRow)) };

  describe_flags (described);
  printf ("all_reduce: ranks=%d repeats=%d\nhost: %s\n", flags.n_ranks, flags.run.repeats, host);
  fflush (stdout);
  if (run (&bench, &error) && report (&bench, described, &error))
    return 0;
  fprintf (stderr, "all_reduce: %s\n", error->message);
  return tps_interrupt_is_set () ? 130 : 1;
}

/* -- flags -- */

static gboolean
check_flags (GError **error)
{
  static const gchar *const peers[] = { PEER, NULL };
  static const gchar *const none[] = { NULL };

  if (flags.run.repeats == 0)
    flags.run.repeats = flags.run.smoke ? 1 : 5;
  return tps_run_flags_finish (&flags.run, none, error)
         && tps_flags_check_number ("ranks", flags.n_ranks, 2, MAX_RANKS, error)
         && (flags.n_bytes == 0
             || tps_flags_check_number ("bytes", flags.n_bytes, 4, 1 << 30, error))
         && tps_flags_check_number ("calls", flags.n_calls, 0, 1000000, error)
         && (flags.peer == NULL || tps_flags_check_word ("peer", flags.peer, peers, error));
}

static gboolean
parse_flags (gint argc, gchar **argv, GError **error)
{
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);

  g_option_context_set_summary (
      context, "Measures how fast processes of this host sum up gradients: through shared memory, "
               "through sockets, next to the\nmemory traffic of such a sum.");
  g_option_context_set_description (context, TPS_FLAGS_EXIT_STATUS);
  g_option_context_add_main_entries (context, entries, NULL);
  tps_run_flags_add (context, &flags.run, NULL);
  return tps_flags_parse (context, argc, argv, &flags.given, error) && check_flags (error);
}

static gint
run_role (void)
{
  TpsAllReduceRank rank = {
    .rank = (guint) flags.rank,
    .size = (guint) flags.n_ranks,
    .no_shared_memory = g_str_equal (flags.role, "tcp"),
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

  setlocale (LC_CTYPE, ""); /* for the text of --help; numbers stay as they are everywhere */
  if (!parse_flags (argc, argv, &error))
    {
      fprintf (stderr, "all_reduce: %s\n", error->message);
      return 2;
    }
  if (flags.run.version)
    {
      printf ("all_reduce (ThriftPS) %s\n", TPS_VERSION);
      return 0;
    }
  if (flags.role != NULL)
    return run_role ();
  tps_interrupt_install ();
  return run_benchmark ();
}
