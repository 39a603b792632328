/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Returns freed memory of the program to the system. The C allocator keeps free blocks between
 * blocks that are in use, and no budget counts the free ones. Thread: one at a time. */

#pragma once

#include "runtime/server/budgets.h"

G_BEGIN_DECLS

typedef struct
{
  const TpsBudgets *budgets;
  gsize highest;    /* bytes: maximum charge of the process budget since the last trim */
  gint64 uncounted; /* bytes: minimum of the memory that no budget counts, since the last trim */
  guint n_turns;
  guint n_turns_to_settle; /* turns until a second trim after a fall of the budgets; 0 = none */
} TpsMemoryTrimmer;

/* Returns a trimmer for `budgets`, which are borrowed and must outlive the last turn. */
TpsMemoryTrimmer tps_memory_trimmer (const TpsBudgets *budgets);

/* Frees half of the kept buffers every five seconds. If the charge of the process has fallen by 16
 * MiB, or the memory that no budget counts has grown by 64 MiB, returns freed memory to the system.
 * Must be called four times a second. Takes about 20 us, or milliseconds if memory is returned. */
void tps_memory_trimmer_turn (TpsMemoryTrimmer *trimmer);

/* Sets thresholds of the allocator, so that freed blocks of 512 KiB or more are returned to the
 * system at once; glibc raises these thresholds, and each of its arenas then keeps up to 64 MiB
 * that no budget counts. Must be called before other threads are started. */
void tps_memory_trimmer_set_allocator (void);

G_END_DECLS
