/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The standalone server: flags -> services -> listen -> serve until SIGTERM or SIGINT -> drain -> 0.
 *
 * Exit codes: 0 after a signal, 1 when it cannot serve, 2 for bad flags.
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/app/flags.h"
#include "plugin/app/trainer_links.h"
#include "plugin/service/chunks/chunk_service.h"
#include "plugin/service/embedding_table_service.h"
#include "plugin/service/memory_service.h"
#include "plugin/service/node_service.h"
#include "plugin/service/parameter_server_service.h"
#include "plugin/service/rendezvous_service.h"
#include "plugin/service/trainer_service.h"
#include "runtime/device/backend.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/trace_sinks.h"
#include "runtime/base/version.h"

#define END_MS 4700 /* after a signal the process is gone by then, whatever still runs */

#define LOG_FLUSH_NS ((gint64) 200 * 1000000)

static TpsTraceEvent devices_found = TPS_TRACE_EVENT ("devices_found", TPS_TRACE_INFO);
static TpsTraceEvent signal_taken = TPS_TRACE_EVENT ("signal_taken", TPS_TRACE_INFO);

typedef struct
{
  const TpsServerFlags *flags;
  TpsDevice *device; /* where gradients are added up; NULL = in host memory */
  TpsServer *server;
  TpsMetrics *metrics;
  TpsNode node;
  const gchar *
      *service_names; /* of the flags, and what every server has; owned, the names are not */
  const gchar **device_names; /* of tps_device_list(); owned, the names are not */
  TpsParameterServers parameter_servers;
  TpsTableStore *tables;
  TpsEmbeddingTables *embedding; /* the service over `tables` */
  TpsRendezvous *rendezvous;
  TpsTrainer *trainer;
} Program;

/* Gives the log's last lines time to leave, if stderr takes them. */
static void
flush_log (void)
{
  tps_trace_flush (tps_clock_now_ns () + LOG_FLUSH_NS);
}

static void
fail (gint status, const gchar *text)
{
  flush_log ();
  fprintf (stderr, "thriftps_server: %s\n", text);
  exit (status);
}

/* ---- services ------------------------------------------------------------------------------- */

static gboolean
serves (const Program *program, const gchar *name)
{
  return g_strv_contains ((const gchar *const *) program->flags->services, name);
}

static gboolean
make_averaging (Program *program, GError **error)
{
  const TpsServerFlags *flags = program->flags;
  TpsParameterServerOptions options = {
    .kind = flags->server,
    .n_trainers = flags->n_trainers,
    .reduce = flags->reduce,
    .round_timeout_ns = flags->rpc_timeout_ns,
    .workers = tps_server_get_workers (program->server),
    .max_average_bytes = flags->options.max_pending_bytes,
    .device = program->device,
    .metrics = program->metrics,
  };

  program->parameter_servers.averaging = tps_parameter_server_new (&options, error);
  return program->parameter_servers.averaging != NULL;
}

static gboolean
make_updating (Program *program, GError **error)
{
  const TpsServerFlags *flags = program->flags;
  TpsModelServerOptions options = {
    .n_trainers = flags->n_trainers,
    .min_trainers = flags->min_trainers,
    .round_timeout_ns = flags->rpc_timeout_ns,
    .max_staleness = flags->max_staleness,
    .pushes = flags->pushes,
    .workers = tps_server_get_workers (program->server),
    .metrics = program->metrics,
  };

  program->parameter_servers.updating = tps_model_server_new (&options, error);
  return program->parameter_servers.updating != NULL;
}

static gboolean
add_parameter_server (Program *program, GError **error)
{
  TpsService service;

  if (!make_averaging (program, error) || !make_updating (program, error))
    return FALSE;
  service = tps_parameter_server_service (&program->parameter_servers);
  tps_server_add_service (program->server, &service);
  return TRUE;
}

static void
add_embedding_table (Program *program)
{
  TpsTableStoreOptions options = {
    .max_bytes = program->flags->max_table_bytes,
    .workers = tps_server_get_workers (program->server),
    .place = program->flags->table_place,
  };
  TpsService service;

  program->tables = tps_table_store_new (&options);
  program->embedding = tps_embedding_tables_new (program->tables, &program->flags->pushes);
  service = tps_embedding_table_service (program->embedding);
  tps_server_add_service (program->server, &service);
}

/* Owned by the caller; the names are not. */
static const gchar **
list_device_names (void)
{
  g_autofree TpsDevice **devices = tps_device_list ();
  GPtrArray *names = g_ptr_array_new ();

  for (guint i = 0; devices[i] != NULL; i++)
    g_ptr_array_add (names, (gpointer) (gsize) devices[i]->name);
  g_ptr_array_add (names, NULL);
  return (const gchar **) g_ptr_array_free (names, FALSE);
}

/* Owned by the caller; the names are not. */
static const gchar **
list_service_names (const TpsServerFlags *flags)
{
  GPtrArray *names = g_ptr_array_new ();

  for (guint i = 0; flags->services[i] != NULL; i++)
    g_ptr_array_add (names, flags->services[i]);
  g_ptr_array_add (names, (gpointer) (gsize) tps_memory_service ().name);
  g_ptr_array_add (names, (gpointer) (gsize) TPS_CHUNKS_SERVICE_NAME);
  g_ptr_array_add (names, NULL);
  return (const gchar **) g_ptr_array_free (names, FALSE);
}

/* After the tables, whose bytes it tells. */
static void
add_node (Program *program)
{
  TpsService service = tps_node_service (&program->node);

  program->service_names = list_service_names (program->flags);
  program->device_names = list_device_names ();
  tps_trace (&devices_found, tps_field_text ("devices", tps_device_list_summary ()));
  program->node = (TpsNode) {
    .name = program->flags->name,
    .max_frame_bytes = (gint64) tps_server_get_max_frame_bytes (program->server),
    .services = program->service_names,
    .devices = program->device_names,
    .metrics = program->metrics,
  };
  if (program->embedding != NULL)
    {
      program->node.get_table_bytes = tps_embedding_tables_get_bytes;
      program->node.tables = program->embedding;
    }
  tps_server_add_service (program->server, &service);
}

static void
add_rendezvous (Program *program)
{
  TpsService service;

  program->rendezvous = tps_rendezvous_new (tps_server_get_workers (program->server));
  service = tps_rendezvous_service (program->rendezvous);
  tps_server_add_service (program->server, &service);
}

static void
add_trainer (Program *program)
{
  TpsTrainerLinks links = tps_trainer_links (NULL);
  TpsService service;

  program->trainer = tps_trainer_new (&links, program->metrics);
  service = tps_trainer_service (program->trainer);
  tps_server_add_service (program->server, &service);
}

static gboolean
add_services (Program *program, GError **error)
{
  if (serves (program, "ParameterServer") && !add_parameter_server (program, error))
    return FALSE;
  if (serves (program, "EmbeddingTable"))
    add_embedding_table (program);
  add_node (program);
  if (serves (program, "Rendezvous"))
    add_rendezvous (program);
  if (serves (program, "Trainer"))
    add_trainer (program);
  return TRUE;
}

/* ---- life ----------------------------------------------------------------------------------- */

/* NULL for the CPU: what it computes is the workers'. */
static gboolean
find_device (const gchar *flag, const gchar *name, TpsDevice **found, GError **error)
{
  TpsDevice *device = tps_device_find (name, error);

  if (device == NULL)
    {
      g_prefix_error (error, "--%s: ", flag);
      return FALSE;
    }
  *found = device->is_host ? NULL : device;
  return TRUE;
}

static gboolean
start (Program *program, GError **error)
{
  TpsServerOptions options = program->flags->options;
  TpsDevice *tables;

  if (!find_device ("device", program->flags->device, &program->device, error)
      || !find_device ("table-device", program->flags->table_place.device, &tables, error))
    return FALSE;
  options.device = program->device != NULL ? program->device : tables;
  program->metrics = tps_metrics_new (NULL, NULL);
  options.metrics = program->metrics;
  program->server = tps_server_new (&options);
  if (!add_services (program, error))
    return FALSE;
  for (guint i = 0; program->flags->listen[i] != NULL; i++)
    if (!tps_server_listen (program->server, program->flags->listen[i], error))
      return FALSE;
  return tps_server_start (program->server, error);
}

static void
say_ready (Program *program)
{
  const gchar *const *addresses = tps_server_get_addresses (program->server);

  for (; *addresses != NULL; addresses++)
    printf ("listening on %s\n", *addresses);
  fflush (stdout);
}

/* The opposite of start, whatever of it was done. */
static void
clear (Program *program)
{
  if (program->server != NULL)
    tps_server_stop (program->server);
  g_clear_pointer (&program->trainer, tps_trainer_free);
  g_clear_pointer (&program->rendezvous, tps_rendezvous_free);
  g_clear_pointer (&program->embedding, tps_embedding_tables_free);
  g_clear_pointer (&program->tables, tps_table_store_free);
  g_clear_pointer (&program->parameter_servers.averaging, tps_parameter_server_free);
  g_clear_pointer (&program->parameter_servers.updating, tps_model_server_free);
  g_clear_object (&program->server);
  g_clear_pointer (&program->service_names, g_free);
  g_clear_pointer (&program->device_names, g_free);
  g_clear_pointer (&program->metrics, tps_metrics_unref);
}

static void *
end_anyway (void *unused)
{
  g_usleep (END_MS * 1000);
  _exit (0);
}

/* Handled and not waited for with sigwait(): libraries (OpenBLAS) start threads before main(), which do not block signals,
 * and a signal that reaches one of those would end the process. */
static int signal_pipe[2];

static void
on_signal (int signal_number)
{
  guint8 byte = (guint8) signal_number;
  gint code = errno;

  if (write (signal_pipe[1], &byte, 1) < 0)
    byte = 0; /* full: it has been told */
  errno = code;
}

static void
catch_signals (void)
{
  struct sigaction action = { .sa_handler = on_signal, .sa_flags = 0 };

  signal (SIGPIPE, SIG_IGN);
  if (pipe2 (signal_pipe, O_CLOEXEC) < 0 || fcntl (signal_pipe[1], F_SETFL, O_NONBLOCK) < 0
      || sigaction (SIGTERM, &action, NULL) < 0 || sigaction (SIGINT, &action, NULL) < 0)
    fail (1, "no pipe for signals");
}

static void
wait_for_signal (void)
{
  pthread_t guard;
  guint8 byte;

  while (read (signal_pipe[0], &byte, 1) != 1)
    ;
  tps_trace (&signal_taken, tps_field_text ("signal", strsignal (byte)));
  if (pthread_create (&guard, NULL, end_anyway, NULL) == 0)
    pthread_detach (guard);
}

static void
serve (const TpsServerFlags *flags)
{
  Program program = { .flags = flags };
  g_autoptr (GError) error = NULL;

  if (!start (&program, &error))
    {
      gint status = g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND) ? 2 : 1;

      clear (&program);
      fail (status, error->message);
    }
  say_ready (&program);
  wait_for_signal ();
  clear (&program);
}

int
main (int argc, char **argv)
{
  g_auto (TpsServerFlags) flags = { 0 };
  g_autoptr (GError) error = NULL;

  catch_signals ();
  if (!tps_server_flags_parse ((const gchar *const *) argv, &flags, &error))
    fail (2, error->message);
  if (flags.version)
    {
      printf ("thriftps_server %s\n", TPS_VERSION);
      return 0;
    }
  tps_trace_set_sink (tps_trace_text_sink, GINT_TO_POINTER (STDERR_FILENO));
  tps_trace_set_level (flags.log_level);
  serve (&flags);
  flush_log ();
  return 0;
}
