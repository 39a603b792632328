/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The decision of an idle loop to spin, that is, to poll for events for a while before it sleeps.
 *
 * Waking a thread takes longer than a small call, in particular on an idle core. Spinning saves
 * that time if the next event comes soon. Otherwise it wastes a core that another thread may need.
 * A loop therefore spins for a bounded time, only if its last waits were short and hardly any other
 * loop has work. After another thread needed its core, the loop does not spin for many waits. This
 * file only decides; it uses neither a clock nor a system call.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The state of one loop; used by its thread only. */
typedef struct
{
  gint64 budget_ns; /* limit of a spin; 0 = never */
  guint score;
  guint rest;      /* minimum number of waits to rest after the next contention */
  guint n_resting; /* waits left without a spin */
  /* time that others used the core during spins, less an allowance for interrupts */
  gint64 lost_ns;
  gint64 lost_at_ns;
} TpsSpin;

/* `budget_ns` is the limit of one spin; 0 = the loop never spins. */
void tps_spin_init (TpsSpin *spin, gint64 budget_ns);

/* Returns whether the next wait will probably be short, judging by earlier waits. */
gboolean tps_spin_is_worthwhile (const TpsSpin *spin);

typedef enum
{
  TPS_SPIN_NONE,
  TPS_SPIN_FOUND,
  TPS_SPIN_MISS, /* the event came later */
} TpsSpinResult;

/* Records that a wait ended with an event after `waited_ns`. */
void tps_spin_add_wait (TpsSpin *spin, gint64 waited_ns, TpsSpinResult result);

/* Records that `gap_ns` passed between two polls, of which the later one was at `now_ns`. If the
 * gap is long, something else used the core: a timer interrupt, which takes tens of microseconds on
 * a virtual machine and is no reason to stop, or another thread. The share of the lost time
 * distinguishes the two. Returns FALSE if another thread used the core. The loop then does not spin
 * for a number of waits, which is four times as large after each such result. Successful spins
 * shorten the next rest. */
gboolean tps_spin_add_gap (TpsSpin *spin, gint64 now_ns, gint64 gap_ns);

/* Returns the limit of a spin in nanoseconds. `text` is the limit in microseconds; NULL or an
 * invalid number stands for `default_us`. */
gint64 tps_spin_choose_budget (const gchar *text, gsize default_us);

/* The spinning loops of a process. Thread: any. */
typedef struct TpsSpinners TpsSpinners;

/* Creates the state for a process in which `limit` loops may spin at a time; the caller owns it. */
TpsSpinners *tps_spinners_new (guint limit);
void tps_spinners_free (TpsSpinners *spinners);

/* Returns a slot, which the loop keeps. If there are many loops, some share a slot and count as
 * one. */
guint tps_spinners_take_slot (TpsSpinners *spinners);

/* Records that the loop in this slot had an event. */
void tps_spinners_add_event (TpsSpinners *spinners, guint slot, gint64 now_ns);

/* Too many loops are busy if more loops than may spin had an event in the last
 * TPS_SPINNERS_RECENT_NS: all of them need the cores. */
#define TPS_SPINNERS_RECENT_NS 2000000
gboolean tps_spinners_is_crowded (const TpsSpinners *spinners, gint64 now_ns);

/* Returns FALSE if the limit of spinning loops is reached. TRUE: the loop must call
 * tps_spinners_leave() after the spin. */
gboolean tps_spinners_enter (TpsSpinners *spinners);
void tps_spinners_leave (TpsSpinners *spinners);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSpinners, tps_spinners_free)

G_END_DECLS
