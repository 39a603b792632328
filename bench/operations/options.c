/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/operations/options.h"

static gboolean
check (TpsOperationsOptions *o, GError **error)
{
  static const gchar *const none[] = { NULL };

  if (o->run.repeats == TPS_FLAGS_NOT_GIVEN)
    o->run.repeats = o->run.smoke ? 1 : 5;
  if (o->run.smoke)
    {
      o->n_calls = MIN (o->n_calls, 400);
      o->n_tables = MIN (o->n_tables, 20);
    }
  return tps_run_flags_finish (&o->run, none, error)
         && tps_flags_check_number ("calls", o->n_calls, 1, 100000000, error)
         && tps_flags_check_number ("clients", o->n_clients, 1, 500, error)
         && tps_flags_check_number ("tables", o->n_tables, 1, 10000, error)
         && tps_flags_check_number ("io-threads", o->n_io_threads, 1, 256, error)
         && tps_flags_check_number ("scrape-ms", o->scrape_ms, 1, 60000, error)
         && tps_flags_check_factor ("sampling", o->sampling, TRUE, error);
}

static void
add_entries (GOptionContext *context, TpsOperationsOptions *o)
{
  const GOptionEntry entries[] = {
    { "calls", 0, 0, G_OPTION_ARG_INT64, &o->n_calls,
      "lookups of one row in a round, over all connections (100000)", "N" },
    { "clients", 0, 0, G_OPTION_ARG_INT, &o->n_clients, "connections of the second row (8)", "N" },
    { "tables", 0, 0, G_OPTION_ARG_INT, &o->n_tables, "tables, each with its own series (400)",
      "N" },
    { "io-threads", 0, 0, G_OPTION_ARG_INT, &o->n_io_threads,
      "I/O threads of each server; with one, connections cannot be placed differently (1)", "N" },
    { "scrape-ms", 0, 0, G_OPTION_ARG_INT, &o->scrape_ms,
      "milliseconds between the starts of two scrapes (100)", "MS" },
    { "sampling", 0, 0, G_OPTION_ARG_DOUBLE, &o->sampling,
      "part of the calls whose spans are sent to a collector (0.01)", "PART" },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };

  g_option_context_add_main_entries (context, entries, NULL);
}

gboolean
tps_operations_options_parse (TpsOperationsOptions *o, gint argc, gchar **argv, GError **error)
{
  g_auto (GStrv) given = NULL;
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);

  *o = (TpsOperationsOptions) { .n_calls = 100000,
                                .n_clients = 8,
                                .n_tables = 400,
                                .n_io_threads = 1,
                                .scrape_ms = 100,
                                .sampling = 0.01 };
  g_option_context_set_summary (
      context, "Measures the cost of operations: small lookups on a server with its defaults, on "
               "one with\ntokens, rules, quotas, HTTP and traces, and on the latter while it is "
               "scraped.");
  g_option_context_set_description (context, TPS_FLAGS_EXIT_STATUS);
  add_entries (context, o);
  tps_run_flags_add (context, &o->run, NULL);
  return tps_flags_parse (context, argc, argv, &given, error) && check (o, error);
}

void
tps_operations_options_clear (TpsOperationsOptions *o)
{
  tps_run_flags_clear (&o->run);
}

GPtrArray *
tps_operations_options_describe (const TpsOperationsOptions *o)
{
  GPtrArray *described = g_ptr_array_new_with_free_func (g_free);

  tps_flags_add_number (described, "calls", (gdouble) o->n_calls);
  tps_flags_add_number (described, "clients", o->n_clients);
  tps_flags_add_number (described, "tables", o->n_tables);
  tps_flags_add_number (described, "io-threads", o->n_io_threads);
  tps_flags_add_number (described, "scrape-ms", o->scrape_ms);
  tps_flags_add_number (described, "sampling", o->sampling);
  return described;
}
