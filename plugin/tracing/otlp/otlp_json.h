/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Spans as the body of an OTLP request in JSON: ExportTraceServiceRequest of opentelemetry-proto.
 *
 * A call is a span of kind SERVER, and each of its phases is a child of this span. Ids are in hex,
 * as OTLP requires in JSON, not in base64.
 *
 * Source: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
 */

#pragma once

#include "plugin/tracing/span_queue.h"

G_BEGIN_DECLS

/* The source of all spans; borrowed. */
typedef struct
{
  const gchar *service;  /* service.name */
  const gchar *version;  /* service.version */
  const gchar *instance; /* service.instance.id; NULL = left out */
} TpsOtlpResource;

/* Writes the body of one request, owned by the caller. `epoch_ns` is the time since 1970 at which
 * the monotonic clock of the spans was zero. */
GString *tps_otlp_json_write (const TpsOtlpResource *resource, const TpsSpan *spans, guint n_spans,
                              gint64 epoch_ns);

G_END_DECLS
