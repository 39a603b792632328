/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/tuning_list.h"

#include <string.h>

#include "plugin/net/spin.h"
#include "runtime/machine/tuning.h"

#define SPIN_VARIABLE "THRIFTPS_SPIN_US"

static void
append_row (GString *list, const gchar *name, const gchar *value, const gchar *unit,
            const gchar *origin)
{
  g_string_append_printf (list, "%-20s  %9s  %-8s  %s\n", name, value, unit, origin);
}

static void
append_number (GString *list, const gchar *name, gsize value, const gchar *unit,
               const gchar *origin)
{
  g_autofree gchar *number = g_strdup_printf ("%" G_GSIZE_FORMAT, value);

  append_row (list, name, number, unit, origin);
}

static void
append_cache (GString *list, const gchar *name, gsize n_bytes, const gchar *origin)
{
  append_number (list, name, n_bytes >> 10, "KiB", origin);
}

/* ---- machine --------------------------------------------------------------------------------- */

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

static void
append_last_level (GString *list, const TpsMachine *machine)
{
  g_autofree gchar *origin = NULL;

  if (machine->l3_bytes == 0)
    {
      append_cache (list, "last level", machine->l2_bytes, "L2, because no L3 is known");
      return;
    }
  origin = g_strdup_printf (
      "share of a core: %" G_GSIZE_FORMAT
      " KiB that %u cores seem to share, at most %" G_GSIZE_FORMAT " KiB each, at least L2",
      machine->l3_reported >> 10, machine->l3_cores, TPS_MACHINE_MAX_L3_PER_CORE >> 10);
  append_cache (list, "last level", MAX (machine->l2_bytes, machine->l3_bytes), origin);
}

static void
append_machine (GString *list, const TpsMachine *machine)
{
  static const gchar *const origins[] = {
    [TPS_CACHES_FROM_KERNEL] = "share of a core, from /sys/devices/system/cpu",
    [TPS_CACHES_FROM_LIBRARY] = "of a core, from the C library",
    [TPS_CACHES_ASSUMED] = "assumed, because nothing is known",
  };

  append_cores (list, machine);
  append_cache (list, "L1", machine->l1_bytes, origins[machine->origin]);
  append_cache (list, "L2", machine->l2_bytes, origins[machine->origin]);
  append_last_level (list, machine);
}

/* ---- values ---------------------------------------------------------------------------------- */

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
  GString *list = g_string_new (NULL);

  append_row (list, "name", "value", "unit", "derived from");
  append_machine (list, tps_machine_get ());
  for (guint i = 0; i < tps_tuning_count_rows (); i++)
    {
      g_auto (TpsTuningRow) row = { 0 };
      g_autofree gchar *origin = NULL;

      tps_tuning_get_row (tps_tuning_get (), i, &row);
      if (append_set_value (list, flags, &row))
        continue;
      origin = g_strdup_printf ("%s: %s", row.derived_from, row.purpose);
      append_number (list, row.name, row.value, row.unit, origin);
    }
  return g_string_free (list, FALSE);
}
