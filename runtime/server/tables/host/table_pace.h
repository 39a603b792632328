/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A push to one table runs close behind the one before it: row by row it waits until that one is
 * past. Both take rows by ascending slots, and the sequencer lets at most two of a table run at a
 * time (TpsOrdered.may_follow).
 *
 * Two pushes so share the cores without sharing their rows: each stays on the thread that has its
 * gradients in the cache, and no thread must be woken.
 */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/server/sequencer.h"

G_BEGIN_DECLS

/* How far the push with an odd, or an even, number of its turn has come. */
typedef struct
{
  atomic_ullong number; /* of the turn */
  atomic_llong slot;    /* rows of lower slots are done */
  guint8 padding[48];   /* another cache line for the other one, which another thread writes */
} TpsTablePace;

/* `pace` [2] is the table's, all zero at first; `turn` is that of a command that may follow.
 *
 *   wait(-1) -> what must be in order as a whole -> begin()
 *            -> wait(), publish() as the rows go by -> publish(G_MAXINT64)
 *
 * What one command wrote before begin() is seen by the next one after wait(). */
void tps_table_pace_begin (TpsTablePace *pace, const TpsTurn *turn);

/* Rows below `slot` are done. */
void tps_table_pace_publish (TpsTablePace *pace, const TpsTurn *turn, gint64 slot);

/* Returns, when row `slot` may be changed, the slot below which all others may. -1: the command
 * before has begun. Waits for a thread that runs, for as long as that takes; others have the
 * processor meanwhile. */
gint64 tps_table_pace_wait (TpsTablePace *pace, const TpsTurn *turn, gint64 slot);

G_END_DECLS
