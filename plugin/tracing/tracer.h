/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Times calls, keeps the slowest, and queues the spans of sampled calls for an exporter.
 *
 * If a caller sends a traceparent, its flag decides about the sampling, up to `max_per_second`; of
 * other calls, a random part is sampled. If the slowest calls are kept, every call is timed;
 * otherwise a call that is not sampled has no span (NULL). The caller provides the times of the
 * start and the end, which metrics need too, so only changes of phases read a clock. */

#pragma once

#include "plugin/tracing/slow_calls.h"

G_BEGIN_DECLS

#define TPS_TRACER_MAX_PER_SECOND 1000
#define TPS_TRACER_MAX_SPANS 1024

/* All fields zero = nothing is traced. */
typedef struct
{
  guint n_slow_calls;        /* of a minute (slow_calls.h); 0 = none */
  gboolean has_exporter;     /* spans of sampled calls are taken with tps_tracer_take() */
  gdouble sampling;          /* share of the calls without a traceparent, 0 to 1 */
  guint max_per_second;      /* calls sampled for their callers; 0 = TPS_TRACER_MAX_PER_SECOND */
  guint max_spans;           /* waiting for the exporter; 0 = TPS_TRACER_MAX_SPANS */
  TpsPhasesClock get_now_ns; /* NULL = tps_clock_now_ns() */
} TpsTracerOptions;

typedef struct TpsTracer TpsTracer;

/* Lies in the memory of its call, which sets `code` (static) and `table` (the first table that it
 * names); the other members are read-only. */
typedef struct
{
  TpsPhases phases; /* first */
  gboolean has_context;
  gboolean is_sampled;
  TpsTraceContext context; /* with has_context */
  const gchar *code;
  gchar table[TPS_CALL_TEXT];
} TpsCallSpan;

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

/* The facts of a call at its end; borrowed. All members but `method` may be NULL. */
typedef struct
{
  const gchar *method;
  const gchar *peer;
  const gchar *principal;
  const gchar *tracestate;
} TpsCallFacts;

/* Copies `options`. The caller owns the tracer. */
TpsTracer *tps_tracer_new (const TpsTracerOptions *options);
void tps_tracer_free (TpsTracer *tracer);

/* Begins a call that arrived at `arrived_ns` on the tracer's clock. Returns `span`, which is
 * initialized and needs no release; NULL = the call is not traced. `tracer` and `traceparent` may
 * be NULL; an invalid traceparent counts as none. Thread: any. */
TpsCallSpan *tps_tracer_begin (TpsTracer *tracer, const gchar *traceparent, gint64 arrived_ns,
                               TpsCallSpan *span);

/* Returns TRUE if the call, which ends at `now_ns`, is sampled or one of the slowest. If FALSE, the
 * call must not be passed to tps_tracer_end(). `span` must not be NULL. Thread: any. */
gboolean tps_tracer_wants (TpsTracer *tracer, const TpsCallSpan *span, gint64 now_ns);

/* Ends the call at `now_ns`, and keeps a copy of its span and its facts. Thread: any. */
void tps_tracer_end (TpsTracer *tracer, TpsCallSpan *span, const TpsCallFacts *facts,
                     gint64 now_ns);

/* Takes the next span for the exporter. Returns FALSE if there is none. Thread: one at a time. */
gboolean tps_tracer_take (TpsTracer *tracer, TpsSpan *span);

/* Return the number of spans that wait for the exporter, and of those dropped because the queue was
 * full. Thread: any. */
guint tps_tracer_get_n_waiting (TpsTracer *tracer);
guint64 tps_tracer_get_n_dropped (TpsTracer *tracer);

/* Copies the slowest calls of the last minutes to `calls`, slowest first. Returns their number, at
 * most `n_max`; 0 if the slowest calls are not kept, or `tracer` is NULL. Thread: any. */
guint tps_tracer_list_slow (TpsTracer *tracer, TpsSlowCall *calls, guint n_max);

/* Returns TRUE if the slowest calls are kept. `tracer` may be NULL. */
gboolean tps_tracer_keeps_slow (const TpsTracer *tracer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTracer, tps_tracer_free)

G_END_DECLS
