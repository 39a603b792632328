/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Finished spans of sampled calls, on their way from the threads that answer calls to an exporter.
 *
 * A bounded ring without locks: adding never waits, and a span that finds the ring full is dropped
 * and counted. Thread: any may add; only one at a time may take.
 */

#pragma once

#include "plugin/tracing/slow_calls.h"

G_BEGIN_DECLS

/* The span of a call; the phases of the call become its children. Text is as in TpsSlowCall. */
typedef struct
{
  TpsTraceContext context; /* with the caller's span as its parent */
  guint8 span_id[TPS_SPAN_ID_BYTES];
  gchar tracestate[TPS_TRACESTATE_MAX_BYTES + 1];
  gchar method[TPS_CALL_TEXT];
  gchar table[TPS_CALL_TEXT];
  gchar peer[TPS_CALL_TEXT];
  gchar principal[TPS_CALL_TEXT];
  const gchar *code; /* of the error, static; NULL = success */
  TpsPhases phases;  /* that have ended */
} TpsSpan;

typedef struct TpsSpanQueue TpsSpanQueue;

/* Creates a queue for `n_spans`, rounded up to a power of two. The caller owns it. */
TpsSpanQueue *tps_span_queue_new (guint n_spans);
void tps_span_queue_free (TpsSpanQueue *queue);

/* Adds a copy of `span`. Returns FALSE if the queue is full and the span was dropped. */
gboolean tps_span_queue_add (TpsSpanQueue *queue, const TpsSpan *span);

/* Removes the oldest span and copies it to `span`. Returns FALSE if there is none. */
gboolean tps_span_queue_take (TpsSpanQueue *queue, TpsSpan *span);

/* Returns the number of spans in the queue. Thread: any. */
guint tps_span_queue_get_n_waiting (TpsSpanQueue *queue);

/* Returns the number of spans dropped so far. Thread: any. */
guint64 tps_span_queue_get_n_dropped (TpsSpanQueue *queue);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSpanQueue, tps_span_queue_free)

G_END_DECLS
