/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Spans of device time: between two points of a stream.
 *
 * The metric of a span takes its place when the span starts. Its time is read later, after the
 * device has passed the end of the span: each start reads those that are ready, and settle() waits
 * for the others. One thread at a time.
 */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/base/metrics.h"

G_BEGIN_DECLS

typedef struct TpsDeviceSpans TpsDeviceSpans;

/* Borrows both. */
TpsDeviceSpans *tps_device_spans_new (TpsStream *stream, TpsMetrics *metrics);

/* Before the stream. Spans that were not settled stay unfinished. */
void tps_device_spans_free (TpsDeviceSpans *self);

/* From what is queued on the stream now. Errors: as tps_metrics_record_start(); DEVICE_LOST. */
gboolean tps_device_spans_start (TpsDeviceSpans *self, const gchar *type, const gchar *key,
                                 const gchar *name, GError **error);

/* To what is queued now. Errors: NOT_FOUND "metric_type=T with key=K not found". */
gboolean tps_device_spans_end (TpsDeviceSpans *self, const gchar *type, const gchar *key,
                               GError **error);

/* Waits for all that have ended. Errors: DEVICE_LOST. */
gboolean tps_device_spans_settle (TpsDeviceSpans *self, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDeviceSpans, tps_device_spans_free)

G_END_DECLS
