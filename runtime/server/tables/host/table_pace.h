/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The progress of short pushes to one table, so that a push can follow the previous push row by
 * row: before it changes a row, it waits until the previous push has passed that row. Both process
 * rows in ascending slot order, and the sequencer runs at most two pushes of a table at a time
 * (TpsOrdered.may_follow).
 *
 * Two pushes thus use two cores without sharing rows. Each stays on the thread that has its
 * gradients in the cache, and no thread needs to be woken.
 */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/server/sequencer.h"

G_BEGIN_DECLS

/* The progress of one push. A table has two entries: one for pushes whose turn has an even number,
 * and one for all others. */
typedef struct
{
  atomic_ullong number; /* of the turn */
  atomic_llong slot;    /* rows of lower slots are done */
  guint8 padding[48];   /* a different thread writes the other entry, in a different cache line */
} TpsTablePace;

/* Publishes that the command of `turn`, which may follow, begins to change rows. `pace` [2] belongs
 * to the table, and must be all zero at first. A command calls these functions in this order:
 *
 *   wait(-1) -> work that must be in order as a whole -> begin()
 *            -> wait(), publish() for the rows in order -> publish(G_MAXINT64)
 *
 * After its wait(), the next command sees all writes that this command made before begin(). */
void tps_table_pace_begin (TpsTablePace *pace, const TpsTurn *turn);

/* Publishes that all rows below `slot` are complete. */
void tps_table_pace_publish (TpsTablePace *pace, const TpsTurn *turn, gint64 slot);

/* Waits until row `slot` may be changed, and returns a larger slot: all rows below the result may
 * be changed. If `slot` is -1, waits until the previous command has called begin(). The wait has no
 * deadline: the previous command is always running, and the waiting thread yields the processor. */
gint64 tps_table_pace_wait (TpsTablePace *pace, const TpsTurn *turn, gint64 slot);

G_END_DECLS
