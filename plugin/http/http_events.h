/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Server-sent events: the streams of /events and the timer that feeds them. One sample is taken for
 * all streams, while there is one. Thread: the HTTP thread alone. */

#pragma once

#include "plugin/http/reports.h"

G_BEGIN_DECLS

typedef struct TpsEventStreams TpsEventStreams;

/* `reports` and `context` are borrowed. */
TpsEventStreams *tps_event_streams_new (const TpsReports *reports, GMainContext *context,
                                        guint sample_ms);
void tps_event_streams_free (TpsEventStreams *streams);

/* Answers with a stream, or with 503 if there are too many. */
void tps_event_streams_serve (TpsEventStreams *streams, TpsHttpRequest *request);

G_END_DECLS
