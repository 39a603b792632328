/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/tenants/options.h"

static gboolean
check (TpsTenantsOptions *o, GError **error)
{
  static const gchar *const none[] = { NULL };

  if (o->run.repeats == TPS_FLAGS_NOT_GIVEN)
    o->run.repeats = o->run.smoke ? 1 : 5;
  if (o->run.smoke)
    {
      o->n_calls = MIN (o->n_calls, 50);
      o->n_clients = MIN (o->n_clients, 4);
    }
  return tps_run_flags_finish (&o->run, none, error)
         && tps_flags_check_number ("ids", o->n_ids, 1, 100000, error)
         && tps_flags_check_number ("calls", o->n_calls, 1, 1000000, error)
         && tps_flags_check_number ("clients", o->n_clients, 1, 500, error)
         && tps_flags_check_number ("limit", o->limit, 1, 1000000000, error);
}

static void
add_entries (GOptionContext *context, TpsTenantsOptions *o)
{
  const GOptionEntry entries[] = {
    { "ids", 0, 0, G_OPTION_ARG_INT64, &o->n_ids, "rows of a measured lookup (20)", "N" },
    { "calls", 0, 0, G_OPTION_ARG_INT64, &o->n_calls, "lookups of a round, one at a time (2000)",
      "N" },
    { "clients", 0, 0, G_OPTION_ARG_INT, &o->n_clients, "connections of the other tenant (32)",
      "N" },
    { "limit", 0, 0, G_OPTION_ARG_INT64, &o->limit,
      "limit on its rows per second, in the run with a limit (200000)", "N" },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };

  g_option_context_add_main_entries (context, entries, NULL);
}

gboolean
tps_tenants_options_parse (TpsTenantsOptions *o, gint argc, gchar **argv, GError **error)
{
  g_auto (GStrv) given = NULL;
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);

  *o = (TpsTenantsOptions) { .n_ids = 20, .n_calls = 2000, .n_clients = 32, .limit = 200000 };
  g_option_context_set_summary (
      context,
      "Measures the effect of one tenant on another: the time of a tenant's lookups alone, "
      "during a flood of\nthe other's lookups, and during a flood with a limit.");
  g_option_context_set_description (context, TPS_FLAGS_EXIT_STATUS);
  add_entries (context, o);
  tps_run_flags_add (context, &o->run, NULL);
  return tps_flags_parse (context, argc, argv, &given, error) && check (o, error);
}

void
tps_tenants_options_clear (TpsTenantsOptions *o)
{
  tps_run_flags_clear (&o->run);
}

GPtrArray *
tps_tenants_options_describe (const TpsTenantsOptions *o)
{
  GPtrArray *described = g_ptr_array_new_with_free_func (g_free);

  tps_flags_add_number (described, "ids", (gdouble) o->n_ids);
  tps_flags_add_number (described, "calls", (gdouble) o->n_calls);
  tps_flags_add_number (described, "clients", o->n_clients);
  tps_flags_add_number (described, "limit", (gdouble) o->limit);
  return described;
}
