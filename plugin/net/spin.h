/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The decision of an idle loop to spin, that is, to poll for events for a while before it sleeps.
 * Waking a thread takes longer than a small call, but spinning may waste a core that another thread
 * needs. A loop therefore spins for a bounded time, only if its last waits were short and few other
 * loops are busy, and not for many waits after another thread has needed its core. This module uses
 * neither a clock nor a system call. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The state of one loop; used by its thread only. */
typedef struct
{
  gint64 budget_ns; /* limit of a spin; 0 = never */
  guint score;
  guint rest;      /* waits without a spin after the last contention */
  guint n_resting; /* waits left without a spin */
  /* time for which the core did something else during spins, less an allowance for interrupts */
  gint64 lost_ns;
  gint64 lost_at_ns;
} TpsSpin;

/* Initialises the state. `budget_ns` is the limit of one spin; 0 = the loop never spins. */
void tps_spin_init (TpsSpin *spin, gint64 budget_ns);

/* Returns TRUE if a spin is allowed and, as earlier waits show, the next wait is likely short. */
gboolean tps_spin_is_worthwhile (const TpsSpin *spin);

typedef enum
{
  TPS_SPIN_NONE,  /* the loop did not spin */
  TPS_SPIN_FOUND, /* the event came during the spin */
  TPS_SPIN_MISS,  /* the event came after the spin */
} TpsSpinResult;

void tps_spin_add_wait (TpsSpin *spin, gint64 waited_ns, TpsSpinResult result);

/* Records that `gap_ns` passed between two polls, the later one at `now_ns`. In a long gap, the
 * core served an interrupt (tens of microseconds on a virtual machine) or ran another thread; the
 * share of the lost time distinguishes the two. Returns FALSE for another thread: the loop then
 * does not spin during a number of waits, which quadruples each time, within limits, and shrinks
 * with success. */
gboolean tps_spin_add_gap (TpsSpin *spin, gint64 now_ns, gint64 gap_ns);

/* Returns the limit of a spin in nanoseconds. `text` is the limit in microseconds, from 0 to
 * 10,000. If it is NULL or invalid, the limit is `default_us`; an invalid value is logged as a
 * warning. */
gint64 tps_spin_choose_budget (const gchar *text, gsize default_us);

/* The spinning loops of a process. Thread: any. */
typedef struct TpsSpinners TpsSpinners;

/* Creates the state, owned by the caller; `limit` loops of the process may spin at a time. */
TpsSpinners *tps_spinners_new (guint limit);
void tps_spinners_free (TpsSpinners *spinners);

/* Returns the number of a slot, which the loop keeps for its lifetime. If there are many loops,
 * some of them share a slot and count as one. */
guint tps_spinners_take_slot (TpsSpinners *spinners);

void tps_spinners_add_event (TpsSpinners *spinners, guint slot, gint64 now_ns);

/* Returns TRUE if more loops than may spin at a time had an event in the last
 * TPS_SPINNERS_RECENT_NS. These loops need all cores, so none should spin. */
#define TPS_SPINNERS_RECENT_NS 2000000
gboolean tps_spinners_is_crowded (const TpsSpinners *spinners, gint64 now_ns);

/* Begin and end a spin. enter() returns FALSE if the limit of spinning loops is reached. If it
 * returns TRUE, the loop must call tps_spinners_leave() after the spin. */
gboolean tps_spinners_enter (TpsSpinners *spinners);
void tps_spinners_leave (TpsSpinners *spinners);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSpinners, tps_spinners_free)

G_END_DECLS
