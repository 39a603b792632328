/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/net/spin.h"

#include <stdatomic.h>

/* Round trips of 1 KiB over TCP, p50 in us, client and server on a core each: 50 asleep, 7.6 with this. Where the scheduler puts
 * both on one core, or other work wants the cores, spins end by themselves and nothing changes (7.0 and 7.0). */
#define DEFAULT_BUDGET_US 50
#define MAX_BUDGET_US 10000
#define MAX_SCORE 16
#define MIN_SCORE 4 /* short waits in a row before the first spin */
#define MIN_REST 256
#define MAX_REST 65536

void
tps_spin_init (TpsSpin *spin, gint64 budget_ns)
{
  *spin = (TpsSpin) { .budget_ns = budget_ns };
}

gboolean
tps_spin_expects_more (const TpsSpin *spin)
{
  return spin->budget_ns > 0 && spin->score >= MIN_SCORE;
}

gboolean
tps_spin_is_worthwhile (const TpsSpin *spin)
{
  return tps_spin_expects_more (spin) && spin->n_resting == 0;
}

/* What a sleep took contains the wake-up, which a spin would not: hence twice the budget. Two or three long waits are enough to
 * stop, and where they are regularly a little too long at most a quarter of them is spun. */
void
tps_spin_add_wait (TpsSpin *spin, gint64 waited_ns, gboolean in_vain)
{
  if (in_vain)
    spin->score /= 4;
  else if (waited_ns > 2 * spin->budget_ns)
    spin->score /= 2;
  else if (spin->score < MAX_SCORE)
    spin->score++;
  if (spin->n_resting > 0)
    spin->n_resting--;
  else if (spin->rest > 0)
    spin->rest--;
}

void
tps_spin_add_contention (TpsSpin *spin)
{
  spin->rest = CLAMP (2 * spin->rest, MIN_REST, MAX_REST);
  spin->n_resting = spin->rest;
}

gint64
tps_spin_choose_budget (const gchar *text, guint n_cores)
{
  guint64 budget_us = n_cores > 1 ? DEFAULT_BUDGET_US : 0;

  if (text != NULL && !g_ascii_string_to_unsigned (text, 10, 0, MAX_BUDGET_US, &budget_us, NULL))
    g_warning ("THRIFTPS_SPIN_US is \"%s\", expected a number from 0 to %d", text, MAX_BUDGET_US);
  return (gint64) budget_us * 1000;
}

struct TpsSpinners
{
  guint limit;
  atomic_uint n_spinning;
};

TpsSpinners *
tps_spinners_new (guint n_cores)
{
  TpsSpinners *spinners = g_new0 (TpsSpinners, 1);

  spinners->limit = n_cores / 2;
  return spinners;
}

void
tps_spinners_free (TpsSpinners *spinners)
{
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
