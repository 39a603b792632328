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
      g_autofree gchar *phase = g_strdup_printf ("%s starts", system->spec->name);

      tps_engine_set_phase (run->engine, phase);
      if (!tps_transfer_system_start (system, error))
        return FALSE;
    }
  return TRUE;
}

/* -- rows -- */

/* Makes a few calls, to create connections, pools and shared memory. Then checks the row. */
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
  tps_transfer_figures_add_run (transfer->figures, ((TpsTransferSystem *) system)->spec, row,
                                &times);
  return TRUE;
}

static void
add_row_task (Transfer *transfer, TpsEngine *engine, TpsTransferSystem *system, TpsTransferRow *row)
{
  const TpsTransferSystemSpec *spec = system->spec;
  TpsTransferRow short_row = tps_transfer_plan_warm_up (row);
  g_autofree gchar *name = tps_transfer_figures_name (spec, row);
  TpsTask task = { .run = run_row,
                   .bench = transfer,
                   .system = system,
                   .row = row,
                   .warm_up_s = 2 * tps_transfer_plan_seconds (spec, &short_row),
                   .measured_s = tps_transfer_plan_seconds (spec, row) };

  if (tps_transfer_system_can_run (system, row))
    tps_engine_add (engine, &task, "%s, %s", name, spec->name);
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

static gboolean
is_ours (const TpsTransferSystem *system)
{
  return g_str_equal (system->spec->kind, "ours") && g_str_equal (system->spec->transport, "tcp");
}

/* Returns our server over TCP; NULL if it is not measured. Borrowed. */
static const TpsTransferSystem *
find_ours (const Transfer *transfer)
{
  for (guint i = 0; i < transfer->systems->len; i++)
    if (is_ours (transfer->systems->pdata[i]))
      return transfer->systems->pdata[i];
  return NULL;
}

static gboolean
run_calls (gpointer bench, gpointer data, G_GNUC_UNUSED gpointer row,
           G_GNUC_UNUSED gboolean is_warm_up, GError **error)
{
  const Transfer *transfer = bench;
  const TpsTransferSystem *system = data;
  gdouble calls_per_s = tps_call_load_run (system->address, TPS_CALL_LOAD_N_CLIENTS,
                                           transfer->options->seconds, error);

  if (calls_per_s >= 0)
    tps_transfer_figures_add_calls (transfer->figures, system->spec, calls_per_s);
  return calls_per_s >= 0;
}

/* Adds the calls of our server and of libthrift, which alone serves several clients at a time. */
static void
add_calls (Transfer *transfer, TpsEngine *engine)
{
  if (transfer->options->seconds <= 0 || find_ours (transfer) == NULL)
    return;
  tps_engine_begin_row (engine);
  for (guint i = 0; i < transfer->systems->len; i++)
    {
      TpsTransferSystem *system = transfer->systems->pdata[i];
      TpsTask task = { .run = run_calls,
                       .bench = transfer,
                       .system = system,
                       .no_warm_up = TRUE,
                       .measured_s = transfer->options->seconds };

      if (is_ours (system) || g_str_has_prefix (system->spec->name, "libthrift"))
        tps_engine_add (engine, &task, "small calls, %s", system->spec->name);
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
  const TpsTransferSystem *ours = find_ours (transfer);
  TpsTask alone = {
    .run = run_alone, .bench = &transfer->idle, .no_warm_up = TRUE, .measured_s = options->seconds
  };
  TpsTask beside = alone;

  if (options->idle == 0 || ours == NULL)
    return;
  tps_transfer_idle_init (&transfer->idle, (guint) options->idle);
  beside.run = run_beside;
  beside.measured_s += options->idle * TPS_TRANSFER_IDLE_CONNECT_S;
  tps_engine_begin_row (engine);
  tps_engine_add (engine, &alone, "small calls, no idle connections");
  tps_engine_add (engine, &beside, "small calls beside idle connections");
}

static gboolean
start_idle (Transfer *transfer, TpsBenchRun *run, GError **error)
{
  const TpsTransferSystem *ours = find_ours (transfer);

  return transfer->idle.n_idle == 0
         || tps_transfer_idle_start (&transfer->idle, run->supervisor, ours->server, ours->address,
                                     transfer->options->seconds, error);
}

/* -- handshakes -- */

static guint
get_handshake_s (const Transfer *transfer)
{
  return transfer->options->run.smoke ? 1 : HANDSHAKE_S;
}

static gboolean
run_handshakes (gpointer bench, gpointer data, G_GNUC_UNUSED gpointer row,
                G_GNUC_UNUSED gboolean is_warm_up, GError **error)
{
  const Transfer *transfer = bench;
  const TpsTransferSystem *system = data;
  gdouble per_s = tps_transfer_handshakes_run (transfer->supervisor, system->address,
                                               transfer->certificate, get_handshake_s (transfer),
                                               error);

  if (per_s >= 0)
    tps_transfer_figures_add_handshakes (transfer->figures, system->spec, per_s);
  return per_s >= 0;
}

/* Adds handshakes with our server and with s_server; with --peers, because of the client s_time. */
static void
add_handshakes (Transfer *transfer, TpsEngine *engine)
{
  if (!transfer->options->tls || !transfer->options->peers)
    return;
  tps_engine_begin_row (engine);
  for (guint i = 0; i < transfer->systems->len; i++)
    {
      TpsTransferSystem *system = transfer->systems->pdata[i];
      TpsTask task = { .run = run_handshakes,
                       .bench = transfer,
                       .system = system,
                       .no_warm_up = TRUE,
                       .measured_s = get_handshake_s (transfer) };

      if (g_str_equal (system->spec->transport, "tls"))
        tps_engine_add (engine, &task, "handshakes, %s", system->spec->name);
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
                        .systems = g_ptr_array_new_with_free_func (
                            (GDestroyNotify) tps_transfer_system_free),
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
typedef gint (*Role) (const gchar *address, gsize max_bytes, const gchar *certificate);

static const struct
{
  const gchar *kind;
  Role serve, load;
} kinds[] = {
  { "ours", tps_transfer_serve_ours, tps_transfer_load_ours },
  { "ours-shared", tps_transfer_serve_ours, tps_transfer_load_ours_shared },
  { "ours-tls", tps_transfer_serve_ours_tls, tps_transfer_load_ours_tls },
  { "raw", tps_transfer_serve_raw, tps_transfer_load_raw },
  { "raw-shared", tps_transfer_serve_raw_shared, tps_transfer_load_raw_shared },
  { "memcpy", NULL, tps_transfer_load_memcpy },
  { "openssl", NULL, tps_transfer_load_openssl },
  { "idle", NULL, tps_transfer_load_idle },
};

static gint
run_child (const TpsTransferOptions *o)
{
  const gchar *kind = o->serve != NULL ? o->serve : o->load;

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      Role role = o->serve != NULL ? kinds[i].serve : kinds[i].load;

      if (role != NULL && g_str_equal (kind, kinds[i].kind))
        return role (o->address, (gsize) o->bytes, o->certificate);
    }
  fprintf (stderr, NAME ": no such --serve or --load\n");
  return 2;
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
