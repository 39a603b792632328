/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/call_metrics.h"

static const TpsFamily requests = TPS_FAMILY (
    COUNTER, "requests_total",
    "Requests that arrived, by method; those of unknown methods are counted as unknown.",
    .labels = { "method" });
static const TpsFamily failed = TPS_FAMILY (
    COUNTER, "requests_failed_total",
    "Requests that were refused or failed, by method and error code.",
    .labels = { "method", "code" });
static const TpsFamily cancelled = TPS_FAMILY (
    COUNTER, "requests_cancelled_total",
    "Requests that were cancelled before they began, because their connections closed.",
    .labels = { "method" });
static const TpsFamily in_flight = TPS_FAMILY (
    GAUGE, "requests_in_flight",
    "Requests that have arrived and have not been answered, including those that wait for "
    "other trainers.",
    .labels = { "method" });
static const TpsFamily durations = TPS_FAMILY (
    HISTOGRAM, "request_duration_seconds",
    "Time from the arrival of a request to its reply, including failed requests.",
    .labels = { "method" });
static const TpsFamily request_bytes = TPS_FAMILY (
    COUNTER, "request_bytes_total",
    "Bytes of arguments of requests; tensors in shared memory are not counted.",
    .labels = { "method" });
static const TpsFamily reply_bytes = TPS_FAMILY (
    COUNTER, "reply_bytes_total", "Bytes of replies; tensors in shared memory are not counted.",
    .labels = { "method" });

/* ---- creation and release -------------------------------------------------------------------- */

/* The numbers from which the in-flight calls of a method are computed. They outlive the
 * TpsMethodMetrics. */
typedef struct
{
  const TpsCounter *requests;
  const TpsHistogram *durations;
} InFlight;

/* The number of ended calls must be read first, so that it never exceeds the number of begun
 * calls. */
static gint64
read_in_flight (gpointer user_data)
{
  const InFlight *numbers = user_data;
  guint64 n_ended = tps_histogram_get_count (numbers->durations);

  return (gint64) (tps_counter_get (numbers->requests) - n_ended);
}

TpsMethodMetrics *
tps_method_metrics_new (TpsCounters *counters, const gchar *method)
{
  TpsMethodMetrics *metrics = g_new0 (TpsMethodMetrics, 1);
  InFlight *numbers = g_new (InFlight, 1);

  metrics->counters = counters;
  metrics->method = g_strdup (method);
  metrics->requests = tps_counters_use_counter (counters, &requests, method, NULL);
  metrics->cancelled = tps_counters_use_counter (counters, &cancelled, method, NULL);
  metrics->request_bytes = tps_counters_use_counter (counters, &request_bytes, method, NULL);
  metrics->reply_bytes = tps_counters_use_counter (counters, &reply_bytes, method, NULL);
  metrics->durations = tps_counters_use_histogram (counters, &durations, method, NULL);
  *numbers = (InFlight) { metrics->requests, metrics->durations };
  tps_counters_add_reader (counters, &in_flight, metrics->method, NULL, read_in_flight, numbers,
                           g_free);
  return metrics;
}

/* The series remain, because the counters of a method must not disappear while the process runs. */
void
tps_method_metrics_free (TpsMethodMetrics *metrics)
{
  if (metrics == NULL)
    return;
  g_free (metrics->method);
  g_free (metrics);
}

/* ---- calls ----------------------------------------------------------------------------------- */

void
tps_method_metrics_end (TpsMethodMetrics *metrics, gint64 elapsed_ns, TpsHistogram *others,
                        TpsWriter *reply)
{
  gsize n_bytes = 0;
  guint n_pieces;

  tps_histogram_record_twice (metrics->durations, others, elapsed_ns);
  if (reply != NULL)
    tps_writer_get_pieces (reply, &n_pieces, &n_bytes);
  tps_counter_add (metrics->reply_bytes, n_bytes);
}

/* Returns the counter of failures with this code. Threads that create it at the same time get the
 * same counter. */
static TpsCounter *
provide_failed (TpsMethodMetrics *metrics, gint code)
{
  TpsCounter *counter = g_atomic_pointer_get (&metrics->failed[code]);

  if (counter != NULL)
    return counter;
  counter = tps_counters_use_counter (metrics->counters, &failed, metrics->method,
                                      code > 0 ? tps_error_code_name (code + TPS_ERROR_WIRE_BASE)
                                               : "TApplicationException");
  g_atomic_pointer_set (&metrics->failed[code], counter);
  return counter;
}

void
tps_method_metrics_fail (TpsMethodMetrics *metrics, gint code)
{
  tps_counter_add (provide_failed (metrics, CLAMP (code, 0, TPS_METHOD_N_CODES - 1)), 1);
}
