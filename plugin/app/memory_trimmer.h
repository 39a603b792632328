/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Gives freed memory of the program back to the system. The C allocator keeps holes between blocks
 * that are in use, which no budget counts. Thread: one at a time. */

#pragma once

#include "runtime/server/budgets.h"

G_BEGIN_DECLS

typedef struct
{
  const TpsBudgets *budgets;
  gsize highest; /* bytes that the process was charged since the last trim */
  guint n_turns;
  guint n_turns_to_settle; /* turns until the trim that follows a fall of the budgets; 0 = none */
} TpsMemoryTrimmer;

/* `budgets` is borrowed and must outlive the last turn. */
TpsMemoryTrimmer tps_memory_trimmer (const TpsBudgets *budgets);

/* Must be called four times a second. Takes some microseconds, or milliseconds if memory is given
 * back. */
void tps_memory_trimmer_turn (TpsMemoryTrimmer *trimmer);

/* Freed memory goes back to the system at once. By default glibc raises both thresholds when large
 * blocks are freed, and each of its arenas then keeps up to 64 MiB beside all budgets. Must be
 * called before there are threads. */
void tps_memory_trimmer_set_allocator (void);

G_END_DECLS
