/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/tracing/otlp/otlp_exporter.h"

#include <libsoup/soup.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/json_writer.h"
#include "runtime/base/sync.h"
#include "runtime/base/thread.h"
#include "runtime/base/trace.h"

/* ---- the body of a request ------------------------------------------------------------------ */

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
  if (memcmp (span->context.parent_id, (const guint8[TPS_SPAN_ID_BYTES]) { 0 }, TPS_SPAN_ID_BYTES)
      != 0)
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

/* Writes the body of one request, owned by the caller. `epoch_ns` is the time since 1970 at
 * which the monotonic clock of the spans was zero. */
static GString *
write_body (const TpsOtlpResource *resource, const TpsSpan *spans, guint n_spans, gint64 epoch_ns)
{
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  tps_json_open (&json, "resourceSpans", '[');
  tps_json_open (&json, NULL, '{');
  tps_json_open (&json, "resource", '{');
  tps_json_open (&json, "attributes", '[');
  add_attribute (&json, "service.name", resource->service);
  add_attribute (&json, "service.version", resource->version);
  add_attribute (&json, "service.instance.id", resource->instance);
  tps_json_close (&json, ']');
  tps_json_close (&json, '}');
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

/* ---- exporter ------------------------------------------------------------------------------- */

/* All functions but new and free run on the exporter's thread, in its main context:
 *
 *   look() calls send_batch(). on_answer() receives the reply, and calls send_batch() again while
 *   there are spans.
 *
 *   If a request fails, on_repeat() sends the same body later. A body is sent at most MAX_ATTEMPTS
 *   times.
 *
 *   end_soon(), requested by free, sends the remaining spans without repeats, and quits the loop.
 */

#define DEFAULT_INTERVAL_MS 1000
#define DEFAULT_BATCH 256
#define DEFAULT_BACKOFF_MS 1000
#define MAX_BACKOFF_MS 30000
#define DEFAULT_TIMEOUT_MS 10000
#define DEFAULT_FLUSH_MS 2000
#define MAX_ATTEMPTS 5
#define STATUS_TOO_MANY_REQUESTS 429 /* libsoup 3.2 has no name for it */

static TpsTraceEvent otlp_failed = TPS_TRACE_EVENT ("otlp_failed", TPS_TRACE_WARNING);

struct TpsOtlpExporter
{
  TpsOtlpOptions options; /* the exporter owns copies of the texts */
  gchar *uri;
  GMainContext *context;
  GMainLoop *loop;
  TpsThread thread;
  SoupSession *session;
  TpsCounter *sent;
  TpsCounter *dropped;
  guint collector; /* of the length of the queue */

  TpsSpan *batch; /* [max_batch] */
  GBytes *body;   /* of the current request, or of the next attempt; NULL = none */
  guint n_spans;  /* in `body` */
  guint n_attempts;
  guint64 n_queue_dropped; /* spans that the tracer has dropped, as far as they are counted */
  SoupMessage *message;    /* the current request; NULL = none */
  GCancellable *cancellable;
  GSource *timeout; /* of `message`; NULL = none */
  GSource *repeat;  /* for the next attempt; NULL = none */
  gboolean is_ending;
  gboolean gives_up; /* sends no further request */
};

static void send_batch (TpsOtlpExporter *exporter);

/* Calls `func (exporter)` on the exporter's thread after `after_ms`. The caller owns the source. */
static GSource *
call_later (TpsOtlpExporter *exporter, guint after_ms, GSourceFunc func)
{
  GSource *source = g_timeout_source_new (after_ms);

  g_source_set_callback (source, func, exporter, NULL);
  g_source_attach (source, exporter->context);
  return source;
}

static void
clear_source (GSource **source)
{
  if (*source == NULL)
    return;
  g_source_destroy (*source);
  g_clear_pointer (source, g_source_unref);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* Counts spans that were dropped because the queue of the tracer was full. */
static void
count_queue_drops (TpsOtlpExporter *exporter)
{
  guint64 n = tps_tracer_get_n_dropped (exporter->options.tracer);

  tps_counter_add (exporter->dropped, n - exporter->n_queue_dropped);
  exporter->n_queue_dropped = n;
}

/* Writes the next body. Returns FALSE if there are no spans. */
static gboolean
take_batch (TpsOtlpExporter *exporter)
{
  guint n = 0;

  while (n < exporter->options.max_batch
         && tps_tracer_take (exporter->options.tracer, &exporter->batch[n]))
    n++;
  count_queue_drops (exporter);
  if (n == 0)
    return FALSE;
  exporter->body = g_string_free_to_bytes (
      write_body (&exporter->options.resource, exporter->batch, n,
                  g_get_real_time () * 1000 - tps_clock_now_ns ()));
  exporter->n_spans = n;
  exporter->n_attempts = 0;
  return TRUE;
}

static void
end_batch (TpsOtlpExporter *exporter, TpsCounter *counter)
{
  tps_counter_add (counter, exporter->n_spans);
  g_clear_pointer (&exporter->body, g_bytes_unref);
}

static void
quit_or_go_on (TpsOtlpExporter *exporter)
{
  if (exporter->body == NULL && !exporter->gives_up && take_batch (exporter))
    send_batch (exporter);
  else if (exporter->is_ending)
    g_main_loop_quit (exporter->loop);
}

/* ---- answers --------------------------------------------------------------------------------- */

static gboolean
may_repeat (guint status)
{
  return status == SOUP_STATUS_NONE || status == STATUS_TOO_MANY_REQUESTS
         || status == SOUP_STATUS_BAD_GATEWAY || status == SOUP_STATUS_SERVICE_UNAVAILABLE
         || status == SOUP_STATUS_GATEWAY_TIMEOUT;
}

/* Returns the pause before the next attempt: the pause that the collector requests, in seconds, or
 * a pause that doubles with each attempt. */
static guint
find_pause_ms (const TpsOtlpExporter *exporter, SoupMessage *message)
{
  SoupMessageHeaders *headers = soup_message_get_response_headers (message);
  const gchar *text = headers != NULL ? soup_message_headers_get_one (headers, "Retry-After")
                                      : NULL;
  guint64 pause_s;

  if (text != NULL
      && g_ascii_string_to_unsigned (text, 10, 0, MAX_BACKOFF_MS / 1000, &pause_s, NULL))
    return (guint) pause_s * 1000;
  return MIN (exporter->options.backoff_ms << (exporter->n_attempts - 1), MAX_BACKOFF_MS);
}

static gboolean
on_repeat (gpointer data)
{
  TpsOtlpExporter *exporter = data;

  clear_source (&exporter->repeat);
  send_batch (exporter);
  return G_SOURCE_REMOVE;
}

static void
on_answer (GObject *session, GAsyncResult *result, gpointer data)
{
  TpsOtlpExporter *exporter = data;
  g_autoptr (SoupMessage) message = g_steal_pointer (&exporter->message);
  g_autoptr (GError) error = NULL;
  g_autoptr (GInputStream)
      answer = soup_session_send_finish (SOUP_SESSION (session), result, &error);
  guint status = error == NULL ? soup_message_get_status (message) : SOUP_STATUS_NONE;

  clear_source (&exporter->timeout);
  g_clear_object (&exporter->cancellable);
  if (SOUP_STATUS_IS_SUCCESSFUL (status))
    end_batch (exporter, exporter->sent);
  else
    {
      gboolean repeats = may_repeat (status) && exporter->n_attempts < MAX_ATTEMPTS
                         && !exporter->is_ending;

      tps_trace (&otlp_failed, tps_field_text ("endpoint", exporter->uri),
                 tps_field_uint ("status", status),
                 tps_field_text ("reason", error != NULL ? error->message : NULL),
                 tps_field_uint ("spans", exporter->n_spans), tps_field_bool ("repeats", repeats));
      if (repeats)
        exporter->repeat = call_later (exporter, find_pause_ms (exporter, message), on_repeat);
      else
        end_batch (exporter, exporter->dropped);
    }
  if (exporter->repeat == NULL)
    quit_or_go_on (exporter);
}

/* ---- requests -------------------------------------------------------------------------------- */

static gboolean
on_timeout (gpointer data)
{
  TpsOtlpExporter *exporter = data;

  g_cancellable_cancel (exporter->cancellable);
  return G_SOURCE_REMOVE;
}

static void
send_batch (TpsOtlpExporter *exporter)
{
  exporter->n_attempts++;
  exporter->message = soup_message_new (SOUP_METHOD_POST, exporter->uri);
  soup_message_set_request_body_from_bytes (exporter->message, "application/json", exporter->body);
  exporter->cancellable = g_cancellable_new ();
  exporter->timeout = call_later (exporter, exporter->options.timeout_ms, on_timeout);
  soup_session_send_async (exporter->session, exporter->message, G_PRIORITY_DEFAULT,
                           exporter->cancellable, on_answer, exporter);
}

static gboolean
look (gpointer data)
{
  TpsOtlpExporter *exporter = data;

  if (exporter->body == NULL)
    quit_or_go_on (exporter);
  else
    count_queue_drops (exporter);
  return G_SOURCE_CONTINUE;
}

static gboolean
give_up (gpointer data)
{
  TpsOtlpExporter *exporter = data;

  exporter->gives_up = TRUE;
  g_main_loop_quit (exporter->loop);
  return G_SOURCE_REMOVE;
}

/* Begins the end. A batch that waits for its next attempt is sent at once. */
static gboolean
end_soon (gpointer data)
{
  TpsOtlpExporter *exporter = data;

  exporter->is_ending = TRUE;
  if (exporter->repeat != NULL)
    on_repeat (exporter);
  else if (exporter->message == NULL)
    quit_or_go_on (exporter);
  return G_SOURCE_REMOVE;
}

/* ---- thread ---------------------------------------------------------------------------------- */

static gpointer
run (gpointer data)
{
  TpsOtlpExporter *exporter = data;
  GSource *looks;

  g_main_context_push_thread_default (exporter->context);
  /* No proxy resolver: GIO would search the settings of a desktop for proxies. */
  exporter->session = soup_session_new_with_options ("user-agent", "thriftps", "proxy-resolver",
                                                     NULL, NULL);
  looks = call_later (exporter, exporter->options.interval_ms, look);
  g_main_loop_run (exporter->loop);
  clear_source (&looks);
  clear_source (&exporter->repeat);
  /* Drops all remaining spans. If the loop was quit during a request, the request is cancelled, and
   * its callback must be called before the exporter is freed. */
  if (exporter->message != NULL)
    g_cancellable_cancel (exporter->cancellable);
  while (exporter->message != NULL)
    g_main_context_iteration (exporter->context, TRUE);
  if (exporter->body != NULL)
    end_batch (exporter, exporter->dropped);
  while (take_batch (exporter))
    end_batch (exporter, exporter->dropped);
  g_clear_object (&exporter->session);
  g_main_context_pop_thread_default (exporter->context);
  return NULL;
}

gboolean
tps_otlp_is_endpoint (const gchar *text)
{
  g_autoptr (GUri) uri = g_uri_parse (text, G_URI_FLAGS_NONE, NULL);
  const gchar *path = uri != NULL ? g_uri_get_path (uri) : NULL;

  return uri != NULL && strcmp (g_uri_get_scheme (uri), "http") == 0 && g_uri_get_host (uri) != NULL
         && *g_uri_get_host (uri) != '\0' && g_uri_get_userinfo (uri) == NULL
         && g_uri_get_query (uri) == NULL && g_uri_get_fragment (uri) == NULL
         && (*path == '\0' || strcmp (path, "/") == 0);
}

static const TpsFamily sent_spans = TPS_FAMILY (COUNTER, "otlp_spans_sent_total",
                                                "Spans that the collector accepted.");
static const TpsFamily dropped_spans = TPS_FAMILY (
    COUNTER, "otlp_spans_dropped_total",
    "Spans for which there was no room, or that the collector did not accept.");
static const TpsFamily queued_spans = TPS_FAMILY (
    GAUGE, "otlp_queue_spans",
    "Spans that wait for the exporter, not counting those of its current request.");

static void
collect_queue (TpsReading *reading, gpointer tracer)
{
  tps_reading_add (reading, &queued_spans, NULL, NULL, tps_tracer_get_n_waiting (tracer));
}

/* Frees the exporter, whose thread must have ended. */
static void
release (TpsOtlpExporter *exporter)
{
  tps_counters_remove_collector (exporter->options.counters, exporter->collector);
  g_main_loop_unref (exporter->loop);
  g_main_context_unref (exporter->context);
  g_free ((gchar *) (gsize) exporter->options.resource.service);
  g_free ((gchar *) (gsize) exporter->options.resource.version);
  g_free ((gchar *) (gsize) exporter->options.resource.instance);
  g_free (exporter->batch);
  g_free (exporter->uri);
  g_free (exporter);
}

TpsOtlpExporter *
tps_otlp_exporter_new (const TpsOtlpOptions *options, GError **error)
{
  TpsOtlpExporter *exporter;

  if (!tps_otlp_is_endpoint (options->endpoint))
    return tps_fail_null (error, TPS_ERROR_INVALID_ARGUMENT,
                          "OTLP endpoint \"%s\": expected http://HOST:PORT", options->endpoint);
  exporter = g_new0 (TpsOtlpExporter, 1);
  exporter->options = *options;
  if (exporter->options.interval_ms == 0)
    exporter->options.interval_ms = DEFAULT_INTERVAL_MS;
  if (exporter->options.max_batch == 0)
    exporter->options.max_batch = DEFAULT_BATCH;
  if (exporter->options.backoff_ms == 0)
    exporter->options.backoff_ms = DEFAULT_BACKOFF_MS;
  if (exporter->options.timeout_ms == 0)
    exporter->options.timeout_ms = DEFAULT_TIMEOUT_MS;
  if (exporter->options.flush_ms == 0)
    exporter->options.flush_ms = DEFAULT_FLUSH_MS;
  exporter->options.resource.service = g_strdup (options->resource.service);
  exporter->options.resource.version = g_strdup (options->resource.version);
  exporter->options.resource.instance = g_strdup (options->resource.instance);
  exporter->uri = g_strconcat (options->endpoint,
                               TPS_OTLP_PATH + g_str_has_suffix (options->endpoint, "/"), NULL);
  exporter->batch = g_new (TpsSpan, exporter->options.max_batch);
  exporter->sent = tps_counters_use_counter (options->counters, &sent_spans, NULL, NULL);
  exporter->dropped = tps_counters_use_counter (options->counters, &dropped_spans, NULL, NULL);
  exporter->collector = tps_counters_add_collector (options->counters, collect_queue,
                                                    options->tracer);
  exporter->context = g_main_context_new ();
  exporter->loop = g_main_loop_new (exporter->context, FALSE);
  if (tps_thread_start (&exporter->thread, "tps-otlp", run, exporter, error))
    return exporter;
  release (exporter);
  return NULL;
}

void
tps_otlp_exporter_free (TpsOtlpExporter *exporter)
{
  GSource *end, *deadline;

  if (exporter == NULL)
    return;
  /* g_main_loop_quit() must be called from the loop, because it would have no effect if the loop
   * does not run yet. */
  end = call_later (exporter, 0, end_soon);
  deadline = call_later (exporter, exporter->options.flush_ms, give_up);
  tps_sync_check (pthread_join (exporter->thread, NULL));
  clear_source (&end);
  clear_source (&deadline);
  release (exporter);
}
