/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The metrics of the calls of one method: REFERENCE.md. Only the dispatcher and calls
 * may use them. */

#pragma once

#include "plugin/frame/message.h"
#include "plugin/frame/writer.h"
#include "runtime/base/counters.h"

G_BEGIN_DECLS

typedef struct TpsMethodMetrics TpsMethodMetrics;

/* Creates the metrics of `method`, "Service:method", in `counters`, which are borrowed. The caller
 * owns the object; the counts outlive it. Several objects for one method change the same
 * metrics. */
TpsMethodMetrics *tps_method_metrics_new (TpsCounters *counters, const gchar *method);
void tps_method_metrics_free (TpsMethodMetrics *metrics);

/* Counts the start of a call. Thread: any. */
void tps_method_metrics_begin (TpsMethodMetrics *metrics, const TpsMessage *message);

/* Counts the end of a call and records its duration, `elapsed_ns`, here and in a second histogram,
 * `others`, which belongs to the caller (NULL = none). `reply` NULL = there is no reply. Thread:
 * any. */
void tps_method_metrics_end (TpsMethodMetrics *metrics, gint64 elapsed_ns, TpsHistogram *others,
                             TpsWriter *reply);

/* Keeps the trace of a call that has ended as an exemplar of its duration. */
void tps_method_metrics_add_exemplar (TpsMethodMetrics *metrics, const TpsExemplar *exemplar);

/* Counts a failure; `code` is the code on the wire, 0 = TApplicationException. */
void tps_method_metrics_fail (TpsMethodMetrics *metrics, gint code);

/* Counts a cancellation. */
void tps_method_metrics_cancel (TpsMethodMetrics *metrics);

G_END_DECLS
