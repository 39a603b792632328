/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The metrics of the calls of one method: REFERENCE.md. Only the dispatcher and calls
 * may use them. */

#pragma once

#include "plugin/frame/writer.h"
#include "runtime/base/counters.h"
#include "runtime/base/error.h"

G_BEGIN_DECLS

#define TPS_METHOD_N_CODES (TPS_ERROR_INTERNAL - TPS_ERROR_WIRE_BASE + 1)

typedef struct
{
  TpsCounters *counters;
  gchar *method;
  TpsCounter *requests;
  TpsCounter *cancelled;
  TpsCounter *request_bytes;
  TpsCounter *reply_bytes;
  TpsHistogram *durations;
  TpsCounter *failed[TPS_METHOD_N_CODES]; /* atomic; by wire code; created by the first failure */
} TpsMethodMetrics;

/* Creates the metrics of `method`, "Service:method", in `counters`, which are borrowed. The caller
 * owns the object; the counts outlive it. Several objects for one method change the same
 * metrics. */
TpsMethodMetrics *tps_method_metrics_new (TpsCounters *counters, const gchar *method);
void tps_method_metrics_free (TpsMethodMetrics *metrics);

/* Counts the end of a call and records its duration, `elapsed_ns`, here and in a second histogram,
 * `others`, which belongs to the caller (NULL = none). `reply` NULL = there is no reply. Thread:
 * any. */
void tps_method_metrics_end (TpsMethodMetrics *metrics, gint64 elapsed_ns, TpsHistogram *others,
                             TpsWriter *reply);

/* Counts a failure; `code` is the code on the wire, 0 = TApplicationException. */
void tps_method_metrics_fail (TpsMethodMetrics *metrics, gint code);

G_END_DECLS
