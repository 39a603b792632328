/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/tracing/tracer.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>

#include "runtime/base/sync.h"

/* ---- queue of spans ------------------------------------------------------------------------- */

/* Finished spans of sampled calls, on their way from the threads that answer calls to an exporter:
 * a bounded ring without locks. Adding never waits, and a span that finds the ring full is dropped
 * and counted. Any thread may add; only one at a time may take.
 *
 * Dmitry Vyukov's bounded queue. The sequence of a slot is its state: `i` means that the slot is
 * empty and will hold the i-th span; `i` + 1 means that it holds the i-th span. A thread that adds
 * a span claims a slot by a compare-and-swap of `n_added`. */

typedef struct
{
  atomic_size_t sequence;
  TpsSpan span;
} Slot;

typedef struct
{
  gsize mask;
  Slot *slots;
  atomic_size_t n_added;
  atomic_size_t n_taken; /* changed only by the consumer */
  atomic_ullong n_dropped;
} SpanQueue;

static gboolean
queue_add (SpanQueue *queue, const TpsSpan *span)
{
  gsize i = atomic_load_explicit (&queue->n_added, memory_order_relaxed);

  for (;;)
    {
      Slot *slot = &queue->slots[i & queue->mask];
      gsize sequence = atomic_load_explicit (&slot->sequence, memory_order_acquire);

      if (sequence == i)
        {
          if (!atomic_compare_exchange_weak_explicit (&queue->n_added, &i, i + 1,
                                                      memory_order_relaxed, memory_order_relaxed))
            continue;
          slot->span = *span;
          atomic_store_explicit (&slot->sequence, i + 1, memory_order_release);
          return TRUE;
        }
      if ((gssize) (sequence - i) < 0)
        {
          atomic_fetch_add_explicit (&queue->n_dropped, 1, memory_order_relaxed);
          return FALSE;
        }
      i = atomic_load_explicit (&queue->n_added, memory_order_relaxed);
    }
}

static gboolean
queue_take (SpanQueue *queue, TpsSpan *span)
{
  gsize i = atomic_load_explicit (&queue->n_taken, memory_order_relaxed);
  Slot *slot = &queue->slots[i & queue->mask];

  if (atomic_load_explicit (&slot->sequence, memory_order_acquire) != i + 1)
    return FALSE;
  *span = slot->span;
  atomic_store_explicit (&slot->sequence, i + queue->mask + 1, memory_order_release);
  atomic_store_explicit (&queue->n_taken, i + 1, memory_order_release);
  return TRUE;
}

/* ---- tracer --------------------------------------------------------------------------------- */

#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define MAX_GAP 1e18 /* calls; must fit into 64 bits */

struct TpsTracer
{
  TpsPhasesClock get_now_ns;
  guint64 number; /* unique among the tracers of the process; not 0 */
  gdouble sampling;
  gint64 interval_ns;         /* average interval between calls that callers have sampled */
  atomic_llong used_until_ns; /* see take_from_rate() */
  TpsSlowCalls *slow;         /* NULL = none are kept */
  SpanQueue *spans;           /* NULL = none are exported */
};

static atomic_ullong n_tracers; /* created in this process */

TpsTracer *
tps_tracer_new (const TpsTracerOptions *options)
{
  TpsTracer *tracer = g_new0 (TpsTracer, 1);
  guint max_spans = options->max_spans != 0 ? options->max_spans : TPS_TRACER_MAX_SPANS;
  gsize n_slots = 2;
  guint max_per_second = options->max_per_second != 0 ? options->max_per_second
                                                      : TPS_TRACER_MAX_PER_SECOND;

  tracer->get_now_ns = options->get_now_ns != NULL ? options->get_now_ns : tps_clock_now_ns;
  tracer->number = atomic_fetch_add (&n_tracers, 1) + 1;
  tracer->sampling = CLAMP (options->sampling, 0.0, 1.0);
  tracer->interval_ns = SECOND_NS / max_per_second;
  atomic_init (&tracer->used_until_ns, 0);
  if (options->n_slow_calls > 0)
    tracer->slow = tps_slow_calls_new (options->n_slow_calls);
  if (options->has_exporter)
    {
      while (n_slots < max_spans)
        n_slots *= 2;
      tracer->spans = g_new0 (SpanQueue, 1);
      tracer->spans->mask = n_slots - 1;
      tracer->spans->slots = g_new0 (Slot, n_slots);
      for (gsize i = 0; i < n_slots; i++)
        atomic_init (&tracer->spans->slots[i].sequence, i);
    }
  return tracer;
}

void
tps_tracer_free (TpsTracer *tracer)
{
  if (tracer == NULL)
    return;
  tps_slow_calls_free (tracer->slow);
  if (tracer->spans != NULL)
    g_free (tracer->spans->slots);
  g_free (tracer->spans);
  g_free (tracer);
}

/* ---- ids and random numbers ------------------------------------------------------------------ */

/* Returns a random number from xorshift64*. Each thread has a separate generator, whose seed comes
 * from the kernel. */
static guint64
draw (void)
{
  static _Thread_local guint64 state;

  while (state == 0)
    if (getrandom (&state, sizeof state, 0) != sizeof state)
      state = (guint64) tps_clock_now_ns () ^ (guint64) (guintptr) &state;
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * G_GUINT64_CONSTANT (0x2545f4914f6cdd1d);
}

/* An id must not be zero, so the lowest bit of each word is set. */
static void
draw_id (guint8 *id, gsize n_bytes)
{
  for (gsize i = 0; i < n_bytes; i += sizeof (guint64))
    {
      guint64 bits = draw () | 1;

      memcpy (id + i, &bits, sizeof bits);
    }
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* Returns TRUE if one more call may be sampled at the request of its caller. At most
 * `max_per_second` calls are sampled per second; they may come in one burst. This is a token
 * bucket: each call advances `used_until_ns` by `interval_ns`, but not beyond `now_ns`. */
static gboolean
take_from_rate (TpsTracer *tracer, gint64 now_ns)
{
  long long used = atomic_load_explicit (&tracer->used_until_ns, memory_order_relaxed);
  long long next;

  do
    {
      next = MAX (used, now_ns - SECOND_NS) + tracer->interval_ns;
      if (next > now_ns)
        return FALSE;
    }
  while (!atomic_compare_exchange_weak_explicit (&tracer->used_until_ns, &used, next,
                                                 memory_order_relaxed, memory_order_relaxed));
  return TRUE;
}

/* Returns the number of calls before the next sampled call. It has a geometric distribution,
 * because each call is sampled with the same probability. */
static guint64
draw_gap (const TpsTracer *tracer)
{
  gdouble random = (gdouble) ((draw () >> 11) + 1) / 9007199254740992.0; /* in (0, 1] */
  gdouble gap;

  if (tracer->sampling <= 0)
    return G_MAXUINT64;
  if (tracer->sampling >= 1)
    return 0;
  gap = log (random) / log1p (-tracer->sampling);
  return gap < MAX_GAP ? (guint64) gap : G_MAXUINT64;
}

/* Returns TRUE if this call is sampled. One random number determines the distance to the next
 * sampled call, because a random number for each call would take longer. */
static gboolean
is_drawn (const TpsTracer *tracer)
{
  static _Thread_local struct
  {
    guint64 tracer; /* number of the tracer; 0 = none */
    guint64 n_left; /* calls before the next sampled call */
  } gap;

  if (G_UNLIKELY (gap.tracer != tracer->number))
    {
      gap.tracer = tracer->number;
      gap.n_left = draw_gap (tracer);
    }
  if (G_LIKELY (gap.n_left > 0))
    {
      gap.n_left--;
      return FALSE;
    }
  gap.n_left = draw_gap (tracer);
  return TRUE;
}

/* ---- calls ----------------------------------------------------------------------------------- */

TpsCallSpan *
tps_tracer_begin (TpsTracer *tracer, const gchar *traceparent, gint64 arrived_ns, TpsCallSpan *span)
{
  gboolean is_sampled;

  if (tracer == NULL)
    return NULL;
  span->has_context = traceparent != NULL && tps_trace_context_parse (traceparent, &span->context);
  is_sampled = tracer->spans != NULL
               && (span->has_context ? span->context.is_sampled : is_drawn (tracer));
  if (!is_sampled && tracer->slow == NULL)
    return NULL;
  tps_phases_begin (&span->phases, TPS_PHASE_DECODE, tracer->get_now_ns, arrived_ns, is_sampled);
  span->is_sampled = is_sampled && (!span->has_context || take_from_rate (tracer, arrived_ns));
  span->code = NULL;
  span->table[0] = '\0';
  if (is_sampled && !span->has_context)
    {
      draw_id (span->context.trace_id, TPS_TRACE_ID_BYTES);
      memset (span->context.parent_id, 0, TPS_SPAN_ID_BYTES);
      span->context.is_sampled = TRUE;
      span->has_context = TRUE;
    }
  return span;
}

gboolean
tps_tracer_wants (TpsTracer *tracer, const TpsCallSpan *span, gint64 now_ns)
{
  return span->is_sampled
         || (tracer->slow != NULL
             && tps_slow_calls_wants (tracer->slow, now_ns - span->phases.began_ns, now_ns));
}

void
tps_tracer_end (TpsTracer *tracer, TpsCallSpan *span, const TpsCallFacts *facts, gint64 now_ns)
{
  gint64 total_ns = now_ns - span->phases.began_ns;

  tps_phases_end (&span->phases, now_ns);
  if (span->is_sampled)
    {
      TpsSpan finished = { .context = span->context, .code = span->code, .phases = span->phases };

      draw_id (finished.span_id, TPS_SPAN_ID_BYTES);
      if (facts->tracestate != NULL && tps_tracestate_is_valid (facts->tracestate))
        g_strlcpy (finished.tracestate, facts->tracestate, sizeof finished.tracestate);
      tps_call_text_set (finished.method, facts->method);
      tps_call_text_set (finished.table, span->table);
      tps_call_text_set (finished.peer, facts->peer);
      tps_call_text_set (finished.principal, facts->principal);
      queue_add (tracer->spans, &finished);
    }
  if (tracer->slow != NULL && tps_slow_calls_wants (tracer->slow, total_ns, now_ns))
    {
      TpsSlowCall slow = { .code = span->code,
                           .began_ns = span->phases.began_ns,
                           .total_ns = tps_phases_get_total_ns (&span->phases) };

      tps_call_text_set (slow.method, facts->method);
      tps_call_text_set (slow.table, span->table);
      tps_call_text_set (slow.peer, facts->peer);
      tps_call_text_set (slow.principal, facts->principal);
      if (span->has_context)
        tps_trace_id_format (span->context.trace_id, slow.trace_id);
      tps_phases_sum (&span->phases, slow.phases_ns);
      tps_slow_calls_add (tracer->slow, &slow, now_ns);
    }
}

/* ---- readers --------------------------------------------------------------------------------- */

gboolean
tps_tracer_take (TpsTracer *tracer, TpsSpan *span)
{
  return tracer->spans != NULL && queue_take (tracer->spans, span);
}

guint
tps_tracer_get_n_waiting (TpsTracer *tracer)
{
  SpanQueue *queue = tracer->spans;
  gsize n_taken, n_added;

  if (queue == NULL)
    return 0;
  /* `n_taken` is read first, so that it never exceeds `n_added`: each span is added before it is
   * taken. */
  n_taken = atomic_load_explicit (&queue->n_taken, memory_order_acquire);
  n_added = atomic_load_explicit (&queue->n_added, memory_order_relaxed);
  return (guint) MIN (n_added - n_taken, queue->mask + 1);
}

guint64
tps_tracer_get_n_dropped (TpsTracer *tracer)
{
  return tracer->spans != NULL
             ? atomic_load_explicit (&tracer->spans->n_dropped, memory_order_relaxed)
             : 0;
}

guint
tps_tracer_list_slow (TpsTracer *tracer, TpsSlowCall *calls, guint n_max)
{
  if (!tps_tracer_keeps_slow (tracer))
    return 0;
  return tps_slow_calls_list (tracer->slow, tracer->get_now_ns (), calls, n_max);
}

gboolean
tps_tracer_keeps_slow (const TpsTracer *tracer)
{
  return tracer != NULL && tracer->slow != NULL;
}
