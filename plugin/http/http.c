/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The HTTP server. Listeners accept sockets and pass them to http_connections.c, which passes them
 * to libsoup. libsoup reports each request to http_request.c, which calls an endpoint. All this
 * happens on the HTTP thread. */

#include "plugin/http/http.h"

#include <errno.h>
#include <glib-unix.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/http/console/console_files.h"
#include "plugin/http/http_events.h"
#include "plugin/http/http_connections.h"
#include "plugin/http/http_request.h"
#include "plugin/http/reports.h"
#include "plugin/net/address.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/thread.h"
#include "runtime/base/trace.h"

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

/* The connection stays in the backlog, so the socket stays readable. Without a pause, the thread
 * would retry accept() without end. */
static void
pause_accepting (Listener *listener, gint code)
{
  tps_trace (&http_accept_failed, tps_field_text ("reason", g_strerror (code)));
  set_source (listener, g_timeout_source_new (ACCEPT_PAUSE_MS), resume_accepting);
}

static gboolean
is_lack (gint code)
{
  return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM;
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
      if (is_lack (code))
        {
          pause_accepting (listener, code);
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
                                         tps_plugin_get_metrics (http->options.plugin)),
                                     .max_connections = http->options.max_connections,
                                     .max_streams = http->options.max_streams,
                                     .request_ms = http->options.request_ms,
                                     .answer_ms = http->options.answer_ms };

  http->soup = soup_server_new (NULL, NULL);
  limits.soup = http->soup;
  http->connections = tps_http_connections_new (&limits);
  http->reports.connections = http->connections;
  http->streams = tps_event_streams_new (&http->reports, http->context, http->options.sample_ms);
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

/* Cuts all connections, and runs the main loop until libsoup has released them. libsoup releases a
 * connection after its socket has been shut down. */
static void
end_serving (TpsHttp *http)
{
  gint64 deadline_ns = tps_clock_now_ns () + END_NS;

  for (guint i = 0; i < http->listeners->len; i++)
    set_source (http->listeners->pdata[i], NULL, NULL);
  tps_http_connections_cut_all (http->connections);
  while (count_connections (http) > 0 && tps_clock_now_ns () < deadline_ns)
    if (!g_main_context_iteration (http->context, FALSE))
      g_usleep (1000);
  soup_server_disconnect (http->soup);
  tps_event_streams_free (http->streams);
  g_object_unref (http->soup);
  tps_http_connections_free (http->connections);
}

static void *
run (void *data)
{
  TpsHttp *http = data;

  g_main_context_push_thread_default (http->context);
  begin_serving (http);
  while (!atomic_load (&http->stops))
    g_main_context_iteration (http->context, TRUE);
  end_serving (http);
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
  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  tps_json_open (&json, "paths", '[');
  for (guint i = 0; i < paths->len; i++)
    tps_json_add_text (&json, NULL, paths->pdata[i]);
  tps_json_close (&json, ']');
  tps_json_close (&json, '}');
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
  tps_event_streams_serve (((TpsHttp *) data)->streams, request);
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

static void
fill_defaults (TpsHttpOptions *options)
{
  const struct
  {
    guint *field;
    guint initial;
  } numbers[] = {
    { &options->max_connections, 64 }, { &options->max_streams, 16 },
    { &options->request_ms, 10000 },   { &options->answer_ms, 30000 },
    { &options->sample_ms, 1000 },     { &options->stuck_ms, 10000 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (*numbers[i].field == 0)
      *numbers[i].field = numbers[i].initial;
}

TpsHttp *
tps_http_new (const TpsHttpOptions *options)
{
  TpsHttp *http = g_new0 (TpsHttp, 1);

  http->options = *options;
  fill_defaults (&http->options);
  http->reports = (TpsReports) { .plugin = options->plugin,
                                 .server = options->server,
                                 .tracer = options->tracer,
                                 .started_us = g_get_real_time (),
                                 .stuck_ns = (gint64) http->options.stuck_ms * 1000000 };
  http->budget = tps_budget_new (tps_plugin_get_budgets (options->plugin)->process, "HTTP",
                                 MAX_HTTP_BYTES);
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
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "address \"%s\": expected HOST:PORT for HTTP", text);
      return FALSE;
    }
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
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "HTTP path %s declares no right",
                   endpoint->path);
      return FALSE;
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
stop_thread (TpsHttp *http)
{
  if (!http->has_thread)
    return;
  atomic_store (&http->stops, TRUE);
  g_main_context_wakeup (http->context);
  tps_sync_check (pthread_join (http->thread, NULL));
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
  stop_thread (http);
  g_ptr_array_foreach (http->listeners, close_listener, NULL);
  g_ptr_array_unref (http->listeners);
  g_ptr_array_unref (http->addresses);
  g_array_unref (http->endpoints);
  g_main_context_unref (http->context);
  tps_budget_unref (http->budget);
  g_free (http);
}
