/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A parser of server-sent events (WHATWG HTML, "Server-sent events"), whose bytes may come in
 * pieces of any size. An event consists of lines of "event: NAME" and "data: TEXT", and ends with
 * an empty line. Comments, ids and other fields are skipped. Thread: one at a time. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_EVENT_STREAM_MAX_BYTES ((gsize) 4 << 20) /* of one event */

typedef struct TpsEventStream TpsEventStream;

/* Called for each event. Both strings are borrowed for the call. `name` is "message" if the event
 * has no name. */
typedef void (*TpsEventStreamFunc) (gpointer user_data, const gchar *name, const gchar *data);

/* Creates a parser, which calls `func` for each complete event. The caller owns the parser. */
TpsEventStream *tps_event_stream_new (TpsEventStreamFunc func, gpointer user_data);
void tps_event_stream_free (TpsEventStream *stream);

/* Parses the next bytes, and calls the function for each event that they complete. Errors: PROTOCOL
 * if an event is longer than TPS_EVENT_STREAM_MAX_BYTES; the stream must not be used any more
 * then. */
gboolean tps_event_stream_feed (TpsEventStream *stream, const gchar *bytes, gsize n_bytes,
                                GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsEventStream, tps_event_stream_free)

G_END_DECLS
