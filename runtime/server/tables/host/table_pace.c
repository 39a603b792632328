/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Commands N and N + 2 use the same entry, because their numbers are both odd or both even. Command
 * N + 2 begins after command N has ended. A reader that waits for command N and finds a later
 * number in the entry therefore need not wait.
 *
 * A writer resets `slot` before it sets `number`. A reader reads `number` first and `slot` second.
 * If the reader finds the awaited number N, `slot` belongs to command N, or already to command
 * N + 2. Command N + 2 follows the reader, which is command N + 1. Its slot is therefore not beyond
 * the row for which the reader waits, and cannot end the wait.
 */

#include "runtime/server/tables/host/table_pace.h"

#include <sched.h>

#include "runtime/base/planted_bug.h"
#include "runtime/machine/tuning.h"

static TpsTablePace *
entry_of (TpsTablePace *pace, guint64 number)
{
  return &pace[number % 2];
}

gint64
tps_table_pace_wait (TpsTablePace *pace, const TpsTurn *turn, gint64 slot)
{
  guint64 before = turn->number - 1;
  TpsTablePace *entry = entry_of (pace, before);

  TPS_PLANT ("push-overtakes", return G_MAXINT64);
  if (!turn->ordered->is_following)
    return G_MAXINT64;
  for (guint n_spins = 1;; n_spins++)
    {
      guint64 number = atomic_load_explicit (&entry->number, memory_order_acquire);
      gint64 done = atomic_load_explicit (&entry->slot, memory_order_acquire);

      if (number > before)
        return G_MAXINT64;
      if (number == before && done > slot)
        return done;
      if (n_spins % tps_tuning_get ()->lock_spins == 0)
        sched_yield ();
    }
}

void
tps_table_pace_begin (TpsTablePace *pace, const TpsTurn *turn)
{
  TpsTablePace *entry = entry_of (pace, turn->number);

  atomic_store_explicit (&entry->slot, 0, memory_order_relaxed);
  atomic_store_explicit (&entry->number, turn->number, memory_order_release);
}

void
tps_table_pace_publish (TpsTablePace *pace, const TpsTurn *turn, gint64 slot)
{
  atomic_store_explicit (&entry_of (pace, turn->number)->slot, slot, memory_order_release);
}
