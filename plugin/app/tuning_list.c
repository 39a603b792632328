/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/tuning_list.h"

#include <string.h>

#include "plugin/net/spin.h"
#include "runtime/machine/tuning.h"

#define SPIN_VARIABLE "THRIFTPS_SPIN_US"

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

gchar *
tps_tuning_list_write (const TpsServerFlags *flags)
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
