/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/server/pulse.h"

#include "runtime/base/sync.h"

typedef struct
{
  TpsPulse *pulse; /* a reference until the beat returns */
  TpsLoop *loop;   /* NULL: the beat of the workers */
  atomic_bool is_away;
} Beat;

struct TpsPulse
{
  TpsRefcount refcount; /* one of the owner, and one of each beat that has not returned */
  TpsWorkerPool *workers;
  guint64 timer; /* of the workers' beat; the owner's thread only */
  guint n_loops;
  Beat beats[]; /* [n_loops + 1]; the last one is the workers' */
};

TpsPulse *
tps_pulse_new (TpsLoop *const *loops, guint n_loops, TpsWorkerPool *workers)
{
  TpsPulse *pulse = g_malloc0 (sizeof (TpsPulse) + (n_loops + 1) * sizeof (Beat));

  tps_refcount_init (&pulse->refcount);
  pulse->workers = workers;
  pulse->n_loops = n_loops;
  for (guint i = 0; i <= n_loops; i++)
    pulse->beats[i] = (Beat) { .pulse = pulse, .loop = i < n_loops ? loops[i] : NULL };
  return pulse;
}

static void
pulse_unref (TpsPulse *pulse)
{
  if (tps_refcount_dec (&pulse->refcount))
    g_free (pulse);
}

/* If the timer is cancelled here, its beat does not return, so its reference is released. */
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

gboolean
tps_pulse_check (TpsPulse *pulse, gchar **missing)
{
  for (guint i = 0; i <= pulse->n_loops; i++)
    if (atomic_load (&pulse->beats[i].is_away))
      {
        *missing = i < pulse->n_loops ? g_strdup_printf ("I/O thread %u", i) : g_strdup ("workers");
        return FALSE;
      }
  for (guint i = 0; i <= pulse->n_loops; i++)
    send_beat (&pulse->beats[i]);
  return TRUE;
}
