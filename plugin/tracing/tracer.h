/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Times calls, keeps the slowest, and hands the spans of sampled calls to an exporter.
 *
 *   span = tps_tracer_begin (tracer, traceparent, arrived_ns, &storage);   a call has arrived
 *   tps_phases_enter (tps_call_span_get_phases (span), TPS_PHASE_APPLY);
 *   if (tps_tracer_wants (tracer, span, now_ns))                           it is answered
 *     tps_tracer_end (tracer, span, &facts, now_ns);
 *
 * A caller that sends a traceparent decides whether its call is sampled, up to `max_per_second`
 * calls; of calls without one a random part is. Every call is timed while the slowest are kept. A
 * call that is neither sampled nor timed has no span (NULL). The caller provides the times of
 * its begin and its end, which metrics need too, so only changes of phases read a clock.
 */

#pragma once

#include "plugin/tracing/slow_calls.h"
#include "plugin/tracing/span_queue.h"

G_BEGIN_DECLS

#define TPS_TRACER_MAX_PER_SECOND 1000
#define TPS_TRACER_MAX_SPANS 1024

/* All zero: nothing is traced. */
typedef struct
{
  guint n_slow_calls;        /* of a minute (slow_calls.h); 0 = none */
  gboolean has_exporter;     /* spans of sampled calls are taken with tps_tracer_take() */
  gdouble sampling;          /* of calls without a traceparent: 0 = none, 1 = all */
  guint max_per_second;      /* calls sampled for their callers; 0 = TPS_TRACER_MAX_PER_SECOND */
  guint max_spans;           /* waiting for the exporter; 0 = TPS_TRACER_MAX_SPANS */
  TpsPhasesClock get_now_ns; /* NULL = tps_clock_now_ns() */
} TpsTracerOptions;

typedef struct TpsTracer TpsTracer;

/* Private to tracer.c. Lies in the memory of its call. */
typedef struct
{
  TpsPhases phases; /* first */
  gboolean has_context;
  gboolean is_sampled;
  TpsTraceContext context; /* with has_context */
  const gchar *code;
  gchar table[TPS_CALL_TEXT];
} TpsCallSpan;

/* The facts of a call at its end; borrowed. All but `method` may be NULL. */
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

/* Begins a call that arrived at `arrived_ns`, on the tracer's clock. Returns `span`, which it
 * initializes and which needs no release, or NULL: the call is not traced. `tracer` and
 * `traceparent` may be NULL; a text that is no traceparent counts as none. Thread: any. */
TpsCallSpan *tps_tracer_begin (TpsTracer *tracer, const gchar *traceparent, gint64 arrived_ns,
                               TpsCallSpan *span);

/* Whether the call, which ends at `now_ns`, is sampled or one of the slowest. If not, it must not
 * be passed to tps_tracer_end(). `span` must not be NULL. Thread: any. */
gboolean tps_tracer_wants (TpsTracer *tracer, const TpsCallSpan *span, gint64 now_ns);

/* Ends the call, and keeps a copy of its span and its facts. Thread: any. */
void tps_tracer_end (TpsTracer *tracer, TpsCallSpan *span, const TpsCallFacts *facts,
                     gint64 now_ns);

/* Of a span, which may be NULL; thread: the call's. */
TpsPhases *tps_call_span_get_phases (TpsCallSpan *span);
const TpsTraceContext *tps_call_span_get_context (const TpsCallSpan *span); /* NULL = none */
gboolean tps_call_span_is_sampled (const TpsCallSpan *span); /* it is handed to the exporter */
void tps_call_span_set_table (TpsCallSpan *span, const gchar *table); /* the first one counts */
void tps_call_span_set_code (TpsCallSpan *span, const gchar *code);   /* static */

/* The next span for the exporter. FALSE: there is none. Thread: one at a time. */
gboolean tps_tracer_take (TpsTracer *tracer, TpsSpan *span);

/* Spans that wait for the exporter. Thread: any. */
guint tps_tracer_get_n_waiting (TpsTracer *tracer);

/* Spans that the exporter did not take in time. Thread: any. */
guint64 tps_tracer_get_n_dropped (TpsTracer *tracer);

/* The slowest calls of the last minutes, slowest first. Returns how many were copied to `calls`, at
 * most `n_max`; none if the slowest are not kept, or `tracer` is NULL. Thread: any. */
guint tps_tracer_list_slow (TpsTracer *tracer, TpsSlowCall *calls, guint n_max);

/* Whether the slowest calls are kept. `tracer` may be NULL. */
gboolean tps_tracer_keeps_slow (const TpsTracer *tracer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTracer, tps_tracer_free)

G_END_DECLS
