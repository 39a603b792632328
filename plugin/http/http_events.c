/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Streams of events. The message of a request for events remains open: each event is a piece of its
 * body, and libsoup pauses the message between events. If a client does not read, its stream is cut
 * as soon as more than MAX_WAITING_BYTES are waiting. */

#include "plugin/http/http_events.h"

#include "plugin/http/http_request.h"
#include "plugin/http/sampler.h"
#include "runtime/base/sync.h"

#define MAX_WAITING_BYTES ((gsize) 64 << 10)

struct TpsEventStreams
{
  GMainContext *context;
  guint sample_ms;
  TpsSampler *sampler;
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

/* ---- samples -------------------------------------------------------------------------------- */

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
  g_autoptr (GBytes)
      event = new_event (head, tps_sampler_take (streams->sampler, tps_clock_now_ns ()));

  for (GList *item = streams->list.head, *next; item != NULL; item = next)
    {
      next = item->next;
      send_event (item->data, event);
    }
  return G_SOURCE_CONTINUE;
}

static void
start_timer (TpsEventStreams *streams)
{
  tps_sampler_begin (streams->sampler, tps_clock_now_ns ());
  streams->timer = g_timeout_source_new (streams->sample_ms);
  g_source_set_callback (streams->timer, on_sample, streams, NULL);
  g_source_attach (streams->timer, streams->context);
}

/* ---- serving -------------------------------------------------------------------------------- */

static void
begin_stream (TpsEventStreams *streams, SoupServerMessage *message)
{
  Stream *stream = g_new0 (Stream, 1);
  g_autoptr (GBytes) hello = new_event ("event: hello\n", tps_sampler_greet (streams->sampler));

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
    start_timer (streams);
}

void
tps_event_streams_serve (TpsEventStreams *streams, TpsHttpRequest *request)
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

TpsEventStreams *
tps_event_streams_new (const TpsReports *reports, GMainContext *context, guint sample_ms)
{
  TpsEventStreams *streams = g_new0 (TpsEventStreams, 1);

  streams->context = context;
  streams->sample_ms = sample_ms;
  streams->sampler = tps_sampler_new (reports);
  g_queue_init (&streams->list);
  return streams;
}

/* If libsoup has not finished all streams, on_finished() will use this structure, so it must
 * leak. */
void
tps_event_streams_free (TpsEventStreams *streams)
{
  stop_timer (streams);
  if (streams->list.length > 0)
    return;
  tps_sampler_free (streams->sampler);
  g_free (streams);
}
