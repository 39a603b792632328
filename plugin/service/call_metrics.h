/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What is counted of the calls of one method: OPERATING.md, "Metrics". For the dispatcher and
 * call.c. */

#pragma once

#include "plugin/frame/message.h"
#include "plugin/frame/writer.h"
#include "runtime/base/counters.h"

G_BEGIN_DECLS

typedef struct TpsMethodMetrics TpsMethodMetrics;

/* Numbers of `method`, "Service:method", in `counters`, which are borrowed. Owned by the caller.
 * Objects for the same method change the same numbers. */
TpsMethodMetrics *tps_method_metrics_new (TpsCounters *counters, const gchar *method);
void tps_method_metrics_free (TpsMethodMetrics *metrics);

/* Counts a call that has come. Returns when that was, on the monotonic clock: as the message says,
 * so that the clock is not read. Thread: any. */
gint64 tps_method_metrics_begin (TpsMethodMetrics *metrics, const TpsMessage *message);

/* Counts its end, with one clock read; only lookups and pushes have read the clock once before, for
 * their tables. `reply` NULL = there is none. Returns the duration in nanoseconds. */
gint64 tps_method_metrics_end (TpsMethodMetrics *metrics, gint64 began_ns, TpsWriter *reply);

/* Keeps the trace of a call that has ended as an example of its duration. */
void tps_method_metrics_add_exemplar (TpsMethodMetrics *metrics, const TpsExemplar *exemplar);

/* Counts that it fails; `code` is the wire's, 0 = TApplicationException. */
void tps_method_metrics_fail (TpsMethodMetrics *metrics, gint code);

/* Counts that it is cancelled. */
void tps_method_metrics_cancel (TpsMethodMetrics *metrics);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsMethodMetrics, tps_method_metrics_free)

G_END_DECLS
