/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/net/spin.h"

#include <stdatomic.h>

/* The following constants are durations of timers and wake-ups of the system, or numbers of waits.
 * They do not depend on the machine. */
#define MAX_BUDGET_US 10000
#define MAX_SCORE 16
#define MIN_SCORE 4 /* consecutive short waits before the first spin */
#define MIN_REST 64
#define MAX_REST 65536
#define MIN_SLOTS 16
#define MIN_GAP_NS 20000
#define MAX_LOST_NS 300000 /* in addition to the allowed share */
#define ALLOWED_SHARE 16   /* 1/16 of the time may be lost */

void
tps_spin_init (TpsSpin *spin, gint64 budget_ns)
{
  *spin = (TpsSpin) { .budget_ns = budget_ns };
}

gboolean
tps_spin_is_worthwhile (const TpsSpin *spin)
{
  return spin->budget_ns > 0 && spin->score >= MIN_SCORE && spin->n_resting == 0;
}

/* The duration of a sleep includes the wake-up, which a spin avoids, so the limit is twice the
 * budget. Two or three long waits stop the spinning. If waits are regularly a little too long, the
 * loop spins in at most a quarter of them. */
void
tps_spin_add_wait (TpsSpin *spin, gint64 waited_ns, TpsSpinResult result)
{
  if (result == TPS_SPIN_MISS)
    spin->score /= 4;
  else if (waited_ns > 2 * spin->budget_ns)
    spin->score /= 2;
  else if (spin->score < MAX_SCORE)
    spin->score++;
  if (spin->n_resting > 0)
    spin->n_resting--;
  if (result == TPS_SPIN_FOUND && spin->rest > 0)
    spin->rest--;
}

/* A poll takes less than a microsecond. If the peer processes a message on the same core, this
 * takes a few microseconds. Such short gaps are ignored. */
gboolean
tps_spin_add_gap (TpsSpin *spin, gint64 now_ns, gint64 gap_ns)
{
  if (gap_ns < MIN_GAP_NS)
    return TRUE;
  spin->lost_ns -= MIN (spin->lost_ns, (now_ns - spin->lost_at_ns) / ALLOWED_SHARE);
  spin->lost_ns += gap_ns;
  spin->lost_at_ns = now_ns;
  if (spin->lost_ns <= MAX_LOST_NS)
    return TRUE;
  spin->lost_ns = 0;
  spin->rest = CLAMP (4 * spin->rest, MIN_REST, MAX_REST);
  spin->n_resting = spin->rest;
  return FALSE;
}

gint64
tps_spin_choose_budget (const gchar *text, gsize default_us)
{
  guint64 budget_us = default_us;

  if (text != NULL && !g_ascii_string_to_unsigned (text, 10, 0, MAX_BUDGET_US, &budget_us, NULL))
    g_warning ("THRIFTPS_SPIN_US is \"%s\", expected a number from 0 to %d", text, MAX_BUDGET_US);
  return (gint64) budget_us * 1000;
}

/* Each slot has its own cache line. Its loop writes it with every event, and other loops read it
 * only while few loops are busy. */
typedef struct
{
  _Alignas(64) _Atomic gint64 last_event_ns;
} Slot;

struct TpsSpinners
{
  guint limit;
  atomic_uint n_spinning;
  atomic_uint n_taken;
  guint n_slots;
  Slot *slots;
};

TpsSpinners *
tps_spinners_new (guint limit)
{
  TpsSpinners *spinners = g_new0 (TpsSpinners, 1);

  spinners->limit = limit;
  spinners->n_slots = MAX (2 * limit, MIN_SLOTS);
  spinners->slots = g_aligned_alloc0 (spinners->n_slots, sizeof (Slot), _Alignof(Slot));
  for (guint i = 0; i < spinners->n_slots; i++)
    atomic_init (&spinners->slots[i].last_event_ns, G_MININT64 / 2);
  return spinners;
}

guint
tps_spinners_take_slot (TpsSpinners *spinners)
{
  return atomic_fetch_add_explicit (&spinners->n_taken, 1, memory_order_relaxed)
         % spinners->n_slots;
}

void
tps_spinners_add_event (TpsSpinners *spinners, guint slot, gint64 now_ns)
{
  atomic_store_explicit (&spinners->slots[slot].last_event_ns, now_ns, memory_order_relaxed);
}

gboolean
tps_spinners_is_crowded (const TpsSpinners *spinners, gint64 now_ns)
{
  guint n_recent = 0;

  for (guint i = 0; i < spinners->n_slots && n_recent <= spinners->limit; i++)
    n_recent += now_ns
                    - atomic_load_explicit (&spinners->slots[i].last_event_ns, memory_order_relaxed)
                < TPS_SPINNERS_RECENT_NS;
  return n_recent > spinners->limit;
}

void
tps_spinners_free (TpsSpinners *spinners)
{
  g_aligned_free (spinners->slots);
  g_free (spinners);
}

gboolean
tps_spinners_enter (TpsSpinners *spinners)
{
  guint n = atomic_load_explicit (&spinners->n_spinning, memory_order_relaxed);

  while (n < spinners->limit)
    if (atomic_compare_exchange_weak_explicit (&spinners->n_spinning, &n, n + 1,
                                               memory_order_relaxed, memory_order_relaxed))
      return TRUE;
  return FALSE;
}

void
tps_spinners_leave (TpsSpinners *spinners)
{
  atomic_fetch_sub_explicit (&spinners->n_spinning, 1, memory_order_relaxed);
}
