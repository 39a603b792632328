/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/host/table_numbers.h"

struct TpsTableNumbers
{
  TpsCounters *counters;
  TpsCounter *lookups;
  TpsCounter *looked_up_rows;
  TpsCounter *pushes;
  TpsCounter *pushed_rows;
  TpsGauge *bytes;
  TpsGauge *rows;
  gint64 n_bytes;
  gint64 n_rows;
};

static const TpsFamily lookups = {
  .name = "table_lookups_total",
  .help = "Lookups in a table; one request may hold several.",
  .labels = { "table" },
};

static const TpsFamily looked_up_rows = {
  .name = "table_lookup_rows_total",
  .help = "Rows that lookups read, each as often as it was named.",
  .labels = { "table" },
};

static const TpsFamily pushes = {
  .name = "table_pushes_total",
  .help = "Gradients and assignments that changed a table; one request may hold several.",
  .labels = { "table" },
};

static const TpsFamily pushed_rows = {
  .name = "table_push_rows_total",
  .help = "Rows that pushes changed, each as often as it was named.",
  .labels = { "table" },
};

static const TpsFamily bytes = {
  .name = "table_bytes",
  .help = "Memory of a table: rows, optimizer state and bookkeeping.",
  .kind = TPS_FAMILY_GAUGE,
  .labels = { "table" },
};

static const TpsFamily rows = {
  .name = "table_rows",
  .help = "Rows of a table that this server holds.",
  .kind = TPS_FAMILY_GAUGE,
  .labels = { "table" },
};

TpsTableNumbers *
tps_table_numbers_new (TpsCounters *counters, const TpsTableSpec *spec)
{
  TpsTableNumbers *numbers;

  if (counters == NULL)
    return NULL;
  numbers = g_new0 (TpsTableNumbers, 1);
  numbers->counters = tps_counters_ref (counters);
  numbers->lookups = tps_counters_use_counter (counters, &lookups, spec->name, NULL);
  numbers->looked_up_rows = tps_counters_use_counter (counters, &looked_up_rows, spec->name, NULL);
  numbers->pushes = tps_counters_use_counter (counters, &pushes, spec->name, NULL);
  numbers->pushed_rows = tps_counters_use_counter (counters, &pushed_rows, spec->name, NULL);
  numbers->bytes = tps_counters_use_gauge (counters, &bytes, spec->name, NULL);
  numbers->rows = tps_counters_use_gauge (counters, &rows, spec->name, NULL);
  numbers->n_bytes = spec->bytes;
  numbers->n_rows = spec->shard.rows;
  tps_gauge_add (numbers->bytes, numbers->n_bytes);
  tps_gauge_add (numbers->rows, numbers->n_rows);
  return numbers;
}

/* Gauges are changed by differences, since tables beyond the bound of series share one. */
void
tps_table_numbers_free (TpsTableNumbers *numbers)
{
  if (numbers == NULL)
    return;
  tps_gauge_add (numbers->bytes, -numbers->n_bytes);
  tps_gauge_add (numbers->rows, -numbers->n_rows);
  tps_counters_end_use (numbers->counters, numbers->lookups);
  tps_counters_end_use (numbers->counters, numbers->looked_up_rows);
  tps_counters_end_use (numbers->counters, numbers->pushes);
  tps_counters_end_use (numbers->counters, numbers->pushed_rows);
  tps_counters_end_use (numbers->counters, numbers->bytes);
  tps_counters_end_use (numbers->counters, numbers->rows);
  tps_counters_unref (numbers->counters);
  g_free (numbers);
}

void
tps_table_numbers_add_lookup (TpsTableNumbers *numbers, gsize n_rows)
{
  if (numbers == NULL)
    return;
  tps_counter_add (numbers->lookups, 1);
  tps_counter_add (numbers->looked_up_rows, n_rows);
}

void
tps_table_numbers_add_push (TpsTableNumbers *numbers, gsize n_rows)
{
  if (numbers == NULL)
    return;
  tps_counter_add (numbers->pushes, 1);
  tps_counter_add (numbers->pushed_rows, n_rows);
}
