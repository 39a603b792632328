/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sends the spans of a tracer to a collector: OTLP over HTTP, as JSON, on a thread of its own, in
 * batches, one request at a time. A batch that cannot be taken now (429, 502, 503, 504, or no
 * connection) is repeated, after Retry-After or a growing pause, and dropped after the last attempt
 * or any other refusal. Calls never wait for the exporter. */

#pragma once

#include "plugin/tracing/tracer.h"
#include "runtime/base/counters.h"

G_BEGIN_DECLS

#define TPS_OTLP_PATH "/v1/traces"

/* The source of all spans; borrowed. */
typedef struct
{
  const gchar *service;  /* service.name */
  const gchar *version;  /* service.version */
  const gchar *instance; /* service.instance.id; NULL = left out */
} TpsOtlpResource;

typedef struct
{
  const gchar *endpoint;    /* "http://HOST:PORT", to which TPS_OTLP_PATH is added */
  TpsTracer *tracer;        /* with has_exporter; borrowed, must outlive the exporter */
  TpsOtlpResource resource; /* copied */
  TpsCounters *counters;    /* borrowed, must outlive the exporter; NULL = none */
  guint interval_ms;        /* between checks for new spans; 0 = 1 s */
  guint max_batch;          /* spans of a request; 0 = 256 */
  guint backoff_ms;         /* before the first repeat, then doubled each time; 0 = 1 s */
  guint timeout_ms;         /* of a request; 0 = 10 s */
  guint flush_ms;           /* for the remaining spans when the exporter ends; 0 = 2 s */
} TpsOtlpOptions;

typedef struct TpsOtlpExporter TpsOtlpExporter;

/* Returns TRUE if `text` is an endpoint: "http://" with a host, without a user, a query, a
 * fragment, or a path other than "/". */
gboolean tps_otlp_is_endpoint (const gchar *text);

/* Creates an exporter, owned by the caller, and starts its thread. Spans are counted in
 * otlp_spans_sent_total and otlp_spans_dropped_total; the gauge otlp_queue_spans is removed with
 * the exporter. Requests use a thread of GLib, without which GLib ends the process. Errors:
 * INVALID_ARGUMENT (no valid endpoint), RESOURCE_EXHAUSTED (no thread). */
TpsOtlpExporter *tps_otlp_exporter_new (const TpsOtlpOptions *options, GError **error);
/* Sends the remaining spans, within flush_ms, ends the thread, and frees the exporter. Spans that
 * cannot be sent are dropped. */
void tps_otlp_exporter_free (TpsOtlpExporter *exporter);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsOtlpExporter, tps_otlp_exporter_free)

G_END_DECLS
