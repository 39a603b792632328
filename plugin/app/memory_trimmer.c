/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/memory_trimmer.h"

#include <malloc.h>

#define MMAP_THRESHOLD_BYTES (512 << 10)
/* malloc_trim() walks through all arenas, which is too expensive for less memory than this. */
#define MIN_TRIM_BYTES ((gsize) 16 << 20)
/* Every RECLAIM_TURNS turns (five seconds), half of the kept buffers is freed. Buffers in constant
 * use are soon kept again. */
#define RECLAIM_TURNS 20
#define MIN_RECLAIM_BYTES (1 << 20)
/* The number of turns from a trim to a second one. Connections and the caches of threads free their
 * blocks some time after the charge of the process has fallen. */
#define SETTLE_TURNS 40

TpsMemoryTrimmer
tps_memory_trimmer (const TpsBudgets *budgets)
{
  return (TpsMemoryTrimmer) { .budgets = budgets };
}

void
tps_memory_trimmer_turn (TpsMemoryTrimmer *trimmer)
{
  gsize kept = tps_budget_get_held (trimmer->budgets->kept);
  gsize held;

  if (++trimmer->n_turns % RECLAIM_TURNS == 0 && kept >= MIN_RECLAIM_BYTES)
    tps_budget_reclaim (trimmer->budgets->kept, kept / 2);
  held = tps_budget_get_held (trimmer->budgets->process);
  trimmer->highest = MAX (trimmer->highest, held);
  if (trimmer->highest - held >= MIN_TRIM_BYTES)
    {
      malloc_trim (0);
      trimmer->highest = held;
      trimmer->n_turns_to_settle = SETTLE_TURNS;
    }
  else if (trimmer->n_turns_to_settle > 0 && --trimmer->n_turns_to_settle == 0)
    malloc_trim (0);
}

void
tps_memory_trimmer_set_allocator (void)
{
  /* Explicit values also stop glibc from raising both thresholds when large blocks are freed. */
  mallopt (M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
  mallopt (M_TRIM_THRESHOLD, MMAP_THRESHOLD_BYTES);
}
