/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/thriftps_server.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/app/flags.h"
#include "plugin/app/service_manager.h"
#include "plugin/http/http.h"
#include "plugin/net/spin.h"
#include "plugin/tracing/otlp/otlp_exporter.h"
#include "runtime/base/descriptor_table.h"
#include "runtime/base/error.h"
#include "runtime/base/thread.h"
#include "runtime/base/trace_sinks.h"
#include "runtime/device/backend.h"
#include "runtime/machine/tuning.h"
#include "runtime/server/budgets.h"

/* -- tuning list -- */

/* The list that --tuning prints: the cores, and all values that depend on the machine. */

#define SPIN_VARIABLE "THRIFTPS_SPIN_US"

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct
{
  const TpsBudgets *budgets;
  gsize highest;    /* bytes: maximum charge of the process budget since the last trim */
  gint64 uncounted; /* bytes: minimum of the memory that no budget counts, since the last trim */
  guint n_turns;
  guint n_turns_to_settle; /* turns until a second trim after a fall of the budgets; 0 = none */
} MemoryTrimmer;

#define MMAP_THRESHOLD_BYTES (512 << 10)
/* malloc_trim() walks through all arenas, which is too expensive for less memory than this. */
#define MIN_TRIM_BYTES ((gsize) 16 << 20)
#define MIN_UNCOUNTED_BYTES ((gint64) 64 << 20)
/* Every RECLAIM_TURNS turns (five seconds), half of the kept buffers is freed. Buffers in constant
 * use are soon kept again. */
#define RECLAIM_TURNS 20
#define MIN_RECLAIM_BYTES (1 << 20)
/* The number of turns from a trim to a second one. Connections and the caches of threads free their
 * blocks some time after the charge of the process has fallen. */
#define SETTLE_TURNS 40

/* Returns the memory of the process that no budget counts; negative if charged memory has not been
 * used yet. The second and the third number of the file are the resident memory and the part of it
 * that belongs to files and shared memory, in pages. */
static gint64
get_uncounted (const MemoryTrimmer *trimmer)
{
  FILE *file = fopen ("/proc/self/statm", "re");
  gint64 resident = 0, shared = 0;

  if (file == NULL)
    return 0;
  if (fscanf (file, "%*d %" G_GINT64_FORMAT " %" G_GINT64_FORMAT, &resident, &shared) != 2)
    resident = shared = 0;
  fclose (file);
  return (resident - shared) * sysconf (_SC_PAGESIZE)
         - (gint64) tps_budget_get_held (trimmer->budgets->process);
}

/* Frees half of the kept buffers every five seconds. If the charge of the process has fallen by 16
 * MiB, or the memory that no budget counts has grown by 64 MiB, returns freed memory to the system.
 * Must be called four times a second. Takes about 20 us, or milliseconds if memory is returned. */
static void
memory_trimmer_turn (MemoryTrimmer *trimmer)
{
  gsize kept = tps_budget_get_held (trimmer->budgets->kept);
  gint64 uncounted = get_uncounted (trimmer);
  gsize held;

  if (++trimmer->n_turns % RECLAIM_TURNS == 0 && kept >= MIN_RECLAIM_BYTES)
    tps_budget_reclaim (trimmer->budgets->kept, kept / 2);
  held = tps_budget_get_held (trimmer->budgets->process);
  trimmer->highest = MAX (trimmer->highest, held);
  trimmer->uncounted = MIN (trimmer->uncounted, uncounted);
  if (trimmer->highest - held >= MIN_TRIM_BYTES
      || uncounted - trimmer->uncounted >= MIN_UNCOUNTED_BYTES)
    {
      malloc_trim (0);
      trimmer->highest = held;
      trimmer->uncounted = get_uncounted (trimmer);
      trimmer->n_turns_to_settle = SETTLE_TURNS;
    }
  else if (trimmer->n_turns_to_settle > 0 && --trimmer->n_turns_to_settle == 0)
    malloc_trim (0);
}

static void
append_number (GString *list, const gchar *name, gsize value, const gchar *unit,
               const gchar *origin)
{
  g_string_append_printf (list, "%-14s  %5" G_GSIZE_FORMAT "  %-8s  %s\n", name, value, unit,
                          origin);
}

static void
append_cores (GString *list, const TpsMachine *machine)
{
  g_autofree gchar *quota = machine->n_quota > 0 ? g_strdup_printf ("%u", machine->n_quota)
                                                 : g_strdup ("none");
  g_autofree gchar *origin = g_strdup_printf (
      "affinity mask: %u, CPU quota: %s, of the machine: %u", machine->n_allowed, quota,
      machine->n_processors);

  append_number (list, "cores", machine->n_cores, "cores", origin);
}

/* Appends the row of a value that the operator has set. Returns FALSE if the value is not set. */
static gboolean
append_set_value (GString *list, const TpsServerFlags *flags, const TpsTuningRow *row)
{
  const gchar *spin_us = g_getenv (SPIN_VARIABLE);

  if (strcmp (row->name, "io_threads") == 0 && flags->server.n_io_threads > 0)
    append_number (list, row->name, flags->server.n_io_threads, row->unit, "--io-threads");
  else if (strcmp (row->name, "workers") == 0 && flags->plugin.n_workers > 0)
    append_number (list, row->name, flags->plugin.n_workers, row->unit, "--workers");
  else if (strcmp (row->name, "spin_us") == 0 && spin_us != NULL)
    append_number (list, row->name, (gsize) tps_spin_choose_budget (spin_us, row->value) / 1000,
                   row->unit, SPIN_VARIABLE);
  else
    return FALSE;
  return TRUE;
}

/* Returns a table of text with the columns name, value, unit and origin, and one line for each
 * value that a server with `flags` would use on this machine. The columns are separated by two
 * blanks or more. The caller owns the result. */
static gchar *
tuning_list_write (const TpsServerFlags *flags)
{
  GString *list = g_string_new ("name            value  unit      derived from\n");

  append_cores (list, tps_machine_get ());
  for (guint i = 0; i < tps_tuning_count_rows (); i++)
    {
      TpsTuningRow row = tps_tuning_get_row (tps_tuning_get (), i);
      g_autofree gchar *origin = g_strdup_printf ("%s: %s", row.rule, row.purpose);

      if (!append_set_value (list, flags, &row))
        append_number (list, row.name, row.value, row.unit, origin);
    }
  return g_string_free (list, FALSE);
}

/* -- thriftps server -- */

#define END_MS 4700 /* from a signal to the end of the process, even if calls still run */

/* The interval between the turns of the memory trimmer and of the service manager. */
#define TURN_MS 250
#define LOG_FLUSH_NS ((gint64) 200 * 1000000)

static TpsTraceEvent devices_found = TPS_TRACE_EVENT ("devices_found", TPS_TRACE_INFO);
static TpsTraceEvent certificates_reloaded = TPS_TRACE_EVENT ("certificates_reloaded",
                                                              TPS_TRACE_INFO);
static TpsTraceEvent certificates_refused = TPS_TRACE_EVENT ("certificates_refused",
                                                             TPS_TRACE_ERROR);
static TpsTraceEvent access_reloaded = TPS_TRACE_EVENT ("access_reloaded", TPS_TRACE_INFO);
static TpsTraceEvent access_unchanged = TPS_TRACE_EVENT ("access_unchanged", TPS_TRACE_ERROR);
static TpsTraceEvent log_not_reopened = TPS_TRACE_EVENT ("log_not_reopened", TPS_TRACE_ERROR);
static TpsTraceEvent signal_taken = TPS_TRACE_EVENT ("signal_taken", TPS_TRACE_INFO);

typedef struct
{
  const TpsServerFlags *flags;
  TpsServiceManager *manager;
  TpsTraceStream *log;
  TpsFaultPlan *faults;  /* NULL = none */
  TpsTls *tls;           /* NULL = connections are plain */
  TpsAccess *access;     /* NULL = everyone may call everything */
  TpsTracer *tracer;     /* NULL = calls are not traced */
  TpsOtlpExporter *otlp; /* NULL = spans are not sent */
  TpsPlugin *plugin;
  TpsServer *server;
  TpsHttp *http; /* NULL = none */
} Program;

static const TpsServerAddition *addition;
static volatile sig_atomic_t is_serving; /* clients may have sent calls */

/* Waits until the last lines of the log have been written, but at most LOG_FLUSH_NS. */
static void
flush_log (void)
{
  tps_trace_flush (tps_clock_now_ns () + LOG_FLUSH_NS);
}

static void
fail (gint status, const gchar *text)
{
  flush_log ();
  fprintf (stderr, "%s: %s\n", addition->program, text);
  exit (status);
}

/* ---- creation and release ------------------------------------------------------------------- */

/* Returns TRUE if each line must begin with its priority. This includes lines of JSON if stderr is
 * connected to the journal, which removes the priority. */
static gboolean
is_journal (const TpsServerFlags *flags)
{
  if (flags->log_format == TPS_LOG_JOURNAL)
    return TRUE;
  return flags->log_format != TPS_LOG_TEXT && flags->log_file == NULL
         && tps_trace_stream_is_journal (STDERR_FILENO, g_getenv ("JOURNAL_STREAM"));
}

/* Directs the log of the process to the destination of `flags`, with their levels, format and name.
 * The caller owns the result, which must live until the last event. Errors: INVALID_ARGUMENT, which
 * names the file. */
static TpsTraceStream *
open_log (const TpsServerFlags *flags, GError **error)
{
  TpsTraceStreamOptions options = {
    .format = flags->log_format == TPS_LOG_JSON ? TPS_TRACE_JSON : TPS_TRACE_TEXT,
    .is_journal = is_journal (flags),
    .path = flags->log_file,
    .origin = { .process = "thriftps_server",
                .host = g_get_host_name (),
                .node = flags->plugin.name,
                .pid = getpid () },
  };
  TpsTraceStream *log = tps_trace_stream_new (&options, error);

  if (log == NULL)
    return NULL;
  tps_trace_set_sink (tps_trace_stream_sink, log);
  tps_trace_set_levels (flags->log_level, NULL);
  return log;
}

#define SECRET "(secret)"

static const gchar *
get_shown (const TpsOption *option, const gchar *text)
{
  return option->is_secret ? SECRET : text;
}

static const gchar *
get_default (const TpsOption *option)
{
  if (option->type == TPS_OPTION_FLAG)
    return "false";
  return option->meaning != NULL ? option->meaning : option->initial;
}

static void
add_option (TpsJsonWriter *json, const TpsArguments *arguments, const TpsOption *option)
{
  gboolean is_from_file;
  g_autoptr (GPtrArray) texts = tps_arguments_list (arguments, option, &is_from_file);
  const gchar *origin = is_from_file ? "file" : "command line";

  tps_json_open (json, NULL, '{');
  tps_json_add_text (json, "name", option->name);
  if (texts->len == 0)
    tps_json_add_null (json, "value");
  else if (option->type != TPS_OPTION_TEXTS)
    tps_json_add_text (json, "value", get_shown (option, texts->pdata[texts->len - 1]));
  else
    {
      tps_json_open (json, "value", '[');
      for (guint i = 0; i < texts->len; i++)
        tps_json_add_text (json, NULL, get_shown (option, texts->pdata[i]));
      tps_json_close (json, ']');
    }
  tps_json_add_text (json, "origin", texts->len > 0 ? origin : "default");
  tps_json_add_text (json, "default", get_default (option));
  tps_json_add_text (json, "help", option->help);
  tps_json_close (json, '}');
}

/* The handler of /flags: the options of the program with the origins of their values. Values of
 * secret options are left out. `data` are the TpsServerFlags. */
static void
serve_flags (TpsHttpRequest *request, gpointer data)
{
  const TpsServerFlags *flags = data;
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  tps_json_open (&json, "flags", '[');
  for (const TpsOption *option = tps_server_flags_get_options (); option->name != NULL; option++)
    add_option (&json, flags->arguments, option);
  tps_json_close (&json, ']');
  tps_json_close (&json, '}');
  tps_http_request_reply (request, 200, "application/json", tps_json_writer_take (&json));
}

/* Lets the error of an unknown device name the flag. */
static gboolean
check_devices (const TpsServerFlags *flags, GError **error)
{
  TpsTablePlace place;
  const gchar *flag = "device";
  gboolean ok = tps_device_find (flags->device, error) != NULL;

  if (ok && tps_table_place_parse (flags->plugin.table_device, &place))
    {
      flag = "table-device";
      ok = tps_device_find (place.device, error) != NULL;
    }
  if (!ok)
    g_prefix_error (error, "--%s: ", flag);
  return ok;
}

static void on_recovered (gpointer unused, const GError *error);

static gboolean
make_plugin (Program *program, GError **error)
{
  const TpsServerFlags *flags = program->flags;
  const TpsPluginParts parts = { .faults = program->faults };
  TpsPluginOptions options = flags->plugin;

  options.device = flags->device;
  options.recovered = on_recovered;
  options.parts = &parts;
  options.has_process = TRUE;
  options.access = program->access;
  program->plugin = tps_plugin_new (&options, error);
  if (program->plugin != NULL && flags->serves_addition)
    addition->add_service (program->plugin, flags, program->tls);
  return program->plugin != NULL;
}

/* Sockets of the service manager replace the addresses of --listen. */
static gboolean
open_sockets (Program *program, GError **error)
{
  const TpsServerFlags *flags = program->flags;

  if (tps_service_manager_get_n_sockets (program->manager) > 0)
    return tps_service_manager_give_sockets (program->manager, program->server, error)
           && tps_server_flags_check_exposure (flags, tps_server_get_addresses (program->server),
                                               error);
  for (guint i = 0; flags->listen[i] != NULL; i++)
    if (!tps_server_listen (program->server, flags->listen[i], error))
      return FALSE;
  return TRUE;
}

/* HTTP starts before the Thrift server, so that /readyz can report why the server is not ready. */
static gboolean
start_http (Program *program, GError **error)
{
  const TpsServerFlags *flags = program->flags;
  TpsHttpOptions options = { .plugin = program->plugin,
                             .server = program->server,
                             .tracer = program->tracer,
                             .names = (const gchar *const *) flags->http_names,
                             .access = program->access,
                             .serves_others = flags->insecure || flags->access.rules_file != NULL };
  const TpsHttpEndpoint flags_page = { "/flags", .right = TPS_RIGHT_ADMIN, .handle = serve_flags,
                                       .user_data = (gpointer) (gsize) flags };

  if (flags->http == NULL)
    return TRUE;
  program->http = tps_http_new (&options);
  tps_http_add_endpoint (program->http, &flags_page);
  for (guint i = 0; flags->http[i] != NULL; i++)
    if (!tps_http_listen (program->http, flags->http[i], error))
      return FALSE;
  return tps_http_start (program->http, error);
}

static gboolean
make_tracer (Program *program, GError **error)
{
  const TpsServerFlags *flags = program->flags;
  TpsOtlpOptions otlp = {
    .endpoint = flags->otlp,
    .resource = { .service = "thriftps", .version = TPS_VERSION, .instance = flags->plugin.name }
  };

  if (flags->tracing.n_slow_calls == 0 && flags->otlp == NULL)
    return TRUE;
  program->tracer = tps_tracer_new (&flags->tracing);
  otlp.tracer = program->tracer;
  otlp.counters = tps_metrics_get_counters (program->plugin->metrics);
  if (flags->otlp != NULL)
    program->otlp = tps_otlp_exporter_new (&otlp, error);
  return flags->otlp == NULL || program->otlp != NULL;
}

static void *
do_nothing (void *unused)
{
  return unused;
}

/* Makes GLib start the thread that its asynchronous calls need. If the system refused this thread,
 * GLib would end the process. So it is the first one: no other takes its place after the trial. */
static gboolean
start_thread_of_glib (GError **error)
{
  TpsThread thread;

  if (!tps_thread_start (&thread, "gmain", do_nothing, NULL, error))
    return FALSE;
  tps_sync_check (pthread_join (thread, NULL));
  g_type_ensure (G_TYPE_TASK);
  return TRUE;
}

static gboolean
start (Program *program, GError **error)
{
  const TpsServerFlags *flags = program->flags;
  gboolean has_faults = flags->faults != NULL && flags->faults[0] != NULL;
  gboolean has_access = flags->access.rules_file != NULL || flags->access.token_file != NULL;
  TpsServerOptions options = flags->server;
  TpsServerParts parts = { 0 };

  if ((flags->otlp != NULL && !start_thread_of_glib (error)) || !check_devices (flags, error))
    return FALSE;
  if (has_faults)
    program->faults = tps_fault_plan_new ((const gchar *const *) flags->faults, error);
  if (has_faults && program->faults == NULL)
    return FALSE;
  if (flags->tls != TPS_TLS_OFF)
    program->tls = tps_tls_new (&flags->tls_files, error);
  if (flags->tls != TPS_TLS_OFF && program->tls == NULL)
    return FALSE;
  if (has_access)
    program->access = tps_access_new (&flags->access, error);
  if (has_access && program->access == NULL)
    return FALSE;
  if (!make_plugin (program, error) || !make_tracer (program, error))
    return FALSE;
  tps_trace (&devices_found, tps_field_text ("devices", tps_device_list_summary ()));
  parts.faults = program->faults;
  parts.tracer = program->tracer;
  options.parts = &parts;
  options.tls = program->tls;
  options.access = program->access;
  options.tls_required = flags->tls == TPS_TLS_REQUIRED;
  program->server = tps_plugin_new_server (program->plugin, &options);
  if (!open_sockets (program, error) || !start_http (program, error))
    return FALSE;
  is_serving = TRUE; /* before the first call, which the end of the process must not lose */
  return tps_server_start (program->server, error);
}

/* Undoes start(), even if it has failed. HTTP runs until the server has drained, so that it can
 * report this state. Errors: those of tps_plugin_close(). */
static gboolean
clear (Program *program, GError **error)
{
  gboolean is_kept;

  if (program->server != NULL)
    tps_server_stop (program->server);
  tps_service_manager_stop (program->manager);
  g_clear_pointer (&program->http, tps_http_free);
  g_clear_object (&program->server);
  /* The exporter uses the plugin's metrics, so it must be freed before the plugin. */
  g_clear_pointer (&program->otlp, tps_otlp_exporter_free);
  is_kept = tps_plugin_close (g_steal_pointer (&program->plugin), error);
  g_clear_pointer (&program->tracer, tps_tracer_free);
  g_clear_pointer (&program->tls, tps_tls_unref);
  g_clear_pointer (&program->access, tps_access_unref);
  g_clear_pointer (&program->faults, tps_fault_plan_free);
  return is_kept;
}

/* All acknowledged changes are on the disk, and later ones are before they are acknowledged. */
static atomic_bool is_synced;

static void
on_synced (gpointer unused, gint64 lsn, const GError *error)
{
  atomic_store (&is_synced, error == NULL);
}

/* The thread that ends the process if the stop takes too long. If the log is on the disk, the delay
 * has lost nothing, and the exit status is that of a usual end. */
static void *
end_anyway (void *unused)
{
  struct pollfd writable = { .fd = STDERR_FILENO, .events = POLLOUT };

  g_usleep (END_MS * 1000);
  if (atomic_load (&is_synced))
    _exit (0);
  if (poll (&writable, 1, 0) == 1) /* the reader of a pipe may hang, too */
    fprintf (stderr,
             "%s: shutdown took longer than %.1f s; acknowledged changes with the durability "
             "interval may be lost\n",
             addition->program, END_MS / 1000.0);
  _exit (1);
}

/* Begins the stop. The log comes first, because everything else may hang. */
static void
begin_stop (const Program *program)
{
  TpsDurable *durable = program->plugin->durable;

  /* Without the guard, a stop that does not end is left to the service manager. */
  tps_thread_start_detached ("tps-guard", end_anyway, NULL, NULL);
  if (durable != NULL)
    tps_durable_prepare_stop (durable, on_synced, NULL);
  else
    on_synced (NULL, 0, NULL);
}

/* ---- signals -------------------------------------------------------------------------------- */

/* Signals are handled by a handler that notes them and wakes the main thread through a pipe.
 * sigwait() would not work: libraries (OpenBLAS) start threads that do not block signals, and a
 * signal that one of these threads receives would end the process. Several SIGHUPs are one reload,
 * and none of them delays the stop. */
static int signal_pipe[2];
static atomic_int stop_signal; /* SIGTERM or SIGINT; 0 = none */
static atomic_bool wants_reload;
static atomic_bool has_failed; /* the recovery */

static void
wake (void)
{
  if (write (signal_pipe[1], "", 1) < 0)
    return; /* the pipe is full, so the main thread wakes up */
}

/* Before the program serves, SIGTERM and SIGINT end it at once. There are no calls to drain, and a
 * step of the start (a read of a file, the search for devices) may block for ever. */
static void
on_signal (int signal_number)
{
  gint code = errno;

  if (signal_number == SIGHUP)
    atomic_store (&wants_reload, TRUE);
  else if (is_serving)
    atomic_store (&stop_signal, signal_number);
  else
    _exit (0);
  wake ();
  errno = code;
}

/* Opens /dev/null in place of missing standard streams. Otherwise, their numbers would be given to
 * other descriptors, and the output of the program would go into its signal pipe or to a client. */
static void
ensure_standard_streams (void)
{
  gint fd;

  do
    fd = open ("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd < 0)
    _exit (1);
  close (fd);
}

/* A server that cannot read its data must end, so that operators and service managers notice. */
static void
on_recovered (gpointer unused, const GError *error)
{
  if (error == NULL)
    return;
  atomic_store (&has_failed, TRUE);
  wake ();
}

/* Catches signals from the first moment on. The default action of each of them would end the
 * process as SIGKILL does. SIGXFSZ is ignored, so that a write beyond the limit of a file fails. */
static void
catch_signals (void)
{
  static const gint caught[] = { SIGTERM, SIGINT, SIGHUP };
  static const gint ignored[] = { SIGPIPE, SIGXFSZ, SIGUSR1, SIGUSR2 };
  struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
  gboolean ok = pipe2 (signal_pipe, O_CLOEXEC | O_NONBLOCK) == 0;

  for (guint i = 0; ok && i < G_N_ELEMENTS (caught); i++)
    ok = sigaction (caught[i], &action, NULL) == 0;
  for (guint i = 0; ok && i < G_N_ELEMENTS (ignored); i++)
    ok = signal (ignored[i], SIG_IGN) != SIG_ERR;
  if (!ok)
    fail (1, g_strconcat ("signals cannot be handled: ", g_strerror (errno), NULL));
}

/* Carries out SIGHUP: opens the log again, and reads certificates, rules and tokens again. Does
 * nothing if there is none of them. */
static void
reload (const Program *program)
{
  g_autoptr (GError) failure = NULL;

  tps_service_manager_begin_reload (program->manager);
  if (!tps_trace_stream_reopen (program->log, &failure)) /* the old file stays in use */
    tps_trace (&log_not_reopened, tps_field_text ("reason", failure->message));
  if (program->tls != NULL)
    {
      g_autoptr (GError) error = NULL;

      if (tps_tls_reload (program->tls, &error))
        tps_trace (&certificates_reloaded,
                   tps_field_int ("expiry_s", tps_tls_get_expiry_s (program->tls)));
      else
        tps_trace (&certificates_refused, tps_field_text ("reason", error->message));
    }
  if (program->access != NULL)
    {
      g_autoptr (GError) error = NULL;

      if (tps_access_reload (program->access, &error))
        tps_trace (&access_reloaded, tps_field_bool ("ok", TRUE));
      else
        tps_trace (&access_unchanged, tps_field_text ("reason", error->message));
    }
  tps_service_manager_end_reload (program->manager);
}

/* Runs turns and reloads until SIGTERM or SIGINT. Returns FALSE if the recovery has failed. */
static gboolean
wait_for_signal (const Program *program)
{
  const TpsBudgets *budgets = program->plugin->budgets;
  MemoryTrimmer trimmer = { .budgets = budgets, .uncounted = G_MAXINT64 };
  struct pollfd readable = { .fd = signal_pipe[0], .events = POLLIN };
  gchar bytes[64];

  while (atomic_load (&stop_signal) == 0)
    {
      if (atomic_load (&has_failed))
        return FALSE;
      if (atomic_exchange (&wants_reload, FALSE))
        {
          tps_trace (&signal_taken, tps_field_text ("signal", strsignal (SIGHUP)));
          reload (program);
        }
      memory_trimmer_turn (&trimmer);
      tps_service_manager_turn (program->manager);
      if (poll (&readable, 1, TURN_MS) > 0)
        while (read (signal_pipe[0], bytes, sizeof bytes) > 0)
          ;
    }
  begin_stop (program);
  tps_trace (&signal_taken, tps_field_text ("signal", strsignal (atomic_load (&stop_signal))));
  tps_service_manager_stop (program->manager);
  return TRUE;
}

static void
serve (const TpsServerFlags *flags, TpsServiceManager *manager, TpsTraceStream *log)
{
  Program program = { .flags = flags, .manager = manager, .log = log };
  g_autoptr (GError) error = NULL;
  const gchar *const *address;

  if (!start (&program, &error))
    {
      gint status = g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND) ? 2 : 1;

      clear (&program, NULL);
      fail (status, error->message);
    }
  for (address = tps_server_get_addresses (program.server); *address != NULL; address++)
    printf ("listening on %s\n", *address);
  address = program.http != NULL ? tps_http_get_addresses (program.http) : NULL;
  for (; address != NULL && *address != NULL; address++)
    printf ("listening on %s\n", *address);
  fflush (stdout);
  tps_service_manager_begin (manager, program.server, program.plugin);
  if (!wait_for_signal (&program))
    {
      tps_plugin_wait (program.plugin, &error);
      clear (&program, NULL);
      fail (1, error->message);
    }
  if (!clear (&program, &error))
    fail (1, error->message);
}

static void
print_help (void)
{
  g_autofree gchar *text = tps_options_to_help (tps_server_flags_get_options ());

  printf ("Usage: %s [OPTION]...\n"
          "Serves ThriftPS over Apache Thrift%s%s.\n\n%s\n"
          "Exit status: 0 after SIGTERM or SIGINT, 1 if it cannot serve or its last write\n"
          "failed, 2 for a bad option.\n",
          addition->program, addition->service != NULL ? ", with the service " : "",
          addition->service != NULL ? addition->service : "", text);
}

static void
print_token (const gchar *text)
{
  g_auto (GStrv) words = g_strsplit (text, ",", 2);
  g_autofree gchar *line = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree gchar *token = tps_token_make (words[0] != NULL ? words[0] : "",
                                            words[0] != NULL ? words[1] : NULL, &line, &error);

  if (token == NULL)
    fail (2, error->message);
  printf ("%s\n%s\n", token, line);
}

int
tps_server_main (char **argv, const TpsServerAddition *added)
{
  g_auto (TpsServerFlags) flags = { 0 };
  g_autoptr (TpsServiceManager) manager = NULL;
  g_autoptr (GError) error = NULL;
  TpsTraceStream *log; /* never freed: the thread that writes the log uses it until the end */

  addition = added;
  ensure_standard_streams ();
  tps_descriptor_table_raise_limit ();
  /* Freed blocks of 512 KiB or more are returned to the system at once. glibc would raise these
   * thresholds, and each of its arenas would then keep up to 64 MiB that no budget counts. */
  mallopt (M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
  mallopt (M_TRIM_THRESHOLD, MMAP_THRESHOLD_BYTES);
  catch_signals ();
  if (!tps_server_flags_parse ((const gchar *const *) argv, added->service, &flags, &error))
    fail (2, error->message);
  if (flags.help)
    {
      print_help ();
      return 0;
    }
  if (flags.help_markdown)
    {
      g_autofree gchar *table = tps_options_to_markdown (tps_server_flags_get_options ());

      fputs (table, stdout);
      return 0;
    }
  if (flags.make_token != NULL)
    {
      print_token (flags.make_token);
      return 0;
    }
  if (flags.tuning)
    {
      g_autofree gchar *list = tuning_list_write (&flags);

      fputs (list, stdout);
      return 0;
    }
  if (flags.version)
    {
      printf ("%s %s\n", added->program, TPS_VERSION);
      return 0;
    }
  manager = tps_service_manager_new (&error);
  if (manager == NULL)
    fail (1, error->message);
  log = open_log (&flags, &error);
  if (log == NULL)
    fail (1, error->message);
  serve (&flags, manager, log);
  flush_log ();
  return 0;
}
