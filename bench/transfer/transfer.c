/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Measures how fast tensors and small calls go through the plugin, compared with the limits of the
 * machine and, optionally, with peers. All systems are measured in one run.
 *
 * A system is a server process and a load generator. A task of the engine is one of the following:
 *
 *   - a row on a system: calls of one operation and one size (system/row.h)
 *   - a load of small calls on a server
 *   - such a load beside idle connections
 *   - handshakes with a server
 *
 * A figure is the median of the rounds. In the warm-up, each of our systems also runs every row
 * once, and compares the contents of the replies. */

#include <stdio.h>
#include <sys/resource.h>

#include "bench/engine/benchmark.h"
#include "bench/transfer/calls/calls.h"
#include "bench/transfer/figures/transfer_figures.h"
#include "bench/transfer/limits/raw.h"
#include "bench/transfer/ours.h"
#include "bench/transfer/plan.h"
#include "bench/transfer/tls/openssl.h"
#include "runtime/base/error.h"

#define NAME "transfer"
#define HANDSHAKE_S 2 /* seconds of a round */

typedef struct
{
  const TpsTransferOptions *options;
  const GPtrArray *specs; /* of TpsTransferSystemSpec */
  GPtrArray *systems;     /* of TpsTransferSystem */
  GArray *rows;           /* of TpsTransferRow */
  TpsFigures *figures;    /* owned by the run */
  TpsSupervisor *supervisor;
  gchar *certificate;   /* NULL = no TLS */
  TpsTransferIdle idle; /* `n_idle` is 0 if not measured */
} Transfer;

/* -- systems -- */

static gboolean
make_certificate (Transfer *transfer, const gchar *folder, GError **error)
{
  if (!transfer->options->tls)
    return TRUE;
  transfer->certificate = g_build_filename (folder, "certificate.pem", NULL);
  return tps_transfer_certificate_write (transfer->certificate, error);
}

static gboolean
add_systems (Transfer *transfer, TpsBenchRun *run, gsize max_bytes, GError **error)
{
  TpsTransferSystemOptions options = { .socket_dir = tps_benchmark_get_folder (run, error),
                                       .max_bytes = max_bytes };

  if (options.socket_dir == NULL || !make_certificate (transfer, options.socket_dir, error))
    return FALSE;
  options.certificate = transfer->certificate;
  for (guint i = 0; i < transfer->specs->len; i++)
    g_ptr_array_add (transfer->systems, tps_transfer_system_new (
                                            run->supervisor, transfer->specs->pdata[i], &options));
  return TRUE;
}

static gboolean
start_systems (Transfer *transfer, TpsBenchRun *run, GError **error)
{
  for (guint i = 0; i < transfer->systems->len; i++)
    {
      TpsTransferSystem *system = transfer->systems->pdata[i];
      g_autofree gchar *phase = g_strdup_printf ("%s starts",
                                                 tps_transfer_system_get_spec (system)->name);

      tps_engine_set_phase (run->engine, phase);
      if (!tps_transfer_system_start (system, error))
        return FALSE;
    }
  return TRUE;
}

/* -- rows -- */

/* Makes a few calls, which creates connections, pools, page tables and shared memory. Then checks
 * the row. */
static gboolean
warm_up (TpsTransferSystem *system, const TpsTransferRow *row, GError **error)
{
  TpsTransferRow short_row = tps_transfer_plan_warm_up (row);
  g_auto (TpsTransferTimes) times = { 0 };

  return tps_transfer_system_run (system, &short_row, &times, error)
         && tps_transfer_system_check (system, row, error);
}

static gboolean
run_row (gpointer bench, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  const Transfer *transfer = bench;
  g_auto (TpsTransferTimes) times = { 0 };

  if (is_warm_up)
    return warm_up (system, row, error);
  if (!tps_transfer_system_run (system, row, &times, error))
    return FALSE;
  tps_transfer_figures_add_run (transfer->figures, tps_transfer_system_get_spec (system), row,
                                &times);
  return TRUE;
}

static void
add_row_task (Transfer *transfer, TpsEngine *engine, TpsTransferSystem *system, TpsTransferRow *row)
{
  const TpsTransferSystemSpec *spec = tps_transfer_system_get_spec (system);
  TpsTransferRow short_row = tps_transfer_plan_warm_up (row);
  g_autofree gchar *name = tps_transfer_figures_name (spec, row);
  g_autofree gchar *title = g_strdup_printf ("%s, %s", name, spec->name);
  TpsTask task = { .title = title,
                   .run = run_row,
                   .bench = transfer,
                   .system = system,
                   .row = row,
                   .warm_up_s = 2 * tps_transfer_plan_seconds (spec, &short_row),
                   .measured_s = tps_transfer_plan_seconds (spec, row) };

  if (tps_transfer_system_can_run (system, row))
    tps_engine_add (engine, &task);
}

static void
add_rows (Transfer *transfer, TpsEngine *engine)
{
  for (guint i = 0; i < transfer->rows->len; i++)
    {
      tps_engine_begin_row (engine);
      for (guint j = 0; j < transfer->systems->len; j++)
        add_row_task (transfer, engine, transfer->systems->pdata[j],
                      &g_array_index (transfer->rows, TpsTransferRow, i));
    }
}

/* -- small calls -- */

/* Returns our server over TCP; NULL if it is not measured. Borrowed. */
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

/* Returns TRUE for our server and for the servers of libthrift. Other peers do not serve several
 * clients at a time, or do not have the call. */
static gboolean
answers_small_calls (const Transfer *transfer, const TpsTransferSystem *system)
{
  return system == find_ours (transfer)
         || g_str_has_prefix (tps_transfer_system_get_spec (system)->name, "libthrift");
}

static gboolean
run_calls (gpointer bench, gpointer system, G_GNUC_UNUSED gpointer row,
           G_GNUC_UNUSED gboolean is_warm_up, GError **error)
{
  const Transfer *transfer = bench;
  gdouble calls_per_s = tps_call_load_run (tps_transfer_system_get_address (system),
                                           TPS_CALL_LOAD_N_CLIENTS, transfer->options->seconds,
                                           error);

  if (calls_per_s >= 0)
    tps_transfer_figures_add_calls (transfer->figures, tps_transfer_system_get_spec (system),
                                    calls_per_s);
  return calls_per_s >= 0;
}

static void
add_calls (Transfer *transfer, TpsEngine *engine)
{
  if (transfer->options->seconds <= 0 || find_ours (transfer) == NULL)
    return;
  tps_engine_begin_row (engine);
  for (guint i = 0; i < transfer->systems->len; i++)
    {
      TpsTransferSystem *system = transfer->systems->pdata[i];
      g_autofree gchar *title = g_strdup_printf ("small calls, %s",
                                                 tps_transfer_system_get_spec (system)->name);
      TpsTask task = { .title = title,
                       .run = run_calls,
                       .bench = transfer,
                       .system = system,
                       .no_warm_up = TRUE,
                       .measured_s = transfer->options->seconds };

      if (answers_small_calls (transfer, system))
        tps_engine_add (engine, &task);
    }
}

/* -- small calls with idle connections -- */

static gboolean
run_alone (gpointer bench, G_GNUC_UNUSED gpointer system, G_GNUC_UNUSED gpointer row,
           G_GNUC_UNUSED gboolean is_warm_up, GError **error)
{
  return tps_transfer_idle_measure_alone (bench, error);
}

static gboolean
run_beside (gpointer bench, G_GNUC_UNUSED gpointer system, G_GNUC_UNUSED gpointer row,
            G_GNUC_UNUSED gboolean is_warm_up, GError **error)
{
  return tps_transfer_idle_measure_beside (bench, error);
}

static void
add_idle (Transfer *transfer, TpsEngine *engine)
{
  const TpsTransferOptions *options = transfer->options;
  TpsTransferSystem *ours = find_ours (transfer);
  TpsTask alone = { .title = "small calls, no idle connections",
                    .run = run_alone,
                    .bench = &transfer->idle,
                    .no_warm_up = TRUE,
                    .measured_s = options->seconds };
  TpsTask beside = alone;

  if (options->idle == 0 || ours == NULL)
    return;
  tps_transfer_idle_init (&transfer->idle, (guint) options->idle);
  beside.title = "small calls beside idle connections";
  beside.run = run_beside;
  beside.measured_s += options->idle * TPS_TRANSFER_IDLE_CONNECT_S;
  tps_engine_begin_row (engine);
  tps_engine_add (engine, &alone);
  tps_engine_add (engine, &beside);
}

static gboolean
start_idle (Transfer *transfer, TpsBenchRun *run, GError **error)
{
  TpsTransferSystem *ours = find_ours (transfer);

  return transfer->idle.n_idle == 0
         || tps_transfer_idle_start (
             &transfer->idle, run->supervisor, tps_transfer_system_get_server (ours),
             tps_transfer_system_get_address (ours), transfer->options->seconds, error);
}

/* -- handshakes -- */

static guint
get_handshake_s (const Transfer *transfer)
{
  return transfer->options->run.smoke ? 1 : HANDSHAKE_S;
}

static gboolean
run_handshakes (gpointer bench, gpointer system, G_GNUC_UNUSED gpointer row,
                G_GNUC_UNUSED gboolean is_warm_up, GError **error)
{
  const Transfer *transfer = bench;
  gdouble per_s = tps_transfer_handshakes_run (
      transfer->supervisor, tps_transfer_system_get_address (system), transfer->certificate,
      get_handshake_s (transfer), error);

  if (per_s >= 0)
    tps_transfer_figures_add_handshakes (transfer->figures, tps_transfer_system_get_spec (system),
                                         per_s);
  return per_s >= 0;
}

/* Adds handshakes with our server and with s_server. They need --peers, because the client s_time
 * belongs to a peer, too. */
static void
add_handshakes (Transfer *transfer, TpsEngine *engine)
{
  if (!transfer->options->tls || !transfer->options->peers)
    return;
  tps_engine_begin_row (engine);
  for (guint i = 0; i < transfer->systems->len; i++)
    {
      TpsTransferSystem *system = transfer->systems->pdata[i];
      const TpsTransferSystemSpec *spec = tps_transfer_system_get_spec (system);
      g_autofree gchar *title = g_strdup_printf ("handshakes, %s", spec->name);
      TpsTask task = { .title = title,
                       .run = run_handshakes,
                       .bench = transfer,
                       .system = system,
                       .no_warm_up = TRUE,
                       .measured_s = get_handshake_s (transfer) };

      if (spec->takes_certificate)
        tps_engine_add (engine, &task);
    }
}

/* -- the benchmark -- */

static gboolean
prepare (gpointer user_data, TpsBenchRun *run, GError **error)
{
  Transfer *transfer = user_data;

  transfer->figures = run->figures;
  transfer->supervisor = run->supervisor;
  tps_transfer_figures_add_limits (run->figures, transfer->specs);
  if (!add_systems (transfer, run, tps_transfer_plan_max_bytes (transfer->rows), error))
    return FALSE;
  add_rows (transfer, run->engine);
  add_calls (transfer, run->engine);
  add_idle (transfer, run->engine);
  add_handshakes (transfer, run->engine);
  tps_benchmark_say_length (run);
  return start_systems (transfer, run, error) && start_idle (transfer, run, error);
}

static void
stop (gpointer user_data)
{
  Transfer *transfer = user_data;

  tps_transfer_idle_stop (&transfer->idle);
  g_ptr_array_set_size (transfer->systems, 0);
}

static void
print_more (gpointer user_data)
{
  const Transfer *transfer = user_data;
  g_autofree gchar *idle = NULL;
  g_autofree gchar *handshakes = tps_transfer_show_handshakes (transfer->figures, transfer->specs);

  fputs (handshakes, stdout);
  if (transfer->idle.n_idle == 0)
    return;
  idle = tps_transfer_show_idle (&transfer->idle);
  fputs (idle, stdout);
}

static void
output_idle (gpointer user_data, TpsBenchOutput *output)
{
  const Transfer *transfer = user_data;

  if (transfer->idle.n_idle > 0)
    tps_transfer_output_idle (&transfer->idle, output);
}

static void
free_system (gpointer system)
{
  tps_transfer_system_free (system);
}

static gint
run_benchmark (const TpsTransferOptions *options, const GPtrArray *specs)
{
  static const TpsBenchmark benchmark = {
    .command_line = &tps_transfer_command_line,
    .prepare = prepare,
    .stop = stop,
    .style = &tps_transfer_figure_style,
    .print_report = print_more,
    .add_output = output_idle,
  };
  Transfer transfer = { .options = options,
                        .specs = specs,
                        .systems = g_ptr_array_new_with_free_func (free_system),
                        .rows = tps_transfer_plan_rows (options) };
  gint status = tps_benchmark_run (&benchmark, &options->run, &transfer);

  g_ptr_array_unref (transfer.systems);
  g_array_unref (transfer.rows);
  tps_transfer_idle_clear (&transfer.idle);
  g_free (transfer.certificate);
  return status;
}

/* -- children -- */

/* The roles of this program as a child, for --serve=KIND and --load=KIND. */
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

/* The roles that need a certificate. */
static const struct
{
  const gchar *kind;
  gint (*serve) (const gchar *address, gsize max_bytes, const gchar *certificate);
  gint (*load) (const gchar *address, gsize max_bytes, const gchar *certificate);
} encrypted_kinds[] = {
  { "ours-tls", tps_transfer_serve_ours_tls, tps_transfer_load_ours_tls },
  { "openssl", NULL, tps_transfer_load_openssl },
};

static gint
run_encrypted_child (const TpsTransferOptions *options)
{
  gsize max_bytes = (gsize) options->bytes;

  for (guint i = 0; i < G_N_ELEMENTS (encrypted_kinds); i++)
    {
      if (g_strcmp0 (options->serve, encrypted_kinds[i].kind) == 0
          && encrypted_kinds[i].serve != NULL)
        return encrypted_kinds[i].serve (options->address, max_bytes, options->certificate);
      if (g_strcmp0 (options->load, encrypted_kinds[i].kind) == 0)
        return encrypted_kinds[i].load (options->address, max_bytes, options->certificate);
    }
  fprintf (stderr, NAME ": no such --serve or --load\n");
  return 2;
}

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
  return run_encrypted_child (options);
}

/* Raises the limit on open files, for servers with many connections. Children inherit the limit. */
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

  tps_benchmark_init ();
  if (!tps_transfer_options_parse (&options, argc, argv, &error)
      || (specs = tps_transfer_plan_systems (&options, &error)) == NULL)
    return tps_benchmark_refuse (NAME, error);
  if (options.serve != NULL || options.load != NULL)
    return run_child (&options);
  raise_descriptor_limit ();
  return run_benchmark (&options, specs);
}
