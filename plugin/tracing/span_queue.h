/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Finished spans of sampled calls, on their way from the threads that answer calls to an exporter.
 *
 * A bounded ring without locks: adding never waits, and a span that finds the ring full is dropped
 * and counted. Thread: any number add; one at a time takes.
 */

#pragma once

#include "plugin/tracing/slow_calls.h"

G_BEGIN_DECLS

/* The span of a call, whose phases become its children. Text as in TpsSlowCall. */
typedef struct
{
  TpsTraceContext context; /* with the caller's span as its parent */
  guint8 span_id[TPS_SPAN_ID_BYTES];
  gchar tracestate[TPS_TRACESTATE_MAX_BYTES + 1];
  gchar method[TPS_CALL_TEXT];
  gchar table[TPS_CALL_TEXT];
  gchar peer[TPS_CALL_TEXT];
  gchar principal[TPS_CALL_TEXT];
  const gchar *code; /* of the error, static; NULL = it succeeded */
  TpsPhases phases;  /* that have ended */
} TpsSpan;

typedef struct TpsSpanQueue TpsSpanQueue;

/* `n_spans` is rounded up to a power of two. */
TpsSpanQueue *tps_span_queue_new (guint n_spans);
void tps_span_queue_free (TpsSpanQueue *queue);

/* FALSE: the queue is full, and the span was dropped. */
gboolean tps_span_queue_add (TpsSpanQueue *queue, const TpsSpan *span);

/* The oldest span; FALSE: there is none. */
gboolean tps_span_queue_take (TpsSpanQueue *queue, TpsSpan *span);

/* Spans that were added and have not been taken. Thread: any. */
guint tps_span_queue_get_n_waiting (TpsSpanQueue *queue);

/* Spans that were dropped so far. */
guint64 tps_span_queue_get_n_dropped (TpsSpanQueue *queue);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSpanQueue, tps_span_queue_free)

G_END_DECLS
