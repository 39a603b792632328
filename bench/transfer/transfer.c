/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How fast tensors and small calls go through the plugin, next to the limits of the machine and, if asked for, to peers,
 * all measured in the same run.
 *
 * Each system is a server process and a load generator; rows (row.h) run on all of them in turn, round after round, so
 * that what disturbs one disturbs all. A figure is the median of the rounds. Before the first round every row is called once
 * more on each system of ours, and the contents of the answers are compared.
 */

#include <locale.h>
#include <stdio.h>
#include <sys/resource.h>

#include "bench/process/interrupt.h"
#include "bench/process/runfiles.h"
#include "bench/process/status_line.h"
#include "bench/transfer/calls/call_load.h"
#include "bench/transfer/calls/idle.h"
#include "bench/transfer/figures/plot.h"
#include "bench/transfer/limits/raw.h"
#include "bench/transfer/ours.h"
#include "bench/transfer/plan.h"
#include "runtime/base/error.h"
#include "runtime/base/version.h"

#define WARM_UP_CALLS 8

typedef struct
{
  const TpsTransferOptions *options;
  TpsSupervisor *supervisor;
  gchar *socket_dir;
  GPtrArray *systems; /* of TpsTransferSystem */
  TpsTransferFigures figures;
  TpsTransferIdle idle;
  TpsStatusLine line;
} Transfer;

/* -- systems -- */

static gboolean
start_systems (Transfer *transfer, const GPtrArray *specs, gsize max_bytes, GError **error)
{
  TpsTransferSystemOptions options = { .socket_dir = transfer->socket_dir, .max_bytes = max_bytes };

  for (guint i = 0; i < specs->len; i++)
    {
      TpsTransferSystem *system = tps_transfer_system_start (transfer->supervisor, specs->pdata[i],
                                                             &options, error);

      if (system == NULL)
        return FALSE;
      g_ptr_array_add (transfer->systems, system);
    }
  return TRUE;
}

/* -- rounds -- */

static void
show_progress (Transfer *transfer, gint round, const gchar *what)
{
  g_autofree gchar *text = NULL;

  if (!tps_status_line_is_due (&transfer->line))
    return;
  if (round == 0)
    text = g_strdup_printf ("warm-up: %s", what);
  else
    text = g_strdup_printf ("round %d of %d: %s", round, transfer->options->run.repeats, what);
  tps_status_line_show (&transfer->line, text);
}

/* Connections, pools, page tables, shared memory; then whether it is right. */
static gboolean
warm_up (TpsTransferSystem *system, const TpsTransferRow *row, GError **error)
{
  TpsTransferRow short_row = *row;
  g_auto (TpsTransferTimes) times = { 0 };

  short_row.n_calls = MAX (MIN (row->n_calls, WARM_UP_CALLS), row->n_connections);
  return tps_transfer_system_run (system, &short_row, &times, error)
         && tps_transfer_system_check (system, row, error);
}

static gboolean
measure (TpsTransferSystem *system, TpsTransferRowResults *results, GError **error)
{
  g_auto (TpsTransferTimes) times = { 0 };

  if (!tps_transfer_system_run (system, &results->row, &times, error))
    return FALSE;
  tps_transfer_row_results_add (results, tps_transfer_system_get_spec (system), &times);
  return TRUE;
}

/* Whose turn is the `i`-th of a round: another one is first in each, since what ran before leaves its traces in caches and
 * in where threads are. */
static guint
take_turn (guint i, gint round, guint n)
{
  return round == 0 ? i : (i + (guint) round - 1) % n;
}

/* Round 0 is the warm-up. */
static gboolean
run_row (Transfer *transfer, TpsTransferRowResults *results, gint round, GError **error)
{
  g_autofree gchar *title = tps_transfer_row_to_title (&results->row);

  for (guint i = 0; i < transfer->systems->len; i++)
    {
      guint turn = take_turn (i, round, transfer->systems->len);
      TpsTransferSystem *system = transfer->systems->pdata[turn];

      if (!tps_transfer_system_can_run (system, &results->row))
        continue;
      show_progress (transfer, round, title);
      if (round == 0 ? !warm_up (system, &results->row, error) : !measure (system, results, error))
        return FALSE;
    }
  return TRUE;
}

/* -- small calls -- */

/* Our server over TCP, or NULL. */
static TpsTransferSystem *
find_ours (const Transfer *transfer)
{
  for (guint i = 0; i < transfer->systems->len; i++)
    {
      const TpsTransferSystemSpec *spec = tps_transfer_system_get_spec (
          transfer->systems->pdata[i]);

      if (g_str_equal (spec->kind, "ours") && g_str_equal (spec->transport, "tcp"))
        return transfer->systems->pdata[i];
    }
  return NULL;
}

/* Ours, and the libthrift ones, the only others that serve several clients at a time and know the call. */
static gboolean
answers_small_calls (const Transfer *transfer, const TpsTransferSystem *system)
{
  return system == find_ours (transfer)
         || g_str_has_prefix (tps_transfer_system_get_spec (system)->name, "libthrift");
}

static void
add_call_servers (Transfer *transfer)
{
  if (transfer->options->seconds <= 0 || find_ours (transfer) == NULL)
    return;
  for (guint i = 0; i < transfer->systems->len; i++)
    {
      TpsTransferSystem *system = transfer->systems->pdata[i];
      TpsTransferCalls calls = { .name = tps_transfer_system_get_spec (system)->name,
                                 .address = tps_transfer_system_get_address (system) };

      if (!answers_small_calls (transfer, system))
        continue;
      calls.calls_per_s = g_array_new (FALSE, FALSE, sizeof (gdouble));
      g_array_append_val (transfer->figures.calls, calls);
    }
}

static gboolean
run_calls (Transfer *transfer, gint round, GError **error)
{
  for (guint i = 0; i < transfer->figures.calls->len; i++)
    {
      guint turn = take_turn (i, round, transfer->figures.calls->len);
      TpsTransferCalls *calls = &g_array_index (transfer->figures.calls, TpsTransferCalls, turn);
      gdouble calls_per_s;

      show_progress (transfer, round, "small calls");
      calls_per_s = tps_call_load_run (calls->address, TPS_CALL_LOAD_N_CLIENTS,
                                       transfer->options->seconds, error);
      if (calls_per_s < 0)
        return FALSE;
      g_array_append_val (calls->calls_per_s, calls_per_s);
    }
  return TRUE;
}

static gboolean
measure_idle (Transfer *transfer, GError **error)
{
  const TpsTransferOptions *options = transfer->options;
  TpsTransferSystem *ours = find_ours (transfer);

  if (options->idle == 0 || ours == NULL)
    return TRUE;
  tps_transfer_idle_init (&transfer->idle, (guint) options->idle);
  transfer->figures.idle = &transfer->idle;
  show_progress (transfer, options->run.repeats, "idle connections");
  return tps_transfer_idle_measure (&transfer->idle, transfer->supervisor,
                                    tps_transfer_system_get_server (ours),
                                    tps_transfer_system_get_address (ours),
                                    (guint) options->run.repeats, options->seconds, error);
}

/* -- the whole -- */

static void
add_rows (Transfer *transfer, const GArray *rows)
{
  for (guint i = 0; i < rows->len; i++)
    {
      TpsTransferRowResults results;

      tps_transfer_row_results_init (&results, &g_array_index (rows, TpsTransferRow, i));
      g_array_append_val (transfer->figures.rows, results);
    }
}

static gboolean
run_round (Transfer *transfer, gint round, GError **error)
{
  for (guint i = 0; i < transfer->figures.rows->len; i++)
    if (!run_row (transfer, &g_array_index (transfer->figures.rows, TpsTransferRowResults, i),
                  round, error))
      return FALSE;
  return round == 0 || run_calls (transfer, round, error);
}

static gboolean
run (Transfer *transfer, const GPtrArray *specs, GError **error)
{
  g_autoptr (GArray) rows = tps_transfer_plan_rows (transfer->options);

  transfer->socket_dir = g_dir_make_tmp ("thriftps-XXXXXX", error);
  if (transfer->socket_dir == NULL
      || !start_systems (transfer, specs, tps_transfer_plan_max_bytes (rows), error))
    return FALSE;
  add_rows (transfer, rows);
  add_call_servers (transfer);
  for (gint round = 0; round <= transfer->options->run.repeats; round++)
    if (!run_round (transfer, round, error))
      return FALSE;
  return measure_idle (transfer, error);
}

static gboolean
write_json (const Transfer *transfer, GError **error)
{
  g_autoptr (GPtrArray) described = tps_transfer_options_describe (transfer->options);
  g_auto (TpsBenchOutput) output;

  tps_bench_output_init (&output, "transfer", described);
  tps_transfer_show_output (&transfer->figures, &output);
  return tps_bench_output_write_json (&output, transfer->options->run.json, error);
}

static gboolean
report (const Transfer *transfer, GError **error)
{
  const TpsTransferOptions *options = transfer->options;
  g_autofree gchar *table = tps_transfer_show_table (&transfer->figures);

  fputs (table, stdout);
  if (options->run.json != NULL && !write_json (transfer, error))
    return FALSE;
  return options->plot == NULL || tps_transfer_plot (&transfer->figures, options->plot, error);
}

static void
free_system (gpointer system)
{
  tps_transfer_system_free (system);
}

static void
transfer_init (Transfer *transfer, const TpsTransferOptions *options)
{
  *transfer = (Transfer) { .options = options, .supervisor = tps_supervisor_new () };
  transfer->systems = g_ptr_array_new_with_free_func (free_system);
  transfer->figures.rows = g_array_new (FALSE, FALSE, sizeof (TpsTransferRowResults));
  transfer->figures.calls = g_array_new (FALSE, FALSE, sizeof (TpsTransferCalls));
  tps_status_line_init (&transfer->line);
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
  tps_transfer_idle_clear (&transfer->idle);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Transfer, transfer_clear)

static gint
run_benchmark (const TpsTransferOptions *options, const GPtrArray *specs)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *host = tps_bench_describe_host ();
  g_auto (Transfer) transfer;
  gboolean done;

  transfer_init (&transfer, options);
  printf ("transfer: repeats=%d seconds=%g\nhost: %s\n", options->run.repeats, options->seconds,
          host);
  fflush (stdout);
  done = run (&transfer, specs, &error);
  tps_status_line_end (&transfer.line);
  if (done && report (&transfer, &error))
    return 0;
  fprintf (stderr, "transfer: %s\n", error->message);
  return tps_interrupt_is_set () ? 130 : 1;
}

/* -- children -- */

/* What this program is as a child: --serve=KIND and --load=KIND. */
static const struct
{
  const gchar *kind;
  gint (*serve) (const gchar *address, gsize max_bytes);
  gint (*load) (const gchar *address, gsize max_bytes);
} kinds[] = {
  { "ours", tps_transfer_serve_ours, tps_transfer_load_ours },
  { "ours-shared", tps_transfer_serve_ours, tps_transfer_load_ours_shared },
  { "ours-chunked", tps_transfer_serve_ours_chunked, tps_transfer_load_ours },
  { "raw", tps_transfer_serve_raw, tps_transfer_load_raw },
  { "raw-shared", tps_transfer_serve_raw_shared, tps_transfer_load_raw_shared },
  { "memcpy", NULL, tps_transfer_load_memcpy },
  { "idle", NULL, tps_transfer_load_idle },
};

static gint
run_child (const TpsTransferOptions *options)
{
  gsize max_bytes = (gsize) options->bytes;

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      if (g_strcmp0 (options->serve, kinds[i].kind) == 0 && kinds[i].serve != NULL)
        return kinds[i].serve (options->address, max_bytes);
      if (g_strcmp0 (options->load, kinds[i].kind) == 0)
        return kinds[i].load (options->address, max_bytes);
    }
  fprintf (stderr, "transfer: no such --serve or --load\n");
  return 2;
}

/* For servers with many connections; children inherit it. */
static void
raise_descriptor_limit (void)
{
  struct rlimit limit;

  if (getrlimit (RLIMIT_NOFILE, &limit) != 0)
    return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit (RLIMIT_NOFILE, &limit);
}

gint
main (gint argc, gchar **argv)
{
  g_autoptr (GError) error = NULL;
  g_auto (TpsTransferOptions) options = { 0 };
  g_autoptr (GPtrArray) specs = NULL;

  setlocale (LC_CTYPE, ""); /* for the text of --help; numbers stay as they are everywhere */
  if (!tps_transfer_options_parse (&options, argc, argv, &error)
      || (specs = tps_transfer_plan_systems (&options, &error)) == NULL)
    {
      fprintf (stderr, "transfer: %s\n", error->message);
      return 2;
    }
  if (options.run.version)
    {
      printf ("transfer (ThriftPS) %s\n", TPS_VERSION);
      return 0;
    }
  if (options.serve != NULL || options.load != NULL)
    return run_child (&options);
  raise_descriptor_limit ();
  tps_interrupt_install ();
  return run_benchmark (&options, specs);
}
