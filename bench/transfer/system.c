/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/system.h"

#include <string.h>

#include "bench/process/child.h"
#include "bench/process/runfiles.h"
#include "runtime/error.h"

struct TpsTransferSystem
{
  const TpsTransferSystemSpec *spec;
  TpsChild *server, *client;
  gchar *address;
};

void
tps_transfer_times_clear (TpsTransferTimes *times)
{
  g_clear_pointer (&times->ms, g_array_unref);
}

/* -- processes -- */

static TpsChild *
start (TpsSupervisor *supervisor, const TpsTransferSystemSpec *spec, const gchar *role,
       const gchar *address, GError **error)
{
  const gchar *file = spec->script != NULL ? spec->script : spec->program;
  g_autofree gchar *found = file != NULL ? tps_bench_find_file (file, error)
                                         : tps_bench_find_program ();
  g_autofree gchar *role_flag = g_strdup_printf ("--%s=%s", role, spec->kind);
  g_autofree gchar *address_flag = g_strdup_printf ("--address=%s", address);
  g_autofree gchar *name = g_strdup_printf ("%s (%s)", spec->name, role);
  g_autofree gchar *python = g_strdup (tps_bench_find_python ());
  gchar *argv[] = { python, found, role_flag, address_flag, NULL };

  if (found == NULL)
    return NULL;
  return tps_child_start (supervisor, name, spec->script != NULL ? argv : argv + 1, error);
}

static gboolean
start_both (TpsTransferSystem *system, TpsSupervisor *supervisor, const gchar *asked,
            GError **error)
{
  static const gchar listening[] = "listening on ";
  g_autofree gchar *line = NULL;

  system->server = start (supervisor, system->spec, "serve", asked, error);
  if (system->server == NULL || (line = tps_child_receive (system->server, error)) == NULL)
    return FALSE;
  if (!g_str_has_prefix (line, listening))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s did not come up: %s",
                   system->spec->name, line);
      return FALSE;
    }
  system->address = g_strdup (line + strlen (listening));
  system->client = start (supervisor, system->spec, "load", system->address, error);
  return system->client != NULL;
}

TpsTransferSystem *
tps_transfer_system_start (TpsSupervisor *supervisor, const TpsTransferSystemSpec *spec,
                           const gchar *socket_dir, GError **error)
{
  TpsTransferSystem *system = g_new0 (TpsTransferSystem, 1);
  g_autofree gchar *asked = g_str_equal (spec->transport, "unix")
                                ? g_strdup_printf ("unix:%s/%s.sock", socket_dir, spec->kind)
                                : g_strdup ("127.0.0.1:0");

  system->spec = spec;
  if (start_both (system, supervisor, asked, error))
    return system;
  tps_transfer_system_free (system);
  return NULL;
}

void
tps_transfer_system_free (TpsTransferSystem *system)
{
  g_clear_pointer (&system->client, tps_child_free);
  g_clear_pointer (&system->server, tps_child_free);
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
  gdouble client_cpu = tps_child_get_cpu (system->client);
  gdouble server_cpu = tps_child_get_cpu (system->server);
  g_autofree gchar *answer = tps_child_ask (system->client, order, error);

  *times = (TpsTransferTimes) { 0 };
  if (answer == NULL)
    return FALSE;
  times->client_cpu = tps_child_get_cpu (system->client) - client_cpu;
  times->server_cpu = tps_child_get_cpu (system->server) - server_cpu;
  if (parse_times (answer, times) && times->ms->len == row->n_calls)
    return TRUE;
  tps_transfer_times_clear (times);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "%s, %s: %.300s", system->spec->name, order,
               answer);
  return FALSE;
}
