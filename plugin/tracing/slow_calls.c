/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/tracing/slow_calls.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/sync.h"

#define MINUTE_NS (G_GINT64_CONSTANT (60) * 1000000000)

typedef struct
{
  gint64 number; /* minutes since the clock's origin */
  guint n;
  TpsSlowCall *calls; /* [slow->n] */
} Minute;

struct TpsSlowCalls
{
  guint n;                /* calls that are kept per minute */
  atomic_llong minute;    /* the number of the current minute */
  atomic_llong threshold; /* ns; in the current minute, only longer calls are kept */
  TpsMutex lock;          /* guards the minutes */
  Minute minutes[TPS_SLOW_CALLS_MINUTES];
};

TpsSlowCalls *
tps_slow_calls_new (guint n)
{
  TpsSlowCalls *slow = g_new0 (TpsSlowCalls, 1);

  slow->n = CLAMP (n, 1, TPS_SLOW_CALLS_MAX);
  atomic_init (&slow->minute, -1);
  atomic_init (&slow->threshold, -1);
  tps_mutex_init (&slow->lock);
  for (guint i = 0; i < TPS_SLOW_CALLS_MINUTES; i++)
    {
      slow->minutes[i].number = -1;
      slow->minutes[i].calls = g_new0 (TpsSlowCall, slow->n);
    }
  return slow;
}

void
tps_slow_calls_free (TpsSlowCalls *slow)
{
  if (slow == NULL)
    return;
  for (guint i = 0; i < TPS_SLOW_CALLS_MINUTES; i++)
    g_free (slow->minutes[i].calls);
  tps_mutex_clear (&slow->lock);
  g_free (slow);
}

gboolean
tps_slow_calls_wants (TpsSlowCalls *slow, gint64 total_ns, gint64 now_ns)
{
  return total_ns > atomic_load_explicit (&slow->threshold, memory_order_relaxed)
         || now_ns / MINUTE_NS != atomic_load_explicit (&slow->minute, memory_order_relaxed);
}

/* Returns the minute with this number, which replaces an older minute; NULL = the number is too
 * old. The lock must be held. */
static Minute *
find_minute (TpsSlowCalls *slow, gint64 number)
{
  Minute *minute = &slow->minutes[number % TPS_SLOW_CALLS_MINUTES];

  if (minute->number > number)
    return NULL;
  if (minute->number < number)
    {
      minute->number = number;
      minute->n = 0;
    }
  return minute;
}

static TpsSlowCall *
find_fastest (const Minute *minute)
{
  TpsSlowCall *fastest = &minute->calls[0];

  for (guint i = 1; i < minute->n; i++)
    if (minute->calls[i].total_ns < fastest->total_ns)
      fastest = &minute->calls[i];
  return fastest;
}

void
tps_slow_calls_add (TpsSlowCalls *slow, const TpsSlowCall *call, gint64 now_ns)
{
  gint64 number = now_ns / MINUTE_NS;
  Minute *minute;

  TPS_LOCK_SCOPE (&slow->lock);
  minute = find_minute (slow, number);
  if (minute != NULL)
    {
      if (minute->n < slow->n)
        minute->calls[minute->n++] = *call;
      else if (call->total_ns > find_fastest (minute)->total_ns)
        *find_fastest (minute) = *call;
      if (number >= atomic_load_explicit (&slow->minute, memory_order_relaxed))
        {
          atomic_store_explicit (&slow->minute, number, memory_order_relaxed);
          atomic_store_explicit (&slow->threshold,
                                 minute->n < slow->n ? -1 : find_fastest (minute)->total_ns,
                                 memory_order_relaxed);
        }
    }
}

static gint
compare_calls (gconstpointer a, gconstpointer b)
{
  const TpsSlowCall *one = a, *other = b;

  return one->total_ns < other->total_ns ? 1 : one->total_ns > other->total_ns ? -1 : 0;
}

guint
tps_slow_calls_list (TpsSlowCalls *slow, gint64 now_ns, TpsSlowCall *calls, guint n_max)
{
  gint64 oldest = now_ns / MINUTE_NS - TPS_SLOW_CALLS_MINUTES;
  g_autofree TpsSlowCall *all = g_new (TpsSlowCall, (gsize) TPS_SLOW_CALLS_MINUTES * slow->n);
  guint n = 0;

  tps_mutex_lock (&slow->lock);
  for (guint i = 0; i < TPS_SLOW_CALLS_MINUTES; i++)
    if (slow->minutes[i].number > oldest)
      {
        memcpy (all + n, slow->minutes[i].calls, slow->minutes[i].n * sizeof *all);
        n += slow->minutes[i].n;
      }
  tps_mutex_unlock (&slow->lock);
  qsort (all, n, sizeof *all, compare_calls);
  n = MIN (n, n_max);
  memcpy (calls, all, n * sizeof *all);
  return n;
}

TpsPhase
tps_slow_call_find_phase (const TpsSlowCall *call)
{
  TpsPhase longest = TPS_PHASE_DECODE;

  for (guint i = 0; i < TPS_N_PHASES; i++)
    if (call->phases_ns[i] > call->phases_ns[longest])
      longest = (TpsPhase) i;
  return longest;
}

void
tps_call_text_set (gchar field[TPS_CALL_TEXT], const gchar *text)
{
  gsize n_bytes = text != NULL ? strlen (text) : 0;

  if (n_bytes >= TPS_CALL_TEXT)
    {
      n_bytes = TPS_CALL_TEXT - 1;
      while (n_bytes > 0 && ((guint8) text[n_bytes] & 0xc0) == 0x80)
        n_bytes--;
    }
  if (n_bytes > 0)
    memcpy (field, text, n_bytes);
  field[n_bytes] = '\0';
}
