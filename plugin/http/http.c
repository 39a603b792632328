/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The HTTP server. Listeners accept sockets and pass them to http_connections.c, which passes them
 * to libsoup. libsoup reports each request to http_request.c, which calls an endpoint. All this
 * happens on the HTTP thread. */

#include "plugin/http/http.h"

#include <errno.h>
#include <glib-unix.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/http/console/console_files.h"
#include "plugin/http/http_connections.h"
#include "plugin/http/http_request.h"
#include "plugin/http/reports.h"
#include "plugin/net/address.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/thread.h"
#include "runtime/base/trace.h"

/* -- http events -- */

/* Server-sent events: the streams of /events, and the timer that takes their samples. All streams
 * get the same samples. No samples are taken while there is no stream. Thread: the HTTP thread. */

typedef struct TpsEventStreams TpsEventStreams;

/* ---- samples -------------------------------------------------------------------------------- */

/* A sample is the difference between two readings of the server's counters. Series are matched by
 * their labels. A series that is missing in the earlier reading began at 0. */

#define MAX_LISTED 64

/* Buckets of latencies: two for each power of two, from 7.6 us to 128 s. All these bounds are also
 * bounds of TpsHistogram, so no bucket of it must be split. */
#define FIRST_HALF_OCTAVE (-34)
#define N_BOUNDS 49

#define LATENCY_FAMILY "request_duration_seconds"
#define N_COUNTS TPS_N_TABLE_COUNTS /* methods have fewer counts than tables */

/* A method or a table. */
typedef struct
{
  gchar *name;
  guint64 totals[N_COUNTS];          /* at the last sample */
  guint64 fresh[N_COUNTS];           /* between the last two samples */
  TpsHistogramCounts *latency;       /* at the last sample; NULL = none */
  TpsHistogramCounts *fresh_latency; /* between the last two samples; NULL = none */
} Subject;

typedef struct
{
  const TpsReports *reports;
  GHashTable *methods; /* of Subject, by name */
  GHashTable *tables;  /* of Subject, by name */
  guint64 n_received_bytes, n_sent_bytes;
  gint64 sampled_ns;
} Sampler;

static gdouble
get_bound_s (guint i)
{
  return exp2 (((gint) i + FIRST_HALF_OCTAVE) / 2.0);
}

static void
subject_free (gpointer data)
{
  Subject *subject = data;

  g_free (subject->name);
  g_free (subject->latency);
  g_free (subject->fresh_latency);
  g_free (subject);
}

static GHashTable *
new_subjects (void)
{
  return g_hash_table_new_full (g_str_hash, g_str_equal, NULL, subject_free);
}

/* Returns the data of the event "hello". The caller owns it. */
static GString *
sampler_greet (Sampler *sampler)
{
  const TpsReports *reports = sampler->reports;
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  tps_json_add_text (&json, "name", reports->plugin->name);
  tps_json_add_text (&json, "version", TPS_VERSION);
  tps_json_add_time (&json, "start_time_s", reports->started_us);
  tps_json_open (&json, "latency_bounds_us", '[');
  for (guint i = 0; i < N_BOUNDS; i++)
    tps_json_add_real (&json, NULL, get_bound_s (i) * 1e6, 1);
  tps_json_close (&json, ']');
  tps_json_close (&json, '}');
  return tps_json_writer_take (&json);
}

/* ---- reading -------------------------------------------------------------------------------- */

static Subject *
provide_subject (GHashTable *subjects, const gchar *name)
{
  Subject *subject = g_hash_table_lookup (subjects, name);

  if (subject != NULL)
    return subject;
  subject = g_new0 (Subject, 1);
  subject->name = g_strdup (name);
  g_hash_table_insert (subjects, subject->name, subject);
  return subject;
}

/* Adds up the series of each subject, whose name is the first label. */
static void
read_count (const TpsReading *reading, const TpsCountName *count, guint index, GHashTable *subjects)
{
  const TpsFamilyReading *family = tps_readings_find (reading, count->family);
  GHashTableIter iter;
  gpointer subject;

  g_hash_table_iter_init (&iter, subjects);
  while (g_hash_table_iter_next (&iter, NULL, &subject))
    ((Subject *) subject)->fresh[index] = 0;
  for (guint i = 0; family != NULL && i < family->samples->len; i++)
    {
      const TpsSample *sample = &g_array_index (family->samples, TpsSample, i);

      if (sample->values[0] != NULL)
        provide_subject (subjects, sample->values[0])->fresh[index] += (guint64) sample->number;
    }
  g_hash_table_iter_init (&iter, subjects);
  while (g_hash_table_iter_next (&iter, NULL, &subject))
    {
      Subject *each = subject;
      guint64 total = each->fresh[index];

      /* If the total has fallen, a series has ended and a new one of the same name has begun at
       * 0. */
      each->fresh[index] = total >= each->totals[index] ? total - each->totals[index] : total;
      each->totals[index] = total;
    }
}

static void
subtract (TpsHistogramCounts *counts, const TpsHistogramCounts *before)
{
  counts->count = 0;
  for (guint i = counts->first; i < counts->end; i++)
    {
      counts->buckets[i] -= MIN (before->buckets[i], counts->buckets[i]);
      counts->count += counts->buckets[i];
    }
}

static void
read_latency (const TpsReading *reading, GHashTable *methods)
{
  const TpsFamilyReading *family = tps_readings_find (reading, LATENCY_FAMILY);

  for (guint i = 0; family != NULL && i < family->samples->len; i++)
    {
      const TpsSample *sample = &g_array_index (family->samples, TpsSample, i);
      TpsHistogramCounts *total;
      Subject *method;

      if (sample->values[0] == NULL || sample->histogram == NULL)
        continue;
      method = provide_subject (methods, sample->values[0]);
      total = tps_histogram_counts_new ();
      tps_histogram_read (sample->histogram, total);
      g_free (method->fresh_latency);
      method->fresh_latency = g_memdup2 (total, sizeof *total);
      if (method->latency != NULL)
        subtract (method->fresh_latency, method->latency);
      g_free (method->latency);
      method->latency = total;
    }
}

static TpsReading *
read_all (Sampler *sampler)
{
  TpsMetrics *metrics = sampler->reports->plugin->metrics;
  TpsReading *reading = tps_counters_read (tps_metrics_get_counters (metrics));

  for (guint i = 0; i < TPS_N_METHOD_COUNTS; i++)
    read_count (reading, &tps_method_counts[i], i, sampler->methods);
  for (guint i = 0; i < TPS_N_TABLE_COUNTS; i++)
    read_count (reading, &tps_table_counts[i], i, sampler->tables);
  read_latency (reading, sampler->methods);
  return reading;
}

/* ---- writing -------------------------------------------------------------------------------- */

static gint
compare_traffic (gconstpointer a, gconstpointer b)
{
  const Subject *left = *(const Subject *const *) a;
  const Subject *right = *(const Subject *const *) b;
  /* For a method, the sum is the number of its calls: it has no count at TPS_COUNT_PUSHES. */
  guint64 of_left = left->fresh[TPS_COUNT_LOOKUPS] + left->fresh[TPS_COUNT_PUSHES];
  guint64 of_right = right->fresh[TPS_COUNT_LOOKUPS] + right->fresh[TPS_COUNT_PUSHES];

  if (of_left != of_right)
    return of_left > of_right ? -1 : 1;
  return g_strcmp0 (left->name, right->name);
}

static gboolean
has_traffic (const Subject *subject)
{
  for (guint i = 0; i < N_COUNTS; i++)
    if (subject->fresh[i] > 0)
      return TRUE;
  return FALSE;
}

static void
add_quantile (TpsJsonWriter *json, const gchar *name, const Subject *method, gdouble quantile)
{
  gboolean is_known = method->fresh_latency != NULL && method->fresh_latency->count > 0;

  tps_json_add_real (
      json, name,
      is_known ? tps_histogram_counts_get_quantile (method->fresh_latency, quantile) / 1e6 : NAN,
      4);
}

static void
add_subjects (TpsJsonWriter *json, const gchar *name, GHashTable *subjects,
              const TpsCountName *counts, guint n_counts, gboolean are_methods)
{
  g_autoptr (GPtrArray) sorted = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, subjects);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (has_traffic (value))
      g_ptr_array_add (sorted, value);
  g_ptr_array_sort (sorted, compare_traffic);
  tps_json_open (json, name, '[');
  for (guint i = 0; i < sorted->len && i < MAX_LISTED; i++)
    {
      const Subject *subject = sorted->pdata[i];

      tps_json_open (json, NULL, '{');
      tps_json_add_text (json, "name", subject->name);
      for (guint j = 0; j < n_counts; j++)
        tps_json_add_uint (json, counts[j].member, subject->fresh[j]);
      if (are_methods)
        {
          add_quantile (json, "p50_ms", subject, 0.5);
          add_quantile (json, "p99_ms", subject, 0.99);
        }
      tps_json_close (json, '}');
    }
  tps_json_close (json, ']');
}

static void
add_latency (TpsJsonWriter *json, GHashTable *methods)
{
  g_autofree TpsHistogramCounts *all = tps_histogram_counts_new ();
  gboolean is_timed = FALSE;
  guint64 n_below = 0;
  GHashTableIter iter;
  gpointer method;

  g_hash_table_iter_init (&iter, methods);
  while (g_hash_table_iter_next (&iter, NULL, &method))
    if (((Subject *) method)->fresh_latency != NULL)
      {
        tps_histogram_counts_merge (all, ((Subject *) method)->fresh_latency);
        is_timed = TRUE;
      }
  if (!is_timed)
    {
      tps_json_add_null (json, "latency");
      return;
    }
  tps_json_open (json, "latency", '[');
  for (guint i = 0; i < N_BOUNDS; i++)
    {
      guint64 n = tps_histogram_counts_get_below (all, get_bound_s (i));

      tps_json_add_uint (json, NULL, n - n_below);
      n_below = n;
    }
  tps_json_add_uint (json, NULL, all->count - n_below);
  tps_json_close (json, ']');
}

static void
add_totals (Sampler *sampler, TpsJsonWriter *json, const TpsReading *reading)
{
  guint64 n_received = tps_readings_sum (reading, "received_bytes_total");
  guint64 n_sent = tps_readings_sum (reading, "sent_bytes_total");
  guint64 fresh[TPS_N_METHOD_COUNTS] = { 0 };
  TpsServerStatus status = { 0 };
  GHashTableIter iter;
  gpointer method;

  g_hash_table_iter_init (&iter, sampler->methods);
  while (g_hash_table_iter_next (&iter, NULL, &method))
    for (guint i = 0; i < TPS_N_METHOD_COUNTS; i++)
      fresh[i] += ((Subject *) method)->fresh[i];
  if (sampler->reports->server != NULL)
    tps_server_get_status (sampler->reports->server, &status);
  tps_json_add_uint (json, "calls", fresh[TPS_COUNT_CALLS]);
  tps_json_add_uint (json, "failures", fresh[TPS_COUNT_FAILURES]);
  tps_json_add_uint (json, "received_bytes", n_received - sampler->n_received_bytes);
  tps_json_add_uint (json, "sent_bytes", n_sent - sampler->n_sent_bytes);
  tps_json_add_uint (json, "connections", status.n_connections);
  tps_json_add_uint (json, "in_flight", status.n_calls);
  sampler->n_received_bytes = n_received;
  sampler->n_sent_bytes = n_sent;
}

/* The sums of budgets with the same name, for example of several push windows. */
typedef struct
{
  GPtrArray *names; /* in the order of the tree */
  GHashTable *held; /* by name, owned by `names` */
} Budgets;

static void
note_budget (TpsBudget *budget, gpointer data)
{
  Budgets *budgets = data;
  const gchar *name = tps_reports_get_budget_name (budget);
  gsize held = tps_budget_get_held (budget);
  gpointer known, before;

  if (g_hash_table_lookup_extended (budgets->held, name, &known, &before))
    held += GPOINTER_TO_SIZE (before);
  else
    g_ptr_array_add (budgets->names, known = g_strdup (name));
  g_hash_table_insert (budgets->held, known, GSIZE_TO_POINTER (held));
}

static void
add_budgets (const TpsReports *reports, TpsJsonWriter *json)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GHashTable) held = g_hash_table_new (g_str_hash, g_str_equal);
  Budgets budgets = { names, held };

  tps_budget_visit (reports->plugin->budgets->process, note_budget, &budgets);
  tps_json_open (json, "budgets", '{');
  for (guint i = 0; i < names->len; i++)
    tps_json_add_uint (json, names->pdata[i],
                       GPOINTER_TO_SIZE (g_hash_table_lookup (held, names->pdata[i])));
  tps_json_close (json, '}');
}

static void
add_rounds (const TpsReports *reports, TpsJsonWriter *json)
{
  g_autofree TpsRoundsReport *report = tps_reports_get_rounds (reports);
  gint64 oldest_ns = report->model.has_round ? report->model.round.age_ns : 0;
  guint64 n_waiting = report->model.has_round ? report->model.round.n_arrived : 0;

  for (guint i = 0; i < report->averaging.n_listed; i++)
    {
      oldest_ns = MAX (oldest_ns, report->rounds[i].age_ns);
      n_waiting += report->rounds[i].n_arrived;
    }
  tps_json_open (json, "rounds", '{');
  tps_json_add_uint (json, "open", report->averaging.n_open + (report->model.has_round ? 1 : 0));
  tps_json_add_seconds (json, "oldest_s", oldest_ns);
  tps_json_add_uint (json, "waiting", n_waiting);
  tps_json_add_int (json, "version", report->model.version);
  tps_json_close (json, '}');
}

/* Returns the data of the event "sample", and begins the next interval. The caller owns the
 * data. */
static GString *
sampler_take (Sampler *sampler, gint64 now_ns)
{
  const TpsReports *reports = sampler->reports;
  TpsReading *reading = read_all (sampler);
  TpsWorkerLoad load;
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  tps_json_add_time (&json, "time_s", g_get_real_time ());
  tps_json_add_seconds (&json, "interval_s", now_ns - sampler->sampled_ns);
  tps_reports_add_state (reports, &json, "state");
  add_totals (sampler, &json, reading);
  add_latency (&json, sampler->methods);
  add_subjects (&json, "methods", sampler->methods, tps_method_counts, TPS_N_METHOD_COUNTS, TRUE);
  add_subjects (&json, "tables", sampler->tables, tps_table_counts, TPS_N_TABLE_COUNTS, FALSE);
  add_budgets (reports, &json);
  tps_worker_pool_get_load (reports->plugin->workers, &load);
  tps_json_open (&json, "workers", '{');
  tps_json_add_uint (&json, "running", load.n_running);
  tps_json_add_uint (&json, "queued", load.n_waiting);
  tps_json_close (&json, '}');
  add_rounds (reports, &json);
  tps_reports_add_durability (reports, &json, TRUE);
  tps_json_close (&json, '}');
  sampler->sampled_ns = now_ns;
  tps_reading_free (reading);
  return tps_json_writer_take (&json);
}

/* ---- streams -------------------------------------------------------------------------------- */

/* Streams of events. The message of a request for events remains open: each event is a piece of its
 * body, and libsoup pauses the message between events. If a client does not read, its stream is cut
 * as soon as more than MAX_WAITING_BYTES are waiting. */

#define MAX_WAITING_BYTES ((gsize) 64 << 10)

struct TpsEventStreams
{
  GMainContext *context;
  guint sample_ms;
  Sampler *sampler;
  GQueue list;    /* of Stream */
  GSource *timer; /* NULL while there is no stream */
  guint64 n_events;
};

typedef struct
{
  TpsEventStreams *all;
  GList link;
  SoupServerMessage *message; /* borrowed until its signal "finished" */
  TpsHttpConnection *connection;
  gsize n_waiting; /* bytes that have not been written to the socket */
} Stream;

/* ---- functions for one stream --------------------------------------------------------------- */

static void
send_event (Stream *stream, GBytes *event)
{
  stream->n_waiting += g_bytes_get_size (event);
  if (stream->n_waiting > MAX_WAITING_BYTES)
    {
      tps_http_connection_cut (stream->connection);
      return;
    }
  soup_message_body_append_bytes (soup_server_message_get_response_body (stream->message), event);
  soup_server_message_unpause (stream->message);
}

static void
on_written (SoupServerMessage *message, guint n_bytes, gpointer data)
{
  Stream *stream = data;

  stream->n_waiting -= MIN (n_bytes, stream->n_waiting);
}

static void
stop_timer (TpsEventStreams *streams)
{
  if (streams->timer == NULL)
    return;
  g_source_destroy (streams->timer);
  g_clear_pointer (&streams->timer, g_source_unref);
}

static void
on_finished (SoupServerMessage *message, gpointer data)
{
  Stream *stream = data;
  TpsEventStreams *all = stream->all;

  g_signal_handlers_disconnect_by_data (message, stream);
  g_queue_unlink (&all->list, &stream->link);
  if (all->list.length == 0)
    stop_timer (all);
  g_free (stream);
}

/* ---- timer of the samples ------------------------------------------------------------------- */

/* Creates an event with the lines of `head`. Takes ownership of `data`. */
static GBytes *
new_event (const gchar *head, GString *data)
{
  GString *text = g_string_new (head);

  g_string_append (text, "data: ");
  g_string_append_len (text, data->str, (gssize) data->len);
  g_string_append (text, "\n\n");
  g_string_free (data, TRUE);
  return g_string_free_to_bytes (text);
}

static gboolean
on_sample (gpointer data)
{
  TpsEventStreams *streams = data;
  g_autofree gchar *head = g_strdup_printf ("id: %" G_GUINT64_FORMAT "\nevent: sample\n",
                                            ++streams->n_events);
  g_autoptr (GBytes) event = new_event (head, sampler_take (streams->sampler, tps_clock_now_ns ()));

  for (GList *item = streams->list.head, *next; item != NULL; item = next)
    {
      next = item->next;
      send_event (item->data, event);
    }
  return G_SOURCE_CONTINUE;
}

/* ---- serving -------------------------------------------------------------------------------- */

static void
begin_stream (TpsEventStreams *streams, SoupServerMessage *message)
{
  Stream *stream = g_new0 (Stream, 1);
  g_autoptr (GBytes) hello = new_event ("event: hello\n", sampler_greet (streams->sampler));

  stream->all = streams;
  stream->link.data = stream;
  stream->message = message;
  stream->connection = tps_http_connection_of (message);
  stream->n_waiting = g_bytes_get_size (hello);
  g_queue_push_tail_link (&streams->list, &stream->link);
  g_signal_connect (message, "wrote-body-data", G_CALLBACK (on_written), stream);
  g_signal_connect (message, "finished", G_CALLBACK (on_finished), stream);
  soup_message_body_append_bytes (soup_server_message_get_response_body (message), hello);
  if (streams->timer == NULL)
    {
      Sampler *sampler = streams->sampler;
      TpsReading *reading = read_all (sampler);

      /* The first sample counts from now. */
      sampler->n_received_bytes = tps_readings_sum (reading, "received_bytes_total");
      sampler->n_sent_bytes = tps_readings_sum (reading, "sent_bytes_total");
      sampler->sampled_ns = tps_clock_now_ns ();
      tps_reading_free (reading);
      streams->timer = g_timeout_source_new (streams->sample_ms);
      g_source_set_callback (streams->timer, on_sample, streams, NULL);
      g_source_attach (streams->timer, streams->context);
    }
}

/* Responds with a stream, or with 503 if there are too many streams. The response to HEAD is
 * empty. */
static void
event_streams_serve (TpsEventStreams *streams, TpsHttpRequest *request)
{
  SoupServerMessage *message = tps_http_request_get_message (request);
  SoupMessageHeaders *headers = soup_server_message_get_response_headers (message);

  if (g_str_equal (soup_server_message_get_method (message), "HEAD"))
    {
      tps_http_request_reply (request, SOUP_STATUS_OK, "text/event-stream", g_string_new (NULL));
      return;
    }
  if (!tps_http_connection_become_stream (tps_http_connection_of (message)))
    {
      soup_message_headers_replace (headers, "Retry-After", "10");
      tps_http_request_fail (request, SOUP_STATUS_SERVICE_UNAVAILABLE, "too many event streams");
      return;
    }
  soup_message_headers_set_content_type (headers, "text/event-stream", NULL);
  soup_message_headers_set_encoding (headers, SOUP_ENCODING_EOF);
  soup_message_body_set_accumulate (soup_server_message_get_response_body (message), FALSE);
  soup_server_message_set_status (message, SOUP_STATUS_OK, NULL);
  tps_http_request_set_answered (request);
  begin_stream (streams, message);
}

/* ---- creation and release ------------------------------------------------------------------- */

/* If libsoup has not finished all streams, on_finished() will use this structure, so it must
 * leak. */
static void
event_streams_free (TpsEventStreams *streams)
{
  stop_timer (streams);
  if (streams->list.length > 0)
    return;
  g_hash_table_unref (streams->sampler->methods);
  g_hash_table_unref (streams->sampler->tables);
  g_free (streams->sampler);
  g_free (streams);
}

/* -- http -- */

#define MAX_HTTP_BYTES ((gsize) 64 << 20) /* of all connections and their replies */
#define MAX_ACCEPTS_PER_TURN 16
#define ACCEPT_PAUSE_MS 100              /* after accept() found no descriptors or memory */
#define END_NS ((gint64) 2 * 1000000000) /* for connections to end before the thread exits */

static TpsTraceEvent http_listening = TPS_TRACE_EVENT ("http_listening", TPS_TRACE_INFO);
static TpsTraceEvent http_accept_failed = TPS_TRACE_EVENT ("http_accept_failed", TPS_TRACE_ERROR);

typedef struct
{
  TpsHttp *http;
  gint fd;
  GSource *source;
} Listener;

struct TpsHttp
{
  TpsHttpOptions options;
  TpsReports reports;
  TpsBudget *budget;
  GArray *endpoints;    /* of TpsHttpEndpoint */
  GPtrArray *listeners; /* of Listener */
  GPtrArray *addresses; /* of gchar *, ended by NULL */
  GMainContext *context;
  TpsThread thread;
  gboolean has_thread;
  atomic_bool stops;

  /* Used only on the HTTP thread. */
  SoupServer *soup;
  TpsHttpConnections *connections;
  TpsEventStreams *streams;
  TpsHttpRules rules;
};

/* ---- accepting ------------------------------------------------------------------------------ */

static void watch (Listener *listener);

static gboolean
resume_accepting (gpointer data)
{
  watch (data);
  return G_SOURCE_REMOVE;
}

static void
set_source (Listener *listener, GSource *source, GSourceFunc func)
{
  if (listener->source != NULL)
    {
      g_source_destroy (listener->source);
      g_source_unref (listener->source);
    }
  listener->source = source;
  if (source == NULL)
    return;
  g_source_set_callback (source, func, listener, NULL);
  g_source_attach (source, listener->http->context);
}

static gboolean
on_connections (gint fd, GIOCondition condition, gpointer data)
{
  Listener *listener = data;

  for (guint i = 0; i < MAX_ACCEPTS_PER_TURN; i++)
    {
      gint accepted = accept4 (fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
      gint code = errno;

      if (accepted >= 0)
        {
          tps_http_connections_accept (listener->http->connections, accepted);
          continue;
        }
      if (code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM)
        {
          /* The connection stays in the backlog, so the socket stays readable. Without a pause, the
           * thread would retry accept() without end. */
          tps_trace (&http_accept_failed, tps_field_text ("reason", g_strerror (code)));
          set_source (listener, g_timeout_source_new (ACCEPT_PAUSE_MS), resume_accepting);
          return G_SOURCE_REMOVE;
        }
      if (code != EINTR && code != ECONNABORTED)
        break;
    }
  return G_SOURCE_CONTINUE;
}

static void
watch (Listener *listener)
{
  set_source (listener, g_unix_fd_source_new (listener->fd, G_IO_IN),
              G_SOURCE_FUNC (on_connections));
}

/* ---- thread --------------------------------------------------------------------------------- */

static void
on_request (SoupServer *soup, SoupServerMessage *message, const char *path, GHashTable *query,
            gpointer data)
{
  TpsHttp *http = data;

  tps_http_request_serve (&http->rules, message, path, query);
}

static void
begin_serving (TpsHttp *http)
{
  TpsHttpConnectionLimits limits = { .context = http->context,
                                     .budget = http->budget,
                                     .counters = tps_metrics_get_counters (
                                         http->options.plugin->metrics),
                                     .max_connections = http->options.max_connections,
                                     .max_streams = http->options.max_streams,
                                     .request_ms = http->options.request_ms,
                                     .answer_ms = http->options.answer_ms };

  http->soup = soup_server_new (NULL, NULL);
  limits.soup = http->soup;
  http->connections = tps_http_connections_new (&limits);
  http->reports.connections = http->connections;
  http->streams = g_new0 (TpsEventStreams, 1);
  http->streams->context = http->context;
  http->streams->sample_ms = http->options.sample_ms;
  http->streams->sampler = g_new0 (Sampler, 1);
  http->streams->sampler->reports = &http->reports;
  http->streams->sampler->methods = new_subjects ();
  http->streams->sampler->tables = new_subjects ();
  g_queue_init (&http->streams->list);
  soup_server_add_handler (http->soup, NULL, on_request, http, NULL);
  for (guint i = 0; i < http->listeners->len; i++)
    watch (http->listeners->pdata[i]);
}

static guint
count_connections (const TpsHttp *http)
{
  TpsHttpConnectionCounts counts;

  tps_http_connections_get_counts (http->connections, &counts);
  return counts.n_connections;
}

static void *
run (void *data)
{
  TpsHttp *http = data;
  gint64 deadline_ns;

  g_main_context_push_thread_default (http->context);
  begin_serving (http);
  while (!atomic_load (&http->stops))
    g_main_context_iteration (http->context, TRUE);
  /* All connections are cut, and the main loop runs until libsoup has released them, after their
   * sockets have been shut down. */
  deadline_ns = tps_clock_now_ns () + END_NS;
  for (guint i = 0; i < http->listeners->len; i++)
    set_source (http->listeners->pdata[i], NULL, NULL);
  tps_http_connections_cut_all (http->connections);
  while (count_connections (http) > 0 && tps_clock_now_ns () < deadline_ns)
    if (!g_main_context_iteration (http->context, FALSE))
      g_usleep (1000);
  soup_server_disconnect (http->soup);
  event_streams_free (http->streams);
  g_object_unref (http->soup);
  tps_http_connections_free (http->connections);
  g_main_context_pop_thread_default (http->context);
  return NULL;
}

/* ---- paths ---------------------------------------------------------------------------------- */

void
tps_http_add_endpoint (TpsHttp *http, const TpsHttpEndpoint *endpoint)
{
  for (guint i = 0; i < http->endpoints->len; i++)
    {
      TpsHttpEndpoint *known = &g_array_index (http->endpoints, TpsHttpEndpoint, i);

      if (g_str_equal (known->path, endpoint->path))
        {
          *known = *endpoint;
          return;
        }
    }
  g_array_append_val (http->endpoints, *endpoint);
}

static void
serve_file (TpsHttpRequest *request, gpointer data)
{
  const TpsConsoleFile *file = data;

  tps_http_request_reply_file (request, file->content_type, file->etag, file->bytes, file->n_bytes);
}

static gint
compare_paths (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

static void
list_paths (TpsHttpRequest *request, const TpsHttp *http)
{
  g_autoptr (GPtrArray) paths = g_ptr_array_new ();
  TpsJsonWriter json;

  for (guint i = 0; i < http->endpoints->len; i++)
    {
      const TpsHttpEndpoint *endpoint = &g_array_index (http->endpoints, TpsHttpEndpoint, i);

      if (!endpoint->is_unlisted)
        g_ptr_array_add (paths, (gpointer) (gsize) endpoint->path);
    }
  g_ptr_array_sort (paths, compare_paths);
  tps_http_json_begin (&json);
  tps_json_open (&json, "paths", '[');
  for (guint i = 0; i < paths->len; i++)
    tps_json_add_text (&json, NULL, paths->pdata[i]);
  tps_json_close (&json, ']');
  tps_http_request_reply_json (request, 200, &json);
}

static void
serve_root (TpsHttpRequest *request, gpointer data)
{
  const TpsHttp *http = data;
  const gchar *accept = tps_http_request_get_header (request, "Accept");

  if (accept != NULL && strstr (accept, "text/html") != NULL)
    serve_file (request, (gpointer) (gsize) tps_console_find_file ("/"));
  else
    list_paths (request, http);
}

static void
serve_events (TpsHttpRequest *request, gpointer data)
{
  event_streams_serve (((TpsHttp *) data)->streams, request);
}

/* The files of the console contain no data, so every peer may request them. They must be open,
 * because browsers send no token when they open a page. The page asks for a token if necessary. */
static void
add_own_endpoints (TpsHttp *http)
{
  const TpsHttpEndpoint own[] = {
    { "/", TPS_RIGHT_OPEN, TRUE, serve_root, http },
    { "/events", TPS_RIGHT_ADMIN, FALSE, serve_events, http },
  };
  gsize n_files;
  const TpsConsoleFile *files = tps_console_list_files (&n_files);

  for (guint i = 0; i < G_N_ELEMENTS (own); i++)
    tps_http_add_endpoint (http, &own[i]);
  for (const TpsHttpEndpoint *each = tps_reports_get_endpoints (); each->path != NULL; each++)
    {
      TpsHttpEndpoint endpoint = *each;

      endpoint.user_data = &http->reports;
      tps_http_add_endpoint (http, &endpoint);
    }
  for (gsize i = 0; i < n_files; i++)
    {
      const TpsHttpEndpoint endpoint = { files[i].path, TPS_RIGHT_OPEN, TRUE, serve_file,
                                         (gpointer) (gsize) &files[i] };

      if (!g_str_equal (files[i].path, "/"))
        tps_http_add_endpoint (http, &endpoint);
    }
}

/* ---- creation and release ------------------------------------------------------------------- */

TpsHttp *
tps_http_new (const TpsHttpOptions *options)
{
  TpsHttp *http = g_new0 (TpsHttp, 1);
  const struct
  {
    guint *field;
    guint initial;
  } numbers[] = {
    { &http->options.max_connections, 64 }, { &http->options.max_streams, 16 },
    { &http->options.request_ms, 10000 },   { &http->options.answer_ms, 30000 },
    { &http->options.sample_ms, 1000 },     { &http->options.stuck_ms, 10000 },
  };

  http->options = *options;
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (*numbers[i].field == 0)
      *numbers[i].field = numbers[i].initial;
  http->reports = (TpsReports) { .plugin = options->plugin,
                                 .server = options->server,
                                 .tracer = options->tracer,
                                 .started_us = g_get_real_time (),
                                 .stuck_ns = (gint64) http->options.stuck_ms * 1000000 };
  http->budget = tps_budget_new (options->plugin->budgets->process, "HTTP", MAX_HTTP_BYTES);
  http->endpoints = g_array_new (FALSE, FALSE, sizeof (TpsHttpEndpoint));
  http->listeners = g_ptr_array_new ();
  http->addresses = g_ptr_array_new_with_free_func (g_free);
  g_ptr_array_add (http->addresses, NULL);
  http->context = g_main_context_new ();
  add_own_endpoints (http);
  http->rules = (TpsHttpRules) { .endpoints = http->endpoints,
                                 .names = options->names,
                                 .access = options->access,
                                 .serves_others = options->serves_others };
  return http;
}

gboolean
tps_http_listen (TpsHttp *http, const gchar *text, GError **error)
{
  g_auto (TpsAddress) address = { NULL };
  g_autofree gchar *bound = NULL;
  Listener *listener;
  gint fd;

  if (!tps_address_parse (text, &address, error))
    return FALSE;
  if (address.path != NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "address \"%s\": expected HOST:PORT for HTTP", text);
  fd = tps_address_listen (&address, &bound, error);
  if (fd < 0)
    return FALSE;
  listener = g_new0 (Listener, 1);
  listener->http = http;
  listener->fd = fd;
  g_ptr_array_add (http->listeners, listener);
  g_ptr_array_insert (http->addresses, (gint) http->addresses->len - 1,
                      g_strconcat ("http://", bound, NULL));
  return TRUE;
}

const gchar *const *
tps_http_get_addresses (TpsHttp *http)
{
  return (const gchar *const *) http->addresses->pdata;
}

static gboolean
check_endpoints (const TpsHttp *http, GError **error)
{
  for (guint i = 0; i < http->endpoints->len; i++)
    {
      const TpsHttpEndpoint *endpoint = &g_array_index (http->endpoints, TpsHttpEndpoint, i);

      if (endpoint->right != TPS_RIGHT_UNSET)
        continue;
      return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "HTTP path %s declares no right",
                       endpoint->path);
    }
  return TRUE;
}

gboolean
tps_http_start (TpsHttp *http, GError **error)
{
  if (!check_endpoints (http, error))
    return FALSE;
  http->has_thread = tps_thread_start (&http->thread, "tps-http", run, http, error);
  if (!http->has_thread)
    return FALSE;
  for (const gchar *const *address = tps_http_get_addresses (http); *address != NULL; address++)
    tps_trace (&http_listening, tps_field_text ("address", *address));
  return TRUE;
}

static void
close_listener (gpointer data, gpointer unused)
{
  Listener *listener = data;

  close (listener->fd);
  g_free (listener);
}

void
tps_http_free (TpsHttp *http)
{
  if (http == NULL)
    return;
  if (http->has_thread)
    {
      atomic_store (&http->stops, TRUE);
      g_main_context_wakeup (http->context);
      tps_sync_check (pthread_join (http->thread, NULL));
    }
  g_ptr_array_foreach (http->listeners, close_listener, NULL);
  g_ptr_array_unref (http->listeners);
  g_ptr_array_unref (http->addresses);
  g_array_unref (http->endpoints);
  g_main_context_unref (http->context);
  tps_budget_unref (http->budget);
  g_free (http);
}
