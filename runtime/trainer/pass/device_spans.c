/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Only the few spans of one step are open at a time, so a linear search finds them. Ended spans are
 * queued in the order of their ends, in which the stream passes them. */

#include "runtime/trainer/pass/device_spans.h"

#include "runtime/base/error.h"

typedef struct
{
  gchar *type, *key;
  TpsEvent *start, *end;
} Span;

struct TpsDeviceSpans
{
  TpsStream *stream;
  TpsMetrics *metrics;
  GQueue started;
  GQueue ended;
  GQueue idle; /* events for reuse */
};

static const TpsDeviceOps *
ops_of (const TpsDeviceSpans *self)
{
  return self->stream->device->ops;
}

TpsDeviceSpans *
tps_device_spans_new (TpsStream *stream, TpsMetrics *metrics)
{
  TpsDeviceSpans *self = g_new0 (TpsDeviceSpans, 1);

  self->stream = stream;
  self->metrics = metrics;
  return self;
}

static void
drop (TpsDeviceSpans *self, Span *span)
{
  if (span->start != NULL)
    g_queue_push_tail (&self->idle, span->start);
  if (span->end != NULL)
    g_queue_push_tail (&self->idle, span->end);
  g_free (span->type);
  g_free (span->key);
  g_free (span);
}

void
tps_device_spans_free (TpsDeviceSpans *self)
{
  gpointer at;

  if (self == NULL)
    return;
  while ((at = g_queue_pop_head (&self->started)) != NULL)
    drop (self, at);
  while ((at = g_queue_pop_head (&self->ended)) != NULL)
    drop (self, at);
  while ((at = g_queue_pop_head (&self->idle)) != NULL)
    ops_of (self)->event_free (at);
  g_free (self);
}

/* Waits for the first ended span and records it. If the metrics were cleared in the meantime,
 * nothing is recorded. */
static gboolean
settle_first (TpsDeviceSpans *self, GError **error)
{
  Span *span = g_queue_pop_head (&self->ended);
  gdouble elapsed_ms;
  gboolean ok = ops_of (self)->event_sync (span->end, error)
                && ops_of (self)->events_elapsed (span->start, span->end, &elapsed_ms, error);

  if (ok)
    tps_metrics_record_elapsed (self->metrics, span->type, span->key, elapsed_ms, NULL);
  drop (self, span);
  return ok;
}

/* Settles the spans whose end the device has reached. */
static gboolean
settle_reached (TpsDeviceSpans *self, GError **error)
{
  while (!g_queue_is_empty (&self->ended)
         && ops_of (self)->event_query (((Span *) g_queue_peek_head (&self->ended))->end))
    if (!settle_first (self, error))
      return FALSE;
  return TRUE;
}

gboolean
tps_device_spans_settle (TpsDeviceSpans *self, GError **error)
{
  while (!g_queue_is_empty (&self->ended))
    if (!settle_first (self, error))
      return FALSE;
  return TRUE;
}

static TpsEvent *
take_event (TpsDeviceSpans *self, GError **error)
{
  TpsEvent *event = g_queue_pop_head (&self->idle);

  return event != NULL ? event : ops_of (self)->event_new (self->stream->device, error);
}

static gboolean
add_events (TpsDeviceSpans *self, Span *span, GError **error)
{
  span->start = take_event (self, error);
  if (span->start != NULL)
    span->end = take_event (self, error);
  return span->end != NULL;
}

gboolean
tps_device_spans_start (TpsDeviceSpans *self, const gchar *type, const gchar *key,
                        const gchar *name, GError **error)
{
  Span *span;

  if (!settle_reached (self, error)
      || !tps_metrics_record_start (self->metrics, type, key, name, error))
    return FALSE;
  span = g_new0 (Span, 1);
  span->type = g_strdup (type);
  span->key = g_strdup (key);
  if (!add_events (self, span, error))
    {
      drop (self, span);
      return FALSE;
    }
  ops_of (self)->event_record (span->start, self->stream);
  g_queue_push_tail (&self->started, span);
  return TRUE;
}

gboolean
tps_device_spans_end (TpsDeviceSpans *self, const gchar *type, const gchar *key, GError **error)
{
  for (GList *at = self->started.tail; at != NULL; at = at->prev)
    {
      Span *span = at->data;

      if (!g_str_equal (span->type, type) || !g_str_equal (span->key, key))
        continue;
      g_queue_delete_link (&self->started, at);
      ops_of (self)->event_record (span->end, self->stream);
      g_queue_push_tail (&self->ended, span);
      return TRUE;
    }
  return tps_fail (error, TPS_ERROR_NOT_FOUND, "metric_type=%s with key=%s not found", type, key);
}
