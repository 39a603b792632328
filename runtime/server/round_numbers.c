/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/round_numbers.h"

static const TpsFamily open_rounds = {
  .name = "rounds_open",
  .help = "Rounds for which trainers are missing, by server: averaging or updating.",
  .kind = TPS_FAMILY_GAUGE,
  .labels = { "server" },
};

static const TpsFamily waiting_calls = {
  .name = "rounds_waiting_calls",
  .help = "Calls of trainers that take part in a round and have not been answered.",
  .kind = TPS_FAMILY_GAUGE,
  .labels = { "server" },
};

static const TpsFamily completed_rounds = {
  .name = "rounds_completed_total",
  .help = "Rounds that ended with an average or an update of the model.",
  .labels = { "server" },
};

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
