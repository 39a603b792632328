/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sends the spans of a tracer to a collector: OTLP over HTTP, as JSON, on a thread of its own.
 *
 * Spans leave in batches, one request at a time. A batch that the collector cannot take now (429,
 * 502, 503, 504, or no connection) is sent again, after Retry-After or a growing pause; after the
 * last attempt, and after any other refusal, it is dropped. Meanwhile the tracer's queue takes
 * spans until it is full. Calls never wait for the exporter.
 */

#pragma once

#include "plugin/tracing/otlp/otlp_json.h"
#include "plugin/tracing/tracer.h"
#include "runtime/base/counters.h"

G_BEGIN_DECLS

#define TPS_OTLP_PATH "/v1/traces"

typedef struct
{
  const gchar *endpoint;    /* "http://HOST:PORT", to which TPS_OTLP_PATH is added */
  TpsTracer *tracer;        /* has_exporter; borrowed, outlives the exporter */
  TpsOtlpResource resource; /* copied */
  TpsCounters *counters;    /* borrowed, outlives the exporter; NULL = none */
  guint interval_ms;        /* between looks for spans; 0 = 1 s */
  guint max_batch;          /* spans of a request; 0 = 256 */
  guint backoff_ms;         /* before the first repeat, doubled for each later one; 0 = 1 s */
  guint timeout_ms;         /* of a request; 0 = 10 s */
  guint flush_ms;           /* for the remaining spans when the exporter ends; 0 = 2 s */
} TpsOtlpOptions;

typedef struct TpsOtlpExporter TpsOtlpExporter;

/* Whether `text` is an endpoint: "http://" with a host, without a path or a user. */
gboolean tps_otlp_is_endpoint (const gchar *text);

/* Starts the thread. Counts spans in otlp_spans_sent_total and otlp_spans_dropped_total; the gauge
 * otlp_queue_spans ends with the exporter. Errors: INVALID_ARGUMENT (no endpoint). */
TpsOtlpExporter *tps_otlp_exporter_new (const TpsOtlpOptions *options, GError **error);

/* Sends the spans that are there, within flush_ms, and ends the thread. Spans that could not be
 * sent are dropped. */
void tps_otlp_exporter_free (TpsOtlpExporter *exporter);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsOtlpExporter, tps_otlp_exporter_free)

G_END_DECLS
