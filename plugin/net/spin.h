/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Whether a loop that has nothing to do looks for events again and again for a while (spins) before
 * it sleeps.
 *
 * A sleeping thread is woken late, an idle core later still: that is longer than a small call
 * takes. Spinning pays where the next event is about to come, and costs a core where it is not, or
 * where somebody else needs the core. So a loop spins for a bounded time, only where its last waits
 * were short and hardly any other loop has work, and rests for many waits where another thread
 * wanted its core meanwhile. Decisions only: no clock, no system call.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Of one loop; its thread only. */
typedef struct
{
  gint64 budget_ns; /* a spin takes no longer; 0 = never */
  guint score;
  guint rest;      /* waits to rest after the next contention, at least */
  guint n_resting; /* waits to come without a spin */
  gint64 lost_ns;  /* that others had the core while this loop spun, as far as it is not forgiven */
  gint64 lost_at_ns;
} TpsSpin;

void tps_spin_init (TpsSpin *spin, gint64 budget_ns);

/* Whether the waits so far say that the next one will be short. */
gboolean tps_spin_is_worthwhile (const TpsSpin *spin);

typedef enum
{
  TPS_SPIN_NONE,
  TPS_SPIN_FOUND,
  TPS_SPIN_VAIN, /* the event came later */
} TpsSpinResult;

/* A wait ended with an event after `waited_ns`. */
void tps_spin_add_wait (TpsSpin *spin, gint64 waited_ns, TpsSpinResult result);

/* Between two looks, the later one at `now_ns`, `gap_ns` went by. Others had the core meanwhile
 * when that is long: the timer's interrupt, which takes tens of microseconds on a virtual machine
 * and says nothing, or a thread that needs it. FALSE: it has been a thread, by the share of the
 * time that was lost; the loop rests, four times as long each time. Spins that find something make
 * the next rest shorter again. */
gboolean tps_spin_add_gap (TpsSpin *spin, gint64 now_ns, gint64 gap_ns);

/* `text` (may be NULL) says how many microseconds a spin may take; otherwise it is what was
 * measured to be best: 50 us, and none on one core. */
gint64 tps_spin_choose_budget (const gchar *text, guint n_cores);

/* What the loops of a process know of each other. Half of the cores is for spinning, so none where
 * there is only one. Thread: any. */
typedef struct TpsSpinners TpsSpinners;

TpsSpinners *tps_spinners_new (guint n_cores);
void tps_spinners_free (TpsSpinners *spinners);

/* A loop's slot, for life. When there are many loops some share one, and count as one. */
guint tps_spinners_take_slot (TpsSpinners *spinners);

/* The loop in this slot had an event. */
void tps_spinners_add_event (TpsSpinners *spinners, guint slot, gint64 now_ns);

/* More loops than may spin had an event in the last TPS_SPINNERS_RECENT_NS: all of them have a use
 * for the cores. */
#define TPS_SPINNERS_RECENT_NS 2000000
gboolean tps_spinners_is_crowded (const TpsSpinners *spinners, gint64 now_ns);

/* FALSE when as many spin as may. TRUE: tps_spinners_leave() must follow. */
gboolean tps_spinners_enter (TpsSpinners *spinners);
void tps_spinners_leave (TpsSpinners *spinners);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSpinners, tps_spinners_free)

G_END_DECLS
