/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A command uses the entry of the command before the previous one: their numbers are both odd or
 * both even. It begins when that one has ended, so a reader that finds a later number need not
 * wait. `slot` is reset before `number` is set, and read after it. With the awaited number, `slot`
 * is therefore that of the awaited command or of the one after, which is not further than the
 * reader.
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
