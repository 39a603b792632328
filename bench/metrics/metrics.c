/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The cost of metrics. Each run checks the sums of its metrics. */

#include "bench/engine/benchmark.h"
#include "runtime/base/error.h"
#include "runtime/base/exposition.h"
#include "runtime/base/sync.h"

#define NAME "metrics"
#define SYSTEM "thriftps"
#define N_OPERATIONS 4000000
#define N_SCRAPES 20
#define SMOKE_PART 400               /* --smoke runs one part in 400 */
#define HISTOGRAM_LINES 22           /* lines of one histogram with the default bounds */
#define USUAL_OPERATION_S 0.00000005 /* for the estimate: one operation */
#define USUAL_SERIES_S 0.00000015    /* for the estimate: one series of a scrape */

/* ---- operations ------------------------------------------------------------------------------ */

typedef struct
{
  TpsCounter *requests;
  TpsCounter *request_bytes;
  TpsCounter *reply_bytes;
  TpsHistogram *durations;
  guint64 n_recorded; /* the expected count of the histogram, over all runs */
  guint n_operations; /* operations of a thread */
} Numbers;

/* Returns durations from 1 us to 33 ms, each in another bucket: the worst case for caches. */
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

typedef struct
{
  TpsRunFlags run;
  gint n_threads;
  gint n_series;
} Options;

#define FIELD(name) G_STRUCT_OFFSET (Options, name)

static const TpsFlag flags[] = {
  { "threads", G_OPTION_ARG_INT, FIELD (n_threads), "threads that change the same numbers (1)", "N",
    1, 1, 1024 },
  { "series", G_OPTION_ARG_INT, FIELD (n_series), "series of a scrape (10000)", "N", 10000, 0,
    100000 },
  { NULL },
};

static const TpsCommandLine command_line = {
  NAME,
  "Measures the cost of metrics: counting a call, and writing a scrape. Has 15 rounds.",
  { { flags, 0 }, { tps_run_flags, FIELD (run) } },
};

typedef struct
{
  const gchar *name;
  TpsExpositionFormat format;
} Scrape;

static const Scrape scrapes[] = {
  { "scrape text", TPS_EXPOSITION_TEXT },
  { "scrape openmetrics", TPS_EXPOSITION_OPENMETRICS },
};

typedef struct
{
  Options options;
  TpsFigures *figures;
  TpsCounters *counters; /* the metrics of the operations */
  Numbers numbers;
  TpsCounters *series;                        /* the metrics of the scrapes */
  gsize n_body_bytes[G_N_ELEMENTS (scrapes)]; /* 0 = no scrape yet */
} Bench;

static const TpsQuantity nanoseconds = { "", "ns" }, microseconds = { "", "us" };

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

/* Returns the nanoseconds of one operation. All threads change the same metrics. */
static gdouble
time_round (const Operation *operation, Numbers *numbers, guint n_threads)
{
  g_autofree TpsThread *threads = g_new (TpsThread, n_threads);
  Work work = { operation, numbers };
  gint64 start_ns = tps_clock_now_ns ();

  for (guint i = 0; i < n_threads; i++)
    tps_sync_check (pthread_create (&threads[i], NULL, run_work, &work));
  for (guint i = 0; i < n_threads; i++)
    tps_sync_check (pthread_join (threads[i], NULL));
  return (gdouble) (tps_clock_now_ns () - start_ns) / numbers->n_operations;
}

static gboolean
refuse (const gchar *name, const gchar *what, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "%s: %s", name, what);
  return FALSE;
}

static gboolean
run_operation (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  Bench *bench = data;
  const Operation *operation = &operations[GPOINTER_TO_UINT (row)];
  Numbers *numbers = &bench->numbers;
  guint64 n_before = tps_counter_get (numbers->requests);
  guint64 n_of_round = (guint64) bench->options.n_threads * numbers->n_operations;
  gdouble ns;

  last_ns = tps_clock_now_ns ();
  ns = time_round (operation, numbers, (guint) bench->options.n_threads);
  if (tps_counter_get (numbers->requests) - n_before != (operation->counts ? n_of_round : 0))
    return refuse (operation->name, "the counter has lost additions", error);
  numbers->n_recorded += operation->records ? n_of_round : 0;
  if (tps_histogram_get_count (numbers->durations) != numbers->n_recorded)
    return refuse (operation->name, "the histogram has lost durations", error);
  if (!is_warm_up)
    tps_figures_add (bench->figures, SYSTEM, operation->name, &nanoseconds, ns);
  return TRUE;
}

static const TpsFamily counts = {
  .name = "bench_total", .help = "Of the benchmark.", .labels = { "number" }, .max_series = 100000
};
static const TpsFamily durations = { .name = "bench_seconds",
                                     .help = "Of the benchmark.",
                                     .kind = TPS_FAMILY_HISTOGRAM,
                                     .labels = { "number" },
                                     .max_series = 100000 };

/* Adds `n_series` series. One fifth of them are lines of histograms. */
static void
fill (TpsCounters *counters, guint n_series)
{
  guint n_histograms = n_series / 5 / HISTOGRAM_LINES;
  guint n_counters = n_series - n_histograms * HISTOGRAM_LINES;
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

static gboolean
run_scrape (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  Bench *bench = data;
  const Scrape *scrape = &scrapes[GPOINTER_TO_UINT (row)];
  gsize *n_bytes = &bench->n_body_bytes[GPOINTER_TO_UINT (row)];
  guint n_scrapes = bench->options.run.smoke ? 1 : N_SCRAPES;
  gint64 start_ns = tps_clock_now_ns ();

  for (guint i = 0; i < n_scrapes; i++)
    {
      g_autofree gchar *body = NULL;
      GString *text = tps_exposition_write (bench->series, scrape->format);
      gsize n_before = *n_bytes;

      *n_bytes = text->len;
      body = g_string_free (text, FALSE);
      if (n_before != 0 && n_before != *n_bytes)
        return refuse (scrape->name, "the bodies of the same metrics differ in their size", error);
    }
  if (!is_warm_up)
    tps_figures_add (bench->figures, SYSTEM, scrape->name, &microseconds,
                     (gdouble) (tps_clock_now_ns () - start_ns) / 1000 / n_scrapes);
  return TRUE;
}

/* ---- the program ----------------------------------------------------------------------------- */

static void
add_row (Bench *bench, TpsEngine *engine, const gchar *title, TpsTaskRun run, guint row,
         gdouble seconds)
{
  TpsTask task = {
    .run = run, .bench = bench, .row = GUINT_TO_POINTER (row), .measured_s = seconds
  };

  tps_engine_begin_row (engine);
  tps_engine_add (engine, &task, "%s", title);
}

static gboolean
prepare (gpointer user_data, TpsBenchRun *run, GError **error)
{
  Bench *bench = user_data;
  guint n_series = (guint) bench->options.n_series;
  guint n_operations = bench->options.run.smoke ? N_OPERATIONS / SMOKE_PART : N_OPERATIONS;

  bench->figures = run->figures;
  bench->counters = tps_counters_new ();
  bench->numbers = (Numbers) {
    .requests = tps_counters_use_counter (bench->counters, &counts, "requests", NULL),
    .request_bytes = tps_counters_use_counter (bench->counters, &counts, "request bytes", NULL),
    .reply_bytes = tps_counters_use_counter (bench->counters, &counts, "reply bytes", NULL),
    .durations = tps_counters_use_histogram (bench->counters, &durations, "durations", NULL),
    .n_operations = n_operations,
  };
  bench->series = tps_counters_new ();
  fill (bench->series, n_series);
  for (guint i = 0; i < G_N_ELEMENTS (operations); i++)
    add_row (bench, run->engine, operations[i].name, run_operation, i,
             n_operations * USUAL_OPERATION_S);
  for (guint i = 0; i < G_N_ELEMENTS (scrapes); i++)
    add_row (bench, run->engine, scrapes[i].name, run_scrape, i,
             n_series * N_SCRAPES * USUAL_SERIES_S);
  return TRUE;
}

static void
stop (gpointer user_data)
{
  Bench *bench = user_data;

  g_clear_pointer (&bench->counters, tps_counters_unref);
  g_clear_pointer (&bench->series, tps_counters_unref);
}

static gchar *
name_row (const gchar *system, const gchar *row)
{
  return g_strdup (row);
}

static const TpsFigureColumn columns[] = {
  { "p50", "", NULL, 50 },
  { "min", "", NULL, 0 },
  { "max", "", NULL, 100 },
  { NULL, NULL, NULL, 0 },
};

static const TpsFigureStyle style = {
  .name = name_row, .label = name_row, .columns = columns, .has_units = TRUE
};

gint
main (gint argc, gchar **argv)
{
  static const TpsBenchmark benchmark = {
    .command_line = &command_line, .prepare = prepare, .stop = stop, .style = &style
  };
  g_autoptr (GError) error = NULL;
  Bench bench = { 0 };
  TpsRunFlags *run = &bench.options.run;
  gint status;

  tps_benchmark_init ();
  if (!tps_command_line_parse (&command_line, &bench.options, argc, argv, NULL, &error))
    return tps_benchmark_refuse (NAME, error);
  tps_flags_default_number (&run->repeats, run->smoke ? 3 : 15);
  status = tps_benchmark_run (&benchmark, run, &bench);
  tps_command_line_clear (&command_line, &bench.options);
  return status;
}
