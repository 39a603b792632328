/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Server-sent events: the streams of /events, and the timer that takes their samples. All streams
 * get the same samples. No samples are taken while there is no stream. Thread: the HTTP thread. */

#pragma once

#include "plugin/http/reports.h"

G_BEGIN_DECLS

typedef struct TpsEventStreams TpsEventStreams;

/* Creates an object without streams, which the caller owns. `reports` and `context` are borrowed.
 * `sample_ms` is the interval between samples. */
TpsEventStreams *tps_event_streams_new (const TpsReports *reports, GMainContext *context,
                                        guint sample_ms);

/* Frees the object. If libsoup has not ended all streams, the object is leaked, because the end of
 * a stream uses it. */
void tps_event_streams_free (TpsEventStreams *streams);

/* Responds with a stream, or with 503 if there are too many streams. The response to HEAD is
 * empty. */
void tps_event_streams_serve (TpsEventStreams *streams, TpsHttpRequest *request);

G_END_DECLS
