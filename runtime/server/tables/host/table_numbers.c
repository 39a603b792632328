/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/host/table_numbers.h"

/* The limit is lower than that of counters: a histogram is larger than a counter, and an exporter
 * writes it as about twenty lines. */
#define MAX_TIMED_TABLES 200

/* The metrics of the lookups in one table, or of the pushes to it. */
typedef struct
{
  TpsCounter *requests;
  TpsCounter *rows;
  TpsCounter *bytes;
  TpsHistogram *durations;
} Numbers;

struct TpsTableNumbers
{
  TpsCounters *counters;
  Numbers lookups;
  Numbers pushes;
  TpsGauge *bytes;
  TpsGauge *rows;
  gint64 n_bytes;
  gint64 n_rows;
};

typedef struct
{
  TpsFamily requests, rows, bytes, durations;
} Families;

static const Families of_lookups = {
  .requests = {
    .name = "table_lookups_total",
    .help = "Lookups in a table; one request may hold several.",
    .labels = { "table" },
  },
  .rows = {
    .name = "table_lookup_rows_total",
    .help = "Rows that lookups read, each as often as it was named.",
    .labels = { "table" },
  },
  .bytes = {
    .name = "table_lookup_bytes_total",
    .help = "Bytes of the vectors and rows that lookups returned.",
    .labels = { "table" },
  },
  .durations = {
    .name = "table_lookup_duration_seconds",
    .help = "Time from the arrival of a request to the end of its lookups, counted once for "
            "each lookup.",
    .kind = TPS_FAMILY_HISTOGRAM,
    .labels = { "table" },
    .max_series = MAX_TIMED_TABLES,
  },
};

static const Families of_pushes = {
  .requests = {
    .name = "table_pushes_total",
    .help = "Gradients and assignments that changed a table; one request may hold several.",
    .labels = { "table" },
  },
  .rows = {
    .name = "table_push_rows_total",
    .help = "Rows that pushes changed, each as often as it was named.",
    .labels = { "table" },
  },
  .bytes = {
    .name = "table_push_bytes_total",
    .help = "Bytes of the gradients and rows of pushes.",
    .labels = { "table" },
  },
  .durations = {
    .name = "table_push_duration_seconds",
    .help = "Time from the arrival of a request to the end of its pushes, counted once for "
            "each push.",
    .kind = TPS_FAMILY_HISTOGRAM,
    .labels = { "table" },
    .max_series = MAX_TIMED_TABLES,
  },
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

static void
use_numbers (Numbers *numbers, TpsCounters *counters, const Families *families, const gchar *table)
{
  numbers->requests = tps_counters_use_counter (counters, &families->requests, table, NULL);
  numbers->rows = tps_counters_use_counter (counters, &families->rows, table, NULL);
  numbers->bytes = tps_counters_use_counter (counters, &families->bytes, table, NULL);
  numbers->durations = tps_counters_use_histogram (counters, &families->durations, table, NULL);
}

static void
end_numbers (const Numbers *numbers, TpsCounters *counters)
{
  tps_counters_end_use (counters, numbers->requests);
  tps_counters_end_use (counters, numbers->rows);
  tps_counters_end_use (counters, numbers->bytes);
  tps_counters_end_use (counters, numbers->durations);
}

TpsTableNumbers *
tps_table_numbers_new (TpsCounters *counters, const TpsTableSpec *spec)
{
  TpsTableNumbers *numbers;

  if (counters == NULL)
    return NULL;
  numbers = g_new0 (TpsTableNumbers, 1);
  numbers->counters = tps_counters_ref (counters);
  use_numbers (&numbers->lookups, counters, &of_lookups, spec->name);
  use_numbers (&numbers->pushes, counters, &of_pushes, spec->name);
  numbers->bytes = tps_counters_use_gauge (counters, &bytes, spec->name, NULL);
  numbers->rows = tps_counters_use_gauge (counters, &rows, spec->name, NULL);
  numbers->n_bytes = spec->bytes;
  numbers->n_rows = spec->shard.n_rows;
  tps_gauge_add (numbers->bytes, numbers->n_bytes);
  tps_gauge_add (numbers->rows, numbers->n_rows);
  return numbers;
}

/* Gauges are changed by differences, because all tables beyond the limit of series share a
 * gauge. */
void
tps_table_numbers_free (TpsTableNumbers *numbers)
{
  if (numbers == NULL)
    return;
  tps_gauge_add (numbers->bytes, -numbers->n_bytes);
  tps_gauge_add (numbers->rows, -numbers->n_rows);
  end_numbers (&numbers->lookups, numbers->counters);
  end_numbers (&numbers->pushes, numbers->counters);
  tps_counters_end_use (numbers->counters, numbers->bytes);
  tps_counters_end_use (numbers->counters, numbers->rows);
  tps_counters_unref (numbers->counters);
  g_free (numbers);
}

static void
add_work (const Numbers *numbers, const TpsTableWork *work)
{
  tps_counter_add (numbers->requests, 1);
  tps_counter_add (numbers->rows, work->n_rows);
  tps_counter_add (numbers->bytes, work->n_bytes);
  if (work->duration_ns >= 0)
    tps_histogram_record (numbers->durations, work->duration_ns);
}

void
tps_table_numbers_add_lookup (TpsTableNumbers *numbers, const TpsTableWork *work)
{
  if (numbers != NULL)
    add_work (&numbers->lookups, work);
}

void
tps_table_numbers_add_push (TpsTableNumbers *numbers, const TpsTableWork *work)
{
  if (numbers != NULL)
    add_work (&numbers->pushes, work);
}
