/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/system/system.h"

#include <string.h>

#include "bench/process/runfiles.h"
#include "runtime/base/error.h"

void
tps_transfer_times_clear (TpsTransferTimes *times)
{
  g_clear_pointer (&times->ms, g_array_unref);
}

/* -- processes -- */

static gboolean
is_peer (const TpsTransferSystemSpec *spec)
{
  return spec->script != NULL || spec->program != NULL;
}

/* Starts a process of the system. Only ours get --bytes; peers allocate memory for each row. */
static TpsChild *
start (const TpsTransferSystem *system, const gchar *role, const gchar *address, GError **error)
{
  const TpsTransferSystemSpec *spec = system->spec;
  const gchar *file = spec->script != NULL ? spec->script : spec->program;
  g_autofree gchar *found = file != NULL ? tps_bench_find_file (file, error)
                                         : tps_bench_find_program ();
  g_autofree gchar *bytes = g_strdup_printf ("--bytes=%" G_GSIZE_FORMAT, system->options.max_bytes);
  g_autofree gchar *name = g_strdup_printf ("%s (%s)", spec->name, role);
  gboolean is_encrypted = g_str_equal (spec->transport, "tls");
  g_auto (GStrv) argv = NULL;

  if (found == NULL)
    return NULL;
  argv = tps_argv_format ("%s\n%s\n--%s=%s\n--address=%s\n%s\n%s%s",
                          spec->script != NULL ? tps_bench_find_python () : "", found, role,
                          spec->kind, address, is_peer (spec) ? "" : bytes,
                          is_encrypted ? "--certificate=" : "",
                          is_encrypted ? system->options.certificate : "");
  return tps_child_start (system->supervisor, name, argv, error);
}

static gboolean
start_server (TpsTransferSystem *system, const gchar *asked, GError **error)
{
  static const gchar listening[] = "listening on ";
  g_autofree gchar *line = NULL;

  system->server = start (system, "serve", asked, error);
  if (system->server == NULL || (line = tps_child_receive (system->server, error)) == NULL)
    return FALSE;
  if (!g_str_has_prefix (line, listening))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s did not start: %s",
                   system->spec->name, line);
      return FALSE;
    }
  system->address = g_strdup (line + strlen (listening));
  return TRUE;
}

static gboolean
start_client (TpsTransferSystem *system, GError **error)
{
  system->client = start (system, "load", system->address != NULL ? system->address : "", error);
  return system->client != NULL;
}

static void
go_on (TpsTransferSystem *system)
{
  if (system->is_paused)
    {
      tps_child_resume (system->server);
      tps_child_resume (system->client);
    }
  system->is_paused = FALSE;
}

static void
stand_still (TpsTransferSystem *system)
{
  if (system->spec->script == NULL)
    return;
  tps_child_pause (system->client);
  tps_child_pause (system->server);
  system->is_paused = TRUE;
}

static gchar *
choose_address (const TpsTransferSystem *system)
{
  const TpsTransferSystemSpec *spec = system->spec;

  if (spec->script != NULL /* which chooses a Unix socket by the kind */
      || g_str_equal (spec->transport, "tcp") || g_str_equal (spec->transport, "tls"))
    return g_strdup ("127.0.0.1:0");
  return g_strdup_printf ("unix:%s/%s-%s.sock", system->options.socket_dir, spec->kind,
                          spec->transport);
}

TpsTransferSystem *
tps_transfer_system_new (TpsSupervisor *supervisor, const TpsTransferSystemSpec *spec,
                         const TpsTransferSystemOptions *options)
{
  TpsTransferSystem *system = g_new0 (TpsTransferSystem, 1);

  *system = (TpsTransferSystem) { .supervisor = supervisor, .spec = spec, .options = *options };
  return system;
}

gboolean
tps_transfer_system_start (TpsTransferSystem *system, GError **error)
{
  g_autofree gchar *asked = choose_address (system);

  return (system->spec->has_no_server || start_server (system, asked, error))
         && start_client (system, error);
}

void
tps_transfer_system_free (TpsTransferSystem *system)
{
  go_on (system);
  g_clear_pointer (&system->client, tps_child_free);
  g_clear_pointer (&system->server, tps_child_free);
  g_free (system->address);
  g_free (system);
}

gboolean
tps_transfer_system_can_run (const TpsTransferSystem *system, const TpsTransferRow *row)
{
  const TpsTransferSystemSpec *spec = system->spec;

  if (g_str_equal (spec->kind, "raw") && row->op == TPS_TRANSFER_ECHO && row->n_in_flight > 1)
    return FALSE;
  if ((spec->is_one_way && row->op == TPS_TRANSFER_ECHO) || row->n_bytes < spec->min_bytes)
    return FALSE;
  return (spec->max_connections == 0 || row->n_connections <= spec->max_connections)
         && (spec->max_in_flight == 0 || row->n_in_flight <= spec->max_in_flight)
         && (spec->max_bytes_in_flight == 0
             || row->n_in_flight * row->n_bytes <= spec->max_bytes_in_flight);
}

/* -- rows -- */

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

/* Returns the CPU time of the server in seconds; 0 if there is no server. */
static gdouble
get_server_cpu (const TpsTransferSystem *system)
{
  return system->server != NULL ? tps_child_get_cpu (system->server) : 0;
}

static gchar *
ask (TpsTransferSystem *system, const gchar *order, TpsTransferTimes *times, GError **error)
{
  gdouble client_cpu = tps_child_get_cpu (system->client), server_cpu = get_server_cpu (system);
  gchar *answer = tps_child_ask (system->client, order, error);

  times->client_cpu = tps_child_get_cpu (system->client) - client_cpu;
  times->server_cpu = get_server_cpu (system) - server_cpu;
  return answer;
}

gboolean
tps_transfer_system_run (TpsTransferSystem *system, const TpsTransferRow *row,
                         TpsTransferTimes *times, GError **error)
{
  g_autofree gchar *order = tps_transfer_row_to_line (row);
  g_autofree gchar *answer = NULL;

  *times = (TpsTransferTimes) { 0 };
  go_on (system);
  answer = ask (system, order, times, error);
  if (answer == NULL)
    return FALSE;
  stand_still (system);
  if (parse_times (answer, times) && times->ms->len == row->n_calls)
    return TRUE;
  tps_transfer_times_clear (times);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "%s, %s: %.300s", system->spec->name, order,
               answer);
  return FALSE;
}

gboolean
tps_transfer_system_check (TpsTransferSystem *system, const TpsTransferRow *row, GError **error)
{
  TpsTransferRow check = tps_transfer_row_get_check (row);
  g_auto (TpsTransferTimes) times = { 0 };

  /* A system that cannot run the checking row compares the bytes itself. */
  return is_peer (system->spec) || !tps_transfer_system_can_run (system, &check)
         || tps_transfer_system_run (system, &check, &times, error);
}
