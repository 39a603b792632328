/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/system.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/process/interrupt.h"
#include "bench/process/runfiles.h"
#include "runtime/error.h"

#define POLL_MS 100
#define PATIENCE_MS 1000

/* A child that talks in lines. */
typedef struct
{
  gint to, from;
  GString *received; /* behind the last whole line */
  gint pid;
} Process;

struct TpsTransferSystem
{
  TpsSupervisor *supervisor;
  const TpsTransferSystemSpec *spec;
  Process server, client;
  gchar *address;
};

void
tps_transfer_times_clear (TpsTransferTimes *times)
{
  g_clear_pointer (&times->ms, g_array_unref);
}

/* -- processes -- */

static void
process_clear (Process *process)
{
  if (process->to >= 0)
    close (process->to); /* the end of its input ends it */
  if (process->from >= 0)
    close (process->from);
  if (process->received != NULL)
    g_string_free (process->received, TRUE);
}

/* More bytes, while signals and children are looked after. */
static gboolean
receive (TpsTransferSystem *system, Process *process, GError **error)
{
  struct pollfd ready = { .fd = process->from, .events = POLLIN };
  gchar chunk[65536];

  for (;;)
    {
      gssize n;

      if (!tps_interrupt_check (error))
        return FALSE;
      if (poll (&ready, 1, POLL_MS) <= 0)
        continue;
      n = read (process->from, chunk, sizeof chunk);
      if (n < 0 && errno == EINTR)
        continue;
      if (n > 0)
        {
          g_string_append_len (process->received, chunk, n);
          return TRUE;
        }
      if (tps_supervisor_check_patiently (system->supervisor, PATIENCE_MS, error))
        g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s closed its output",
                     system->spec->name);
      return FALSE;
    }
}

/* The next line, without its end; owned by the caller. */
static gchar *
receive_line (TpsTransferSystem *system, Process *process, GError **error)
{
  gchar *end, *line;

  while ((end = memchr (process->received->str, '\n', process->received->len)) == NULL)
    if (!receive (system, process, error))
      return NULL;
  line = g_strndup (process->received->str, (gsize) (end - process->received->str));
  g_string_erase (process->received, 0, end + 1 - process->received->str);
  return line;
}

static gboolean
start (TpsTransferSystem *system, Process *process, const gchar *role, const gchar *address,
       GError **error)
{
  const TpsTransferSystemSpec *spec = system->spec;
  g_autofree gchar *program = spec->program != NULL ? tps_bench_find_file (spec->program, error)
                                                    : tps_bench_find_program ();
  g_autofree gchar *script = spec->script != NULL ? tps_bench_find_file (spec->script, error)
                                                  : NULL;
  g_autofree gchar *role_flag = g_strdup_printf ("--%s=%s", role, spec->kind);
  g_autofree gchar *address_flag = g_strdup_printf ("--address=%s", address);
  g_autofree gchar *name = g_strdup_printf ("%s (%s)", spec->name, role);
  g_autofree gchar *python = g_strdup (tps_bench_find_python ());
  gchar *plain[] = { program, role_flag, address_flag, NULL };
  gchar *scripted[] = { python, script, role_flag, address_flag, NULL };

  if (program == NULL || (spec->script != NULL && script == NULL))
    return FALSE;
  if (!tps_supervisor_start (system->supervisor, name, script != NULL ? scripted : plain,
                             &process->to, &process->from, error))
    return FALSE;
  process->pid = tps_supervisor_get_newest_pid (system->supervisor);
  return TRUE;
}

static gboolean
start_both (TpsTransferSystem *system, const gchar *asked, GError **error)
{
  g_autofree gchar *line = NULL;

  if (!start (system, &system->server, "serve", asked, error))
    return FALSE;
  line = receive_line (system, &system->server, error);
  if (line == NULL)
    return FALSE;
  if (!g_str_has_prefix (line, "listening on "))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s did not come up: %s",
                   system->spec->name, line);
      return FALSE;
    }
  system->address = g_strdup (line + strlen ("listening on "));
  return start (system, &system->client, "load", system->address, error);
}

TpsTransferSystem *
tps_transfer_system_start (TpsSupervisor *supervisor, const TpsTransferSystemSpec *spec,
                           const gchar *socket_dir, GError **error)
{
  TpsTransferSystem *system = g_new0 (TpsTransferSystem, 1);
  g_autofree gchar *asked = g_str_equal (spec->transport, "unix")
                                ? g_strdup_printf ("unix:%s/%s.sock", socket_dir, spec->kind)
                                : g_strdup ("127.0.0.1:0");

  system->supervisor = supervisor;
  system->spec = spec;
  system->server = system->client = (Process) { .to = -1, .from = -1 };
  system->server.received = g_string_new (NULL);
  system->client.received = g_string_new (NULL);
  if (start_both (system, asked, error))
    return system;
  tps_transfer_system_free (system);
  return NULL;
}

void
tps_transfer_system_free (TpsTransferSystem *system)
{
  process_clear (&system->client);
  process_clear (&system->server);
  g_free (system->address);
  g_free (system);
}

const TpsTransferSystemSpec *
tps_transfer_system_get_spec (const TpsTransferSystem *system)
{
  return system->spec;
}

const gchar *
tps_transfer_system_get_address (const TpsTransferSystem *system)
{
  return system->address;
}

gboolean
tps_transfer_system_can_run (const TpsTransferSystem *system, const TpsTransferRow *row)
{
  const TpsTransferSystemSpec *spec = system->spec;

  if (g_str_equal (spec->kind, "raw") && row->op == TPS_TRANSFER_ECHO && row->n_in_flight > 1)
    return FALSE;
  return (spec->max_connections == 0 || row->n_connections <= spec->max_connections)
         && (spec->max_in_flight == 0 || row->n_in_flight <= spec->max_in_flight);
}

/* -- rows -- */

/* Seconds of CPU that a process has used; NAN when it is gone. */
static gdouble
get_cpu (const Process *process)
{
  struct timespec used;
  clockid_t clock;

  if (clock_getcpuclockid (process->pid, &clock) != 0 || clock_gettime (clock, &used) != 0)
    return (gdouble) NAN;
  return (gdouble) used.tv_sec + (gdouble) used.tv_nsec / 1e9;
}

static gboolean
parse_times (const gchar *line, TpsTransferTimes *times)
{
  gchar *at;

  if (!g_str_has_prefix (line, "ok "))
    return FALSE;
  times->seconds = g_ascii_strtod (line + 3, &at);
  times->ms = g_array_new (FALSE, FALSE, sizeof (gdouble));
  while (*at == ' ')
    {
      gdouble ms = g_ascii_strtod (at, &at) / 1e6;

      g_array_append_val (times->ms, ms);
    }
  return *at == '\0';
}

gboolean
tps_transfer_system_run (TpsTransferSystem *system, const TpsTransferRow *row,
                         TpsTransferTimes *times, GError **error)
{
  g_autofree gchar *order = tps_transfer_row_to_line (row);
  g_autofree gchar *line = g_strconcat (order, "\n", NULL);
  g_autofree gchar *answer = NULL;
  gdouble client_cpu = get_cpu (&system->client), server_cpu = get_cpu (&system->server);

  *times = (TpsTransferTimes) { 0 };
  if (write (system->client.to, line, strlen (line)) != (gssize) strlen (line))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED, "%s: its load generator is gone",
                   system->spec->name);
      return FALSE;
    }
  answer = receive_line (system, &system->client, error);
  if (answer == NULL)
    return FALSE;
  times->client_cpu = get_cpu (&system->client) - client_cpu;
  times->server_cpu = get_cpu (&system->server) - server_cpu;
  if (parse_times (answer, times) && times->ms->len == row->n_calls)
    return TRUE;
  tps_transfer_times_clear (times);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "%s, %s: %.300s", system->spec->name, order,
               answer);
  return FALSE;
}
