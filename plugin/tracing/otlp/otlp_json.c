/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/tracing/otlp/otlp_json.h"

#include <string.h>

/* Numbers of the enums in opentelemetry/proto/trace/v1/trace.proto. */
#define KIND_INTERNAL 1
#define KIND_SERVER 2
#define STATUS_ERROR 2

/* Text of peers may be anything. */
static void
append_string (GString *out, const gchar *text)
{
  g_autofree gchar *valid = g_utf8_make_valid (text, -1);

  g_string_append_c (out, '"');
  for (const gchar *c = valid; *c != '\0'; c++)
    if (*c == '"' || *c == '\\')
      g_string_append_printf (out, "\\%c", *c);
    else if ((guchar) *c < 0x20)
      g_string_append_printf (out, "\\u%04x", (guint) (guchar) *c);
    else
      g_string_append_c (out, *c);
  g_string_append_c (out, '"');
}

/* The name of a member, after a comma where one is needed. */
static void
append_name (GString *out, const gchar *name)
{
  gchar last = out->str[out->len - 1];

  if (last != '{' && last != '[')
    g_string_append_c (out, ',');
  g_string_append_printf (out, "\"%s\":", name);
}

static void
append_member (GString *out, const gchar *name, const gchar *text)
{
  append_name (out, name);
  append_string (out, text);
}

static void
append_id (GString *out, const gchar *name, const guint8 *id, gsize n_bytes)
{
  gchar text[TPS_TRACE_ID_TEXT];

  tps_hex_format (id, n_bytes, text);
  append_member (out, name, text);
}

/* 64-bit numbers are strings in protobuf's JSON. */
static void
append_time (GString *out, const gchar *name, gint64 time_ns)
{
  append_name (out, name);
  g_string_append_printf (out, "\"%" G_GINT64_FORMAT "\"", time_ns);
}

/* Leaves out unknown facts. */
static void
append_attribute (GString *out, const gchar *key, const gchar *value)
{
  if (value == NULL || *value == '\0')
    return;
  if (out->str[out->len - 1] != '[')
    g_string_append_c (out, ',');
  g_string_append (out, "{");
  append_member (out, "key", key);
  append_name (out, "value");
  g_string_append (out, "{");
  append_member (out, "stringValue", value);
  g_string_append (out, "}}");
}

static void
begin_span (GString *out, const TpsSpan *span, const guint8 *id, const gchar *name, guint kind)
{
  if (out->str[out->len - 1] != '[')
    g_string_append_c (out, ',');
  g_string_append_c (out, '{');
  append_id (out, "traceId", span->context.trace_id, TPS_TRACE_ID_BYTES);
  append_id (out, "spanId", id, TPS_SPAN_ID_BYTES);
  append_member (out, "name", name);
  append_name (out, "kind");
  g_string_append_printf (out, "%u", kind);
  if (span->tracestate[0] != '\0')
    append_member (out, "traceState", span->tracestate);
}

static gboolean
has_parent (const TpsSpan *span)
{
  static const guint8 none[TPS_SPAN_ID_BYTES];

  return memcmp (span->context.parent_id, none, sizeof none) != 0;
}

/* "Service:method" as rpc.service and rpc.method; a name without a service is a method. */
static void
append_method (GString *out, const TpsSpan *span)
{
  const gchar *colon = strchr (span->method, ':');
  g_autofree gchar *service = colon != NULL
                                  ? g_strndup (span->method, (gsize) (colon - span->method))
                                  : NULL;

  append_attribute (out, "rpc.system", "apache_thrift");
  append_attribute (out, "rpc.service", service);
  append_attribute (out, "rpc.method", colon != NULL ? colon + 1 : span->method);
}

static void
append_call (GString *out, const TpsSpan *span, gint64 epoch_ns)
{
  gint64 began_ns = epoch_ns + span->phases.began_ns;

  begin_span (out, span, span->span_id, span->method, KIND_SERVER);
  if (has_parent (span))
    append_id (out, "parentSpanId", span->context.parent_id, TPS_SPAN_ID_BYTES);
  append_time (out, "startTimeUnixNano", began_ns);
  append_time (out, "endTimeUnixNano", began_ns + tps_phases_get_total_ns (&span->phases));
  append_name (out, "attributes");
  g_string_append (out, "[");
  append_method (out, span);
  append_attribute (out, "client.address", span->peer);
  append_attribute (out, "enduser.id", span->principal);
  append_attribute (out, "thriftps.table", span->table);
  append_attribute (out, "error.type", span->code);
  g_string_append (out, "]");
  if (span->code != NULL)
    {
      append_name (out, "status");
      g_string_append_printf (out, "{\"code\":%d}", STATUS_ERROR);
    }
  g_string_append (out, "}");
}

/* Ids of phases follow from that of their call. */
static void
append_phases (GString *out, const TpsSpan *span, gint64 epoch_ns)
{
  gint64 begin_ns = span->phases.began_ns;

  for (guint i = 0; i < span->phases.n; i++)
    {
      gint64 end_ns = span->phases.ended[i].end_ns;
      guint8 id[TPS_SPAN_ID_BYTES];

      memcpy (id, span->span_id, sizeof id);
      id[TPS_SPAN_ID_BYTES - 1] ^= (guint8) (i + 1);
      begin_span (out, span, id, tps_phase_name (span->phases.ended[i].phase), KIND_INTERNAL);
      append_id (out, "parentSpanId", span->span_id, TPS_SPAN_ID_BYTES);
      append_time (out, "startTimeUnixNano", epoch_ns + begin_ns);
      append_time (out, "endTimeUnixNano", epoch_ns + end_ns);
      g_string_append (out, "}");
      begin_ns = end_ns;
    }
}

void
tps_otlp_json_append (GString *out, const TpsOtlpResource *resource, const TpsSpan *spans,
                      guint n_spans, gint64 epoch_ns)
{
  g_string_append (out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
  append_attribute (out, "service.name", resource->service);
  append_attribute (out, "service.version", resource->version);
  append_attribute (out, "service.instance.id", resource->instance);
  g_string_append (out, "]},\"scopeSpans\":[{\"scope\":{");
  append_member (out, "name", "thriftps");
  append_member (out, "version", resource->version);
  g_string_append (out, "},\"spans\":[");
  for (guint i = 0; i < n_spans; i++)
    {
      append_call (out, &spans[i], epoch_ns);
      append_phases (out, &spans[i], epoch_ns);
    }
  g_string_append (out, "]}]}]}");
}
