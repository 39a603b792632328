/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Whether a loop that has nothing to do looks for events again and again for a while (spins) before it sleeps.
 *
 * A sleeping thread is woken late, an idle core later still: that is longer than a small call takes. Spinning pays where the
 * next event is about to come, and costs a core where it is not, or where somebody else needs the core. So a loop spins
 * for a bounded time, only where its last waits were short, never more than half of the cores at a time, and rests for many
 * waits where another thread wanted its core meanwhile.
 * Decisions only: no clock, no system call.
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
} TpsSpin;

void tps_spin_init (TpsSpin *spin, gint64 budget_ns);

/* Whether the waits so far say that the next one will be short. */
gboolean tps_spin_is_worthwhile (const TpsSpin *spin);

/* The same, for who only looks once more: no matter whose core it is. */
gboolean tps_spin_expects_more (const TpsSpin *spin);

/* A wait ended with an event after `waited_ns`; `in_vain`: it was spun first, and the event came later. */
void tps_spin_add_wait (TpsSpin *spin, gint64 waited_ns, gboolean in_vain);

/* The last spin was in another thread's way. Each time that happens the rest doubles; without, it shrinks again. */
void tps_spin_add_contention (TpsSpin *spin);

/* `text` (may be NULL) says how many microseconds a spin may take; otherwise it is what was measured to be best: 50 us, and
 * none on one core. */
gint64 tps_spin_choose_budget (const gchar *text, guint n_cores);

/* Who may spin at a time, of all that share it: half of the cores, so none where there is only one. Thread: any. */
typedef struct TpsSpinners TpsSpinners;

TpsSpinners *tps_spinners_new (guint n_cores);
void tps_spinners_free (TpsSpinners *spinners);

/* FALSE when the limit is reached. TRUE: tps_spinners_leave() must follow. */
gboolean tps_spinners_enter (TpsSpinners *spinners);
void tps_spinners_leave (TpsSpinners *spinners);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSpinners, tps_spinners_free)

G_END_DECLS
