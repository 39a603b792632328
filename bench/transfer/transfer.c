/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How fast tensors and small calls go through the plugin, next to the limit of the machine and, if asked for, to peers,
 * all measured in the same run.
 *
 * Each system is a server process and a load generator; rows (row.h) run on all of them in turn, round after round, so
 * that what disturbs one disturbs all. A figure is the median of the rounds. Answers are checked by the load generators.
 */

#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/process/flags.h"
#include "bench/process/interrupt.h"
#include "bench/process/runfiles.h"
#include "bench/transfer/call_load.h"
#include "bench/transfer/load.h"
#include "bench/transfer/serve.h"
#include "bench/transfer/show.h"
#include "bench/transfer/tensor.h"
#include "runtime/error.h"
#include "runtime/sync.h"
#include "runtime/version.h"

#define N_CLIENTS 8
#define PROGRESS_NS G_GINT64_CONSTANT (5000000000)
#define MEMCPY_BYTES ((gsize) 64 << 20)

#define MIB ((gsize) 1 << 20)
#define KIB ((gsize) 1 << 10)

static struct
{
  TpsRunFlags run;
  gboolean full;
  gboolean peers;
  gchar *plot;
  gchar *op;
  gint64 n_bytes;
  gint n_connections;
  gint n_in_flight;
  gint n_calls;
  gdouble seconds;
  gchar *serve, *load, *address; /* for children */
  gchar **given;
} flags = { .n_connections = 1, .n_in_flight = 1, .seconds = 1 };

static const GOptionEntry entries[] = {
  { "op", 0, 0, G_OPTION_ARG_STRING, &flags.op,
    "one row only: push, pull or echo (default: a table of rows)", "NAME" },
  { "bytes", 0, 0, G_OPTION_ARG_INT64, &flags.n_bytes, "its bytes, 4 to 268435456 (16 MiB)", "N" },
  { "connections", 0, 0, G_OPTION_ARG_INT, &flags.n_connections, "its connections, 1 to 64 (1)",
    "N" },
  { "in-flight", 0, 0, G_OPTION_ARG_INT, &flags.n_in_flight,
    "its calls in flight on each connection, 1 to 32 (1)", "N" },
  { "calls", 0, 0, G_OPTION_ARG_INT, &flags.n_calls, "calls of a row in a round (by its size)",
    "N" },
  { "full", 0, 0, G_OPTION_ARG_NONE, &flags.full, "more rows: up to 256 MiB and 64 connections",
    NULL },
  { "peers", 0, 0, G_OPTION_ARG_NONE, &flags.peers,
    "the same rows on Thrift's C++ and C GLib libraries and on PyTorch's TensorPipe", NULL },
  { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &flags.seconds,
    "length of a round of small calls, 8 clients; 0 = none (1)", "S" },
  { "plot", 0, 0, G_OPTION_ARG_FILENAME, &flags.plot, "GB/s over bytes as .png or .svg (gnuplot)",
    "FILE" },
  { "serve", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &flags.serve, NULL, NULL },
  { "load", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &flags.load, NULL, NULL },
  { "address", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &flags.address, NULL, NULL },
  { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
};

static const TpsTransferSystemSpec systems[] = {
  { .name = "thriftps", .version = TPS_VERSION, .transport = "tcp", .kind = "ours" },
  { .name = "raw", .version = "blocking socket", .transport = "tcp", .kind = "raw" },
  { .name = "thriftps", .version = TPS_VERSION, .transport = "unix", .kind = "ours" },
  { .name = "raw", .version = "blocking socket", .transport = "unix", .kind = "raw" },
};

#define LIBTHRIFT "bench/libthrift_transfer"

static const TpsTransferSystemSpec peer_systems[] = {
  { .name = "libthrift TThreaded",
    .version = "0.17",
    .transport = "tcp",
    .program = LIBTHRIFT,
    .kind = "threaded",
    .max_in_flight = 1 },
  { .name = "libthrift TNonblocking",
    .version = "0.17",
    .transport = "tcp",
    .program = LIBTHRIFT,
    .kind = "nonblocking",
    .max_in_flight = 1 },
  { .name = "C GLib",
    .version = "0.17",
    .transport = "tcp",
    .program = "bench/c_glib_transfer",
    .kind = "simple",
    .max_connections = 1,
    .max_in_flight = 1 },
  { .name = "TensorPipe",
    .version = "python3-torch",
    .transport = "default",
    .script = "bench/peers/pytorch_transfer.py",
    .kind = "default",
    .max_connections = 1 },
  { .name = "TensorPipe",
    .version = "python3-torch",
    .transport = "tcp",
    .script = "bench/peers/pytorch_transfer.py",
    .kind = "tcp",
    .max_connections = 1 },
};

typedef struct
{
  TpsSupervisor *supervisor;
  gchar *socket_dir;
  GPtrArray *systems; /* of TpsTransferSystem */
  TpsTransferFigures figures;
  gint64 shown_ns; /* when progress was last said */
} Transfer;

/* -- rows -- */

/* About a quarter of a second each, at what a socket does. */
static guint
choose_n_calls (gsize n_bytes)
{
  gsize by_bytes = 256 * MIB / MAX (n_bytes, 1);

  if (flags.n_calls > 0)
    return (guint) flags.n_calls;
  return flags.run.smoke ? 4 : (guint) CLAMP (by_bytes, 4, 2000);
}

static void
add_row (Transfer *transfer, TpsTransferOp op, gsize n_bytes, guint n_connections,
         guint n_in_flight)
{
  TpsTransferRow row = {
    .op = op, .n_bytes = n_bytes, .n_connections = n_connections, .n_in_flight = n_in_flight
  };
  TpsTransferRowResults results;

  row.n_calls = MAX (choose_n_calls (n_bytes), n_connections * n_in_flight);
  tps_transfer_row_results_init (&results, &row);
  g_array_append_val (transfer->figures.rows, results);
}

static void
add_rows (Transfer *transfer)
{
  static const gsize smoke[] = { KIB, MIB };
  static const gsize usual[] = { 64, KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB };
  static const gsize full[] = { 64,  KIB,     16 * KIB, 64 * KIB, 256 * KIB,
                                MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB };
  const gsize *sizes = flags.run.smoke ? smoke : flags.full ? full : usual;
  guint n_sizes = flags.run.smoke ? G_N_ELEMENTS (smoke)
                  : flags.full    ? G_N_ELEMENTS (full)
                                  : G_N_ELEMENTS (usual);

  for (guint op = TPS_TRANSFER_PUSH; op <= TPS_TRANSFER_ECHO; op++)
    for (guint i = 0; i < n_sizes; i++)
      add_row (transfer, (TpsTransferOp) op, sizes[i], 1, 1);
  add_row (transfer, TPS_TRANSFER_PUSH, KIB, 1, 8);
  add_row (transfer, TPS_TRANSFER_PUSH, KIB, 8, 1);
  add_row (transfer, TPS_TRANSFER_PUSH, MIB, 1, 4);
  add_row (transfer, TPS_TRANSFER_PUSH, MIB, 8, 1);
  if (!flags.full)
    return;
  for (guint n = 2; n <= 64; n *= 4)
    add_row (transfer, TPS_TRANSFER_PUSH, 256 * KIB, n, 1);
  add_row (transfer, TPS_TRANSFER_PUSH, KIB, 64, 32);
}

static void
choose_rows (Transfer *transfer)
{
  TpsTransferRow row;
  g_autofree gchar *line = g_strdup_printf ("%s %" G_GINT64_FORMAT " %d %d 1",
                                            flags.op != NULL ? flags.op : "", flags.n_bytes,
                                            flags.n_connections, flags.n_in_flight);

  if (tps_transfer_row_parse (line, &row))
    add_row (transfer, row.op, row.n_bytes, row.n_connections, row.n_in_flight);
  else
    add_rows (transfer);
}

/* -- systems -- */

static gboolean
start_systems (Transfer *transfer, const TpsTransferSystemSpec *specs, guint n_specs,
               GError **error)
{
  for (guint i = 0; i < n_specs; i++)
    {
      TpsTransferSystem *system = tps_transfer_system_start (transfer->supervisor, &specs[i],
                                                             transfer->socket_dir, error);

      if (system == NULL)
        return FALSE;
      g_ptr_array_add (transfer->systems, system);
    }
  return TRUE;
}

static void
start_figures (Transfer *transfer)
{
  transfer->figures.rows = g_array_new (FALSE, FALSE, sizeof (TpsTransferRowResults));
  transfer->figures.calls = g_array_new (FALSE, FALSE, sizeof (TpsTransferCalls));
}

/* The servers that small calls are made to: ours, and the C++ ones, over TCP. */
static gboolean
answers_small_calls (const TpsTransferSystemSpec *spec)
{
  return g_str_equal (spec->transport, "tcp")
         && (g_str_equal (spec->kind, "ours") || g_strcmp0 (spec->program, LIBTHRIFT) == 0);
}

static void
add_call_servers (Transfer *transfer)
{
  for (guint i = 0; i < transfer->systems->len; i++)
    {
      const TpsTransferSystemSpec *spec = tps_transfer_system_get_spec (
          transfer->systems->pdata[i]);
      TpsTransferCalls calls = { .name = spec->name };

      if (flags.seconds <= 0 || !answers_small_calls (spec))
        continue;
      calls.calls_per_s = g_array_new (FALSE, FALSE, sizeof (gdouble));
      g_array_append_val (transfer->figures.calls, calls);
    }
}

/* -- a round -- */

static gboolean
run_row (Transfer *transfer, TpsTransferRowResults *results, gboolean is_warm_up, GError **error)
{
  for (guint i = 0; i < transfer->systems->len; i++)
    {
      TpsTransferSystem *system = transfer->systems->pdata[i];
      TpsTransferRow row = results->row;
      g_auto (TpsTransferTimes) times = { 0 };

      if (!tps_transfer_system_can_run (system, &row))
        continue;
      if (is_warm_up) /* connections, pools, page tables */
        row.n_calls = MAX (MIN (row.n_calls, 8), row.n_connections);
      if (!tps_transfer_system_run (system, &row, &times, error))
        return FALSE;
      if (!is_warm_up)
        tps_transfer_row_results_add (results, tps_transfer_system_get_spec (system), &times);
    }
  return TRUE;
}

static gboolean
run_calls (Transfer *transfer, GError **error)
{
  guint next = 0;

  for (guint i = 0; i < transfer->systems->len && next < transfer->figures.calls->len; i++)
    {
      TpsTransferSystem *system = transfer->systems->pdata[i];
      gdouble calls_per_s;

      if (!answers_small_calls (tps_transfer_system_get_spec (system)))
        continue;
      calls_per_s = tps_call_load_run (tps_transfer_system_get_address (system), N_CLIENTS,
                                       flags.seconds, error);
      if (calls_per_s < 0)
        return FALSE;
      g_array_append_val (
          g_array_index (transfer->figures.calls, TpsTransferCalls, next++).calls_per_s,
          calls_per_s);
    }
  return TRUE;
}

static gboolean
run_round (Transfer *transfer, gboolean is_warm_up, GError **error)
{
  for (guint i = 0; i < transfer->figures.rows->len; i++)
    if (!run_row (transfer, &g_array_index (transfer->figures.rows, TpsTransferRowResults, i),
                  is_warm_up, error))
      return FALSE;
  return is_warm_up || run_calls (transfer, error);
}

/* The best of some: what a copy costs when nothing is in its way. */
static gdouble
measure_memcpy (void)
{
  g_autofree guint8 *from = g_malloc (MEMCPY_BYTES), *to = g_malloc (MEMCPY_BYTES);
  gint64 best_ns = G_MAXINT64;

  memset (from, 1, MEMCPY_BYTES);
  memset (to, 2, MEMCPY_BYTES);
  for (guint i = 0; i < 5; i++)
    {
      gint64 start_ns = tps_clock_now_ns ();

      memcpy (to, from, MEMCPY_BYTES);
      __asm__ volatile("" : : "r"(to) : "memory"); /* not to be left out */
      best_ns = MIN (best_ns, tps_clock_now_ns () - start_ns);
    }
  return (gdouble) MEMCPY_BYTES / (gdouble) best_ns;
}

/* On a terminal at once, elsewhere every few seconds. */
static void
show_progress (Transfer *transfer, gint round)
{
  gint64 now_ns = tps_clock_now_ns ();

  if (!isatty (STDERR_FILENO) && now_ns - transfer->shown_ns < PROGRESS_NS)
    return;
  transfer->shown_ns = now_ns;
  if (round == 0)
    fprintf (stderr, "warm-up\n");
  else
    fprintf (stderr, "round %d of %d\n", round, flags.run.repeats);
}

static gboolean
run (Transfer *transfer, GError **error)
{
  transfer->socket_dir = g_dir_make_tmp ("thriftps-XXXXXX", error);
  if (transfer->socket_dir == NULL
      || !start_systems (transfer, systems, G_N_ELEMENTS (systems), error)
      || (flags.peers
          && !start_systems (transfer, peer_systems, G_N_ELEMENTS (peer_systems), error)))
    return FALSE;
  choose_rows (transfer);
  add_call_servers (transfer);
  transfer->figures.memcpy_gb_per_s = measure_memcpy ();
  transfer->shown_ns = tps_clock_now_ns ();
  show_progress (transfer, 0);
  if (!run_round (transfer, TRUE, error))
    return FALSE;
  for (gint i = 0; i < flags.run.repeats; i++)
    {
      show_progress (transfer, i + 1);
      if (!run_round (transfer, FALSE, error))
        return FALSE;
    }
  return TRUE;
}

/* -- the end -- */

static gboolean
write_json (const Transfer *transfer, GError **error)
{
  g_autoptr (GPtrArray) described = g_ptr_array_new_with_free_func (g_free);
  g_auto (TpsBenchOutput) output;

  tps_flags_add_number (described, "repeats", flags.run.repeats);
  tps_flags_add_number (described, "seconds", flags.seconds);
  tps_flags_add_text (described, "op", flags.op);
  tps_flags_add_number (described, "full", flags.full);
  tps_flags_add_number (described, "peers", flags.peers);
  tps_bench_output_init (&output, "transfer", described);
  tps_transfer_show_output (&transfer->figures, &output);
  return tps_bench_output_write_json (&output, flags.run.json, error);
}

static gboolean
report (const Transfer *transfer, GError **error)
{
  g_autofree gchar *table = tps_transfer_show_table (&transfer->figures);

  fputs (table, stdout);
  if (flags.run.json != NULL && !write_json (transfer, error))
    return FALSE;
  return flags.plot == NULL || tps_transfer_show_plot (&transfer->figures, flags.plot, error);
}

static void
transfer_clear (Transfer *transfer)
{
  g_ptr_array_unref (transfer->systems);
  tps_supervisor_free (transfer->supervisor);
  g_clear_pointer (&transfer->socket_dir, tps_bench_remove_folder);
  for (guint i = 0; i < transfer->figures.rows->len; i++)
    tps_transfer_row_results_clear (
        &g_array_index (transfer->figures.rows, TpsTransferRowResults, i));
  for (guint i = 0; i < transfer->figures.calls->len; i++)
    g_array_unref (g_array_index (transfer->figures.calls, TpsTransferCalls, i).calls_per_s);
  g_array_unref (transfer->figures.rows);
  g_array_unref (transfer->figures.calls);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Transfer, transfer_clear)

static void
free_system (gpointer system)
{
  tps_transfer_system_free (system);
}

static gint
run_benchmark (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *host = tps_bench_describe_host ();
  g_auto (Transfer) transfer = { .supervisor = tps_supervisor_new (),
                                 .systems = g_ptr_array_new_with_free_func (free_system) };

  start_figures (&transfer);
  printf ("transfer: repeats=%d seconds=%g\nhost: %s\n", flags.run.repeats, flags.seconds, host);
  fflush (stdout);
  if (run (&transfer, &error) && report (&transfer, &error))
    return 0;
  fprintf (stderr, "transfer: %s\n", error->message);
  return tps_interrupt_is_set () ? 130 : 1;
}

static gboolean
check_flags (GError **error)
{
  static const gchar *const ops[] = { "push", "pull", "echo", NULL };
  static const gchar *const none[] = { NULL };

  if (flags.run.repeats == 0)
    flags.run.repeats = flags.run.smoke ? 1 : 5;
  if (flags.run.smoke)
    flags.seconds = MIN (flags.seconds, 0.1);
  if (flags.n_bytes == 0)
    flags.n_bytes = 16 * (gint64) MIB;
  tps_flags_resolve_path (&flags.plot);
  return tps_run_flags_finish (&flags.run, none, error)
         && (flags.op == NULL || tps_flags_check_word ("op", flags.op, ops, error))
         && tps_flags_check_number ("bytes", flags.n_bytes, 4, TPS_TRANSFER_MAX_BYTES, error)
         && tps_flags_check_number ("connections", flags.n_connections, 1, 64, error)
         && tps_flags_check_number ("in-flight", flags.n_in_flight, 1, 32, error)
         && tps_flags_check_number ("calls", flags.n_calls, 0, 1000000, error)
         && (flags.seconds >= 0 || tps_flags_refuse ("seconds", "less than 0", "0 or more", error));
}

static gboolean
parse_flags (gint argc, gchar **argv, GError **error)
{
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);

  g_option_context_set_summary (
      context, "Measures how fast tensors and small calls go through the plugin, next to a raw "
               "socket of the same kind, memcpy,\nand the libraries that others use.");
  g_option_context_set_description (context, TPS_FLAGS_EXIT_STATUS);
  g_option_context_add_main_entries (context, entries, NULL);
  tps_run_flags_add (context, &flags.run, NULL);
  return tps_flags_parse (context, argc, argv, &flags.given, error) && check_flags (error);
}

/* As a child: a server or a load generator. */
static gint
run_child (void)
{
  gboolean is_ours = g_strcmp0 (flags.serve != NULL ? flags.serve : flags.load, "ours") == 0;

  if (flags.serve != NULL)
    return is_ours ? tps_transfer_serve_ours (flags.address)
                   : tps_transfer_serve_raw (flags.address);
  return is_ours ? tps_transfer_load_ours (flags.address) : tps_transfer_load_raw (flags.address);
}

gint
main (gint argc, gchar **argv)
{
  g_autoptr (GError) error = NULL;

  setlocale (LC_CTYPE, ""); /* for the text of --help; numbers stay as they are everywhere */
  if (!parse_flags (argc, argv, &error))
    {
      fprintf (stderr, "transfer: %s\n", error->message);
      return 2;
    }
  if (flags.run.version)
    {
      printf ("transfer (ThriftPS) %s\n", TPS_VERSION);
      return 0;
    }
  if (flags.serve != NULL || flags.load != NULL)
    return run_child ();
  tps_interrupt_install ();
  return run_benchmark ();
}
