/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Server-sent events from the bytes of a stream, in pieces of any size (WHATWG HTML, "Server-sent
 * events"): lines of "event: NAME" and "data: TEXT", and an empty line at the end of each event.
 * Comments, ids and other fields are skipped. Thread: one at a time.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_EVENT_STREAM_MAX_BYTES ((gsize) 4 << 20) /* of one event */

typedef struct TpsEventStream TpsEventStream;

/* One event; both texts are borrowed during the call. `name` is "message" where none was sent. */
typedef void (*TpsEventStreamFunc) (gpointer user_data, const gchar *name, const gchar *data);

/* Creates a parser, owned by the caller, that calls `func` for each complete event. */
TpsEventStream *tps_event_stream_new (TpsEventStreamFunc func, gpointer user_data);
void tps_event_stream_free (TpsEventStream *stream);

/* Takes the next bytes, and calls the function for each event that they complete. Errors: PROTOCOL
 * (an event is too long); the stream must not be used any more then. */
gboolean tps_event_stream_feed (TpsEventStream *stream, const gchar *bytes, gsize n_bytes,
                                GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsEventStream, tps_event_stream_free)

G_END_DECLS
