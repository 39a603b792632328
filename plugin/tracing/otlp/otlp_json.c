/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/tracing/otlp/otlp_json.h"

#include <string.h>

#include "runtime/base/json_writer.h"

/* Values of the enums in opentelemetry/proto/trace/v1/trace.proto. */
#define KIND_INTERNAL 1
#define KIND_SERVER 2
#define STATUS_ERROR 2

static void
add_id (TpsJsonWriter *json, const gchar *name, const guint8 *id, gsize n_bytes)
{
  gchar text[TPS_TRACE_ID_TEXT];

  tps_hex_format (id, n_bytes, text);
  tps_json_add_text (json, name, text);
}

/* 64-bit numbers are strings in protobuf's JSON. */
static void
add_time (TpsJsonWriter *json, const gchar *name, gint64 time_ns)
{
  gchar text[24];

  g_snprintf (text, sizeof text, "%" G_GINT64_FORMAT, time_ns);
  tps_json_add_text (json, name, text);
}

/* Adds an attribute, unless its value is unknown: NULL or empty. */
static void
add_attribute (TpsJsonWriter *json, const gchar *key, const gchar *value)
{
  if (value == NULL || *value == '\0')
    return;
  tps_json_open (json, NULL, '{');
  tps_json_add_text (json, "key", key);
  tps_json_open (json, "value", '{');
  tps_json_add_text (json, "stringValue", value);
  tps_json_close (json, '}');
  tps_json_close (json, '}');
}

static void
begin_span (TpsJsonWriter *json, const TpsSpan *span, const guint8 *id, const gchar *name,
            guint kind)
{
  tps_json_open (json, NULL, '{');
  add_id (json, "traceId", span->context.trace_id, TPS_TRACE_ID_BYTES);
  add_id (json, "spanId", id, TPS_SPAN_ID_BYTES);
  tps_json_add_text (json, "name", name);
  tps_json_add_uint (json, "kind", kind);
  if (span->tracestate[0] != '\0')
    tps_json_add_text (json, "traceState", span->tracestate);
}

static gboolean
has_parent (const TpsSpan *span)
{
  static const guint8 none[TPS_SPAN_ID_BYTES];

  return memcmp (span->context.parent_id, none, sizeof none) != 0;
}

/* Adds "Service:method" as rpc.service and rpc.method. A name without a colon is a method. */
static void
add_method (TpsJsonWriter *json, const TpsSpan *span)
{
  const gchar *colon = strchr (span->method, ':');
  g_autofree gchar *service = colon != NULL
                                  ? g_strndup (span->method, (gsize) (colon - span->method))
                                  : NULL;

  add_attribute (json, "rpc.system", "apache_thrift");
  add_attribute (json, "rpc.service", service);
  add_attribute (json, "rpc.method", colon != NULL ? colon + 1 : span->method);
}

static void
add_call (TpsJsonWriter *json, const TpsSpan *span, gint64 epoch_ns)
{
  gint64 began_ns = epoch_ns + span->phases.began_ns;

  begin_span (json, span, span->span_id, span->method, KIND_SERVER);
  if (has_parent (span))
    add_id (json, "parentSpanId", span->context.parent_id, TPS_SPAN_ID_BYTES);
  add_time (json, "startTimeUnixNano", began_ns);
  add_time (json, "endTimeUnixNano", began_ns + tps_phases_get_total_ns (&span->phases));
  tps_json_open (json, "attributes", '[');
  add_method (json, span);
  add_attribute (json, "client.address", span->peer);
  add_attribute (json, "enduser.id", span->principal);
  add_attribute (json, "thriftps.table", span->table);
  add_attribute (json, "error.type", span->code);
  tps_json_close (json, ']');
  if (span->code != NULL)
    {
      tps_json_open (json, "status", '{');
      tps_json_add_int (json, "code", STATUS_ERROR);
      tps_json_close (json, '}');
    }
  tps_json_close (json, '}');
}

/* Adds a child span for each phase. Its id is derived from the id of the call's span. */
static void
add_phases (TpsJsonWriter *json, const TpsSpan *span, gint64 epoch_ns)
{
  gint64 begin_ns = span->phases.began_ns;

  for (guint i = 0; i < span->phases.n; i++)
    {
      gint64 end_ns = span->phases.ended[i].end_ns;
      guint8 id[TPS_SPAN_ID_BYTES];

      memcpy (id, span->span_id, sizeof id);
      id[TPS_SPAN_ID_BYTES - 1] ^= (guint8) (i + 1);
      begin_span (json, span, id, tps_phase_name (span->phases.ended[i].phase), KIND_INTERNAL);
      add_id (json, "parentSpanId", span->span_id, TPS_SPAN_ID_BYTES);
      add_time (json, "startTimeUnixNano", epoch_ns + begin_ns);
      add_time (json, "endTimeUnixNano", epoch_ns + end_ns);
      tps_json_close (json, '}');
      begin_ns = end_ns;
    }
}

static void
add_resource (TpsJsonWriter *json, const TpsOtlpResource *resource)
{
  tps_json_open (json, "resource", '{');
  tps_json_open (json, "attributes", '[');
  add_attribute (json, "service.name", resource->service);
  add_attribute (json, "service.version", resource->version);
  add_attribute (json, "service.instance.id", resource->instance);
  tps_json_close (json, ']');
  tps_json_close (json, '}');
}

GString *
tps_otlp_json_write (const TpsOtlpResource *resource, const TpsSpan *spans, guint n_spans,
                     gint64 epoch_ns)
{
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  tps_json_open (&json, "resourceSpans", '[');
  tps_json_open (&json, NULL, '{');
  add_resource (&json, resource);
  tps_json_open (&json, "scopeSpans", '[');
  tps_json_open (&json, NULL, '{');
  tps_json_open (&json, "scope", '{');
  tps_json_add_text (&json, "name", "thriftps");
  tps_json_add_text (&json, "version", resource->version);
  tps_json_close (&json, '}');
  tps_json_open (&json, "spans", '[');
  for (guint i = 0; i < n_spans; i++)
    {
      add_call (&json, &spans[i], epoch_ns);
      add_phases (&json, &spans[i], epoch_ns);
    }
  for (const gchar *end = "]}]}]}"; *end != '\0'; end++)
    tps_json_close (&json, *end);
  return tps_json_writer_take (&json);
}
