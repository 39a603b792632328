/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/server/pulse.h"

#include "runtime/base/sync.h"

typedef struct
{
  TpsPulse *pulse;     /* a reference until the beat returns */
  TpsLoop *loop;       /* NULL = the beat of the workers */
  atomic_bool is_away; /* sent, but not returned yet */
} Beat;

struct TpsPulse
{
  TpsRefcount refcount; /* one for the owner, and one for each beat that has not returned */
  TpsWorkerPool *workers;
  guint n_loops;
  TpsMutex lock;        /* guards everything below */
  gint64 sent_ns;       /* the time at which all beats were sent */
  gboolean is_reported; /* a standstill has been reported since `sent_ns` */
  guint64 timer;        /* of the beat of the workers */
  Beat beats[];         /* [n_loops + 1]; the last beat is for the workers */
};

TpsPulse *
tps_pulse_new (TpsLoop *const *loops, guint n_loops, TpsWorkerPool *workers)
{
  TpsPulse *pulse = g_malloc0 (sizeof (TpsPulse) + (n_loops + 1) * sizeof (Beat));

  tps_refcount_init (&pulse->refcount);
  tps_mutex_init (&pulse->lock);
  pulse->workers = workers;
  pulse->n_loops = n_loops;
  for (guint i = 0; i <= n_loops; i++)
    pulse->beats[i] = (Beat) { .pulse = pulse, .loop = i < n_loops ? loops[i] : NULL };
  return pulse;
}

static void
pulse_unref (TpsPulse *pulse)
{
  if (!tps_refcount_dec (&pulse->refcount))
    return;
  tps_mutex_clear (&pulse->lock);
  g_free (pulse);
}

/* If the timer is cancelled, its beat does not return, so the reference of the beat is released
 * here. */
void
tps_pulse_free (TpsPulse *pulse)
{
  if (pulse->timer != 0 && tps_worker_pool_cancel_timer (pulse->workers, pulse->timer))
    pulse_unref (pulse);
  pulse_unref (pulse);
}

static void
come_back (gpointer data)
{
  Beat *beat = data;

  atomic_store (&beat->is_away, FALSE);
  pulse_unref (beat->pulse);
}

static void
go_to_worker (gpointer data)
{
  Beat *beat = data;

  tps_worker_pool_submit (beat->pulse->workers, come_back, beat);
}

static void
send_beat (Beat *beat)
{
  tps_refcount_inc (&beat->pulse->refcount);
  atomic_store (&beat->is_away, TRUE);
  if (beat->loop != NULL)
    tps_loop_post (beat->loop, come_back, beat);
  else
    beat->pulse->timer = tps_worker_pool_add_timer (beat->pulse->workers, tps_clock_now_ns (),
                                                    go_to_worker, beat);
}

/* Returns the first beat that has not returned; NULL = all have returned. */
static const Beat *
find_away (const TpsPulse *pulse)
{
  for (guint i = 0; i <= pulse->n_loops; i++)
    if (atomic_load (&pulse->beats[i].is_away))
      return &pulse->beats[i];
  return NULL;
}

gboolean
tps_pulse_check (TpsPulse *pulse, gint64 now_ns, gint64 patience_ns, gchar **missing)
{
  const Beat *away;
  gboolean is_late;

  tps_mutex_lock (&pulse->lock);
  away = find_away (pulse);
  is_late = away != NULL && now_ns - pulse->sent_ns >= patience_ns;
  if (away == NULL)
    {
      pulse->sent_ns = now_ns;
      pulse->is_reported = FALSE;
      for (guint i = 0; i <= pulse->n_loops; i++)
        send_beat (&pulse->beats[i]);
    }
  tps_mutex_unlock (&pulse->lock);
  if (is_late)
    *missing = away->loop != NULL ? g_strdup_printf ("I/O thread %u", (guint) (away - pulse->beats))
                                  : g_strdup ("workers");
  return !is_late;
}

gboolean
tps_pulse_begin_report (TpsPulse *pulse)
{
  gboolean is_first;

  TPS_LOCK_SCOPE (&pulse->lock);
  is_first = !pulse->is_reported;
  pulse->is_reported = TRUE;
  return is_first;
}
