/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/open_rounds.h"

#define MAX_NAMED_TRAINERS 100

gchar *
tps_missing_trainers_to_string (guint n_trainers, guint n_missing, TpsHasCome has_come,
                                gconstpointer round)
{
  GString *text = g_string_new (n_missing == 1 ? "trainer " : "trainers ");
  guint n_named = 0;

  for (guint i = 0; i < n_trainers && n_named < MAX_NAMED_TRAINERS; i++)
    if (!has_come (round, i))
      g_string_append_printf (text, n_named++ == 0 ? "%u" : ", %u", i);
  if (n_named < n_missing)
    g_string_append_printf (text, " and %u more", n_missing - n_named);
  return g_string_free (text, FALSE);
}

void
tps_open_round_list_missing (TpsOpenRound *open, guint n_trainers, TpsHasCome has_come,
                             gconstpointer round, guint *n_looks)
{
  guint n_max = MIN (n_trainers - open->n_arrived, TPS_OPEN_ROUND_MAX_MISSING);

  open->n_missing = 0;
  for (guint i = 0; i < n_trainers && open->n_missing<n_max && * n_looks> 0; i++)
    {
      (*n_looks)--;
      if (!has_come (round, i))
        open->missing[open->n_missing++] = (gint32) i;
    }
}

/* -- metrics of rounds -- */

static const TpsFamily open_rounds = TPS_FAMILY (
    GAUGE, "rounds_open",
    "Rounds for which trainers are missing, by server: averaging or updating.",
    .labels = { "server" });
static const TpsFamily waiting_calls = TPS_FAMILY (
    GAUGE, "rounds_waiting_calls",
    "Calls of trainers that take part in a round and have not been answered.",
    .labels = { "server" });
static const TpsFamily completed_rounds = TPS_FAMILY (
    COUNTER, "rounds_completed_total",
    "Rounds that ended with an average or an update of the model.", .labels = { "server" });

void
tps_round_numbers_init (TpsRoundNumbers *numbers, TpsMetrics *metrics, const gchar *server)
{
  TpsCounters *counters = tps_metrics_get_counters (metrics);

  *numbers = (TpsRoundNumbers) {
    .open = tps_counters_use_gauge (counters, &open_rounds, server, NULL),
    .waiting = tps_counters_use_gauge (counters, &waiting_calls, server, NULL),
    .completed = tps_counters_use_counter (counters, &completed_rounds, server, NULL),
  };
}
