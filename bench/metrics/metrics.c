/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The cost of metrics. Each row is the median of several rounds; each round checks its own sums. */

#include <stdlib.h>

#include "runtime/base/exposition.h"
#include "runtime/base/sync.h"

#define N_ROUNDS 15
#define N_OPERATIONS 4000000
#define N_SCRAPES 20
#define SMOKE_PART 400
#define HISTOGRAM_LINES 22 /* of one series with the default bounds */

static gint n_threads = 1;
static gint n_series = 10000;
static gboolean is_smoke;

static const GOptionEntry flags[] = {
  { "threads", 0, 0, G_OPTION_ARG_INT, &n_threads, "Threads that change the same numbers", "N" },
  { "series", 0, 0, G_OPTION_ARG_INT, &n_series, "Series of a scrape", "N" },
  { "smoke", 0, 0, G_OPTION_ARG_NONE, &is_smoke, "A small run", NULL },
  { NULL },
};

/* ---- operations ------------------------------------------------------------------------------ */

typedef struct
{
  TpsCounter *requests;
  TpsCounter *request_bytes;
  TpsCounter *reply_bytes;
  TpsHistogram *durations;
  guint64 n_recorded; /* the expected count of the histogram */
  guint n_operations; /* per thread */
} Numbers;

/* From 1 us to 1 s, through all buckets in turn: the worst case for caches. */
static gint64
choose_duration (guint i)
{
  return (gint64) 1000 << (i & 15) | (i & 1023);
}

static void
count (Numbers *numbers, guint i)
{
  tps_counter_add (numbers->requests, 1);
}

static void
record (Numbers *numbers, guint i)
{
  tps_histogram_record (numbers->durations, choose_duration (i));
}

static volatile gint64 last_ns;

static void
read_clock (Numbers *numbers, guint i)
{
  last_ns = tps_clock_now_ns ();
}

static void
count_call (Numbers *numbers, guint i)
{
  gint64 began_ns = last_ns;

  tps_counter_add (numbers->requests, 1);
  tps_counter_add (numbers->request_bytes, 100);
  tps_histogram_record (numbers->durations, tps_clock_now_ns () - began_ns);
  tps_counter_add (numbers->reply_bytes, 200);
}

static void
count_lookup (Numbers *numbers, guint i)
{
  gint64 elapsed_ns = tps_clock_now_ns () - last_ns;

  tps_counter_add (numbers->requests, 1);
  tps_counter_add (numbers->request_bytes, 10);
  tps_counter_add (numbers->reply_bytes, 200);
  tps_histogram_record (numbers->durations, elapsed_ns);
}

typedef struct
{
  const gchar *name;
  void (*run) (Numbers *numbers, guint i);
  gboolean counts;
  gboolean records;
} Operation;

static const Operation operations[] = {
  { "counter", count, TRUE, FALSE },
  { "histogram", record, FALSE, TRUE },
  { "clock", read_clock, FALSE, FALSE },
  { "call", count_call, TRUE, TRUE },
  { "lookup in a table", count_lookup, TRUE, TRUE },
};

/* ---- rounds ---------------------------------------------------------------------------------- */

static int
compare_doubles (const void *a, const void *b)
{
  gdouble left = *(const gdouble *) a;
  gdouble right = *(const gdouble *) b;

  return left < right ? -1 : left > right;
}

static gdouble
find_median (gdouble *values, guint n)
{
  qsort (values, n, sizeof *values, compare_doubles);
  return values[n / 2];
}

typedef struct
{
  const Operation *operation;
  Numbers *numbers;
} Work;

static void *
run_work (void *data)
{
  const Work *work = data;

  for (guint i = 0; i < work->numbers->n_operations; i++)
    work->operation->run (work->numbers, i);
  return NULL;
}

/* Returns nanoseconds per operation. */
static gdouble
run_round (const Operation *operation, Numbers *numbers)
{
  g_autofree TpsThread *threads = g_new (TpsThread, n_threads);
  Work work = { operation, numbers };
  gint64 start_ns = tps_clock_now_ns ();

  for (gint i = 0; i < n_threads; i++)
    tps_sync_check (pthread_create (&threads[i], NULL, run_work, &work));
  for (gint i = 0; i < n_threads; i++)
    tps_sync_check (pthread_join (threads[i], NULL));
  return (gdouble) (tps_clock_now_ns () - start_ns) / numbers->n_operations;
}

static void
print_row (const gchar *name, const gchar *unit, gdouble *values, guint64 n_wrong)
{
  gdouble median = find_median (values, N_ROUNDS);

  g_print ("%-20s %10.2f %10.2f %10.2f  %-4s %8" G_GUINT64_FORMAT "\n", name, median, values[0],
           values[N_ROUNDS - 1], unit, n_wrong);
}

/* Returns the number of wrong results. */
static guint64
measure_operation (const Operation *operation, Numbers *numbers)
{
  gdouble values[N_ROUNDS];
  guint64 n_wrong = 0;
  guint64 n_of_round = (guint64) n_threads * numbers->n_operations;

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      guint64 n_before = tps_counter_get (numbers->requests);

      last_ns = tps_clock_now_ns ();
      values[i] = run_round (operation, numbers);
      n_wrong += tps_counter_get (numbers->requests) - n_before
                 != (operation->counts ? n_of_round : 0);
      numbers->n_recorded += operation->records ? n_of_round : 0;
      n_wrong += tps_histogram_get_count (numbers->durations) != numbers->n_recorded;
    }
  print_row (operation->name, "ns", values, n_wrong);
  return n_wrong;
}

/* ---- scrapes --------------------------------------------------------------------------------- */

static const TpsFamily counts = {
  .name = "bench_total", .help = "Of the benchmark.", .labels = { "number" }, .max_series = 100000
};
static const TpsFamily durations = { .name = "bench_seconds",
                                     .help = "Of the benchmark.",
                                     .kind = TPS_FAMILY_HISTOGRAM,
                                     .labels = { "number" },
                                     .max_series = 100000 };

static void
fill (TpsCounters *counters)
{
  guint n_histograms = (guint) n_series / 5 / HISTOGRAM_LINES;
  guint n_counters = (guint) n_series - n_histograms * HISTOGRAM_LINES;
  gchar name[16];

  for (guint i = 0; i < n_counters; i++)
    {
      g_snprintf (name, sizeof name, "%u", i);
      tps_counter_add (tps_counters_use_counter (counters, &counts, name, NULL), i);
    }
  for (guint i = 0; i < n_histograms; i++)
    {
      TpsHistogram *histogram;

      g_snprintf (name, sizeof name, "%u", i);
      histogram = tps_counters_use_histogram (counters, &durations, name, NULL);
      for (guint j = 0; j < 1000; j++)
        tps_histogram_record (histogram, choose_duration (j));
    }
}

static guint64
measure_scrape (TpsCounters *counters, const gchar *name, TpsExpositionFormat format)
{
  gdouble values[N_ROUNDS];
  guint n_scrapes = is_smoke ? 1 : N_SCRAPES;
  gsize n_bytes = 0;
  guint64 n_wrong = 0;

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      gint64 start_ns = tps_clock_now_ns ();

      for (guint j = 0; j < n_scrapes; j++)
        {
          GString *body = tps_exposition_write (counters, format);

          n_wrong += n_bytes != 0 && body->len != n_bytes;
          n_bytes = body->len;
          g_string_free (body, TRUE);
        }
      values[i] = (gdouble) (tps_clock_now_ns () - start_ns) / 1000 / n_scrapes;
    }
  print_row (name, "us", values, n_wrong);
  return n_wrong;
}

static guint64
measure_scrapes (void)
{
  g_autoptr (TpsCounters) counters = tps_counters_new ();

  fill (counters);
  return measure_scrape (counters, "scrape text", TPS_EXPOSITION_TEXT)
         + measure_scrape (counters, "scrape openmetrics", TPS_EXPOSITION_OPENMETRICS)
         + measure_scrape (counters, "scrape protobuf", TPS_EXPOSITION_PROTOBUF);
}

/* ---- the program ----------------------------------------------------------------------------- */

static guint64
measure (void)
{
  g_autoptr (TpsCounters) counters = tps_counters_new ();
  Numbers numbers = {
    .requests = tps_counters_use_counter (counters, &counts, "requests", NULL),
    .request_bytes = tps_counters_use_counter (counters, &counts, "request bytes", NULL),
    .reply_bytes = tps_counters_use_counter (counters, &counts, "reply bytes", NULL),
    .durations = tps_counters_use_histogram (counters, &durations, "durations", NULL),
    .n_operations = is_smoke ? N_OPERATIONS / SMOKE_PART : N_OPERATIONS,
  };
  guint64 n_wrong = 0;

  g_print ("%-20s %10s %10s %10s  %-4s %8s\n", "operation", "median", "min", "max", "unit",
           "wrong");
  for (guint i = 0; i < G_N_ELEMENTS (operations); i++)
    n_wrong += measure_operation (&operations[i], &numbers);
  return n_wrong + measure_scrapes ();
}

gint
main (gint argc, gchar **argv)
{
  g_autoptr (GOptionContext) context = g_option_context_new ("- the cost of metrics");
  g_autoptr (GError) error = NULL;

  g_option_context_add_main_entries (context, flags, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || n_threads < 1 || n_series < 0)
    {
      g_printerr ("metrics: %s\n", error != NULL ? error->message : "a number is too small");
      return 2;
    }
  return measure () > 0 ? 1 : 0;
}
