/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Spans of device time between two points of a stream.
 *
 * The metric of a span gets its position in the list of metrics when the span starts. Its duration
 * is recorded after the device has passed the end of the span: each start() records the spans whose
 * end has been passed, and settle() waits for the others. Thread: one at a time.
 */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/base/metrics.h"

typedef struct TpsDeviceSpans TpsDeviceSpans;

/* Creates an object, owned by the caller, that borrows `stream` and `metrics`. */
TpsDeviceSpans *tps_device_spans_new (TpsStream *stream, TpsMetrics *metrics);

/* Frees the object. Must be called before the stream is freed. Spans that have not been settled
 * stay unfinished in the metrics. */
void tps_device_spans_free (TpsDeviceSpans *self);

/* Starts a span after the work queued on the stream. Errors: those of tps_metrics_record_start(),
 * and DEVICE_LOST. */
gboolean tps_device_spans_start (TpsDeviceSpans *self, const gchar *type, const gchar *key,
                                 const gchar *name, GError **error);

/* Ends a span after the work queued on the stream. Errors: NOT_FOUND "metric_type=T with key=K not
 * found". */
gboolean tps_device_spans_end (TpsDeviceSpans *self, const gchar *type, const gchar *key,
                               GError **error);

/* Waits for all ended spans and records them. Errors: DEVICE_LOST. */
gboolean tps_device_spans_settle (TpsDeviceSpans *self, GError **error);
