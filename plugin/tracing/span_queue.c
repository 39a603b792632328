/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Dmitry Vyukov's bounded queue. The sequence of a slot is its state: `i` means that the slot is
 * empty and will hold the i-th span; `i` + 1 means that it holds the i-th span. A thread that adds
 * a span claims a slot by a compare-and-swap of `n_added`. */

#include "plugin/tracing/span_queue.h"

#include <stdatomic.h>

typedef struct
{
  atomic_size_t sequence;
  TpsSpan span;
} Slot;

struct TpsSpanQueue
{
  gsize mask;
  Slot *slots;
  atomic_size_t n_added;
  atomic_size_t n_taken; /* changed only by the consumer */
  atomic_ullong n_dropped;
};

TpsSpanQueue *
tps_span_queue_new (guint n_spans)
{
  TpsSpanQueue *queue = g_new0 (TpsSpanQueue, 1);
  gsize n = 2;

  while (n < n_spans)
    n *= 2;
  queue->mask = n - 1;
  queue->slots = g_new0 (Slot, n);
  for (gsize i = 0; i < n; i++)
    atomic_init (&queue->slots[i].sequence, i);
  return queue;
}

void
tps_span_queue_free (TpsSpanQueue *queue)
{
  if (queue == NULL)
    return;
  g_free (queue->slots);
  g_free (queue);
}

gboolean
tps_span_queue_add (TpsSpanQueue *queue, const TpsSpan *span)
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

gboolean
tps_span_queue_take (TpsSpanQueue *queue, TpsSpan *span)
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

/* Returns the number of spans in the queue. `n_taken` must be read first, so that it never exceeds
 * `n_added`: each span is added before it is taken. */
guint
tps_span_queue_get_n_waiting (TpsSpanQueue *queue)
{
  gsize n_taken = atomic_load_explicit (&queue->n_taken, memory_order_acquire);
  gsize n_added = atomic_load_explicit (&queue->n_added, memory_order_relaxed);

  return (guint) MIN (n_added - n_taken, queue->mask + 1);
}

guint64
tps_span_queue_get_n_dropped (TpsSpanQueue *queue)
{
  return atomic_load_explicit (&queue->n_dropped, memory_order_relaxed);
}
