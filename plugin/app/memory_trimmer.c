/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/memory_trimmer.h"

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#define MMAP_THRESHOLD_BYTES (512 << 10)
/* malloc_trim() walks through all arenas, which is too expensive for less memory than this. */
#define MIN_TRIM_BYTES ((gsize) 16 << 20)
#define MIN_UNCOUNTED_BYTES ((gint64) 64 << 20)
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
  return (TpsMemoryTrimmer) { .budgets = budgets, .uncounted = G_MAXINT64 };
}

/* Returns the memory of the process that no budget counts; negative if charged memory has not been
 * used yet. The second and the third number of the file are the resident memory and the part of it
 * that belongs to files and shared memory, in pages. */
static gint64
get_uncounted (const TpsMemoryTrimmer *trimmer)
{
  FILE *file = fopen ("/proc/self/statm", "re");
  gint64 resident = 0, shared = 0;

  if (file == NULL)
    return 0;
  if (fscanf (file, "%*d %" G_GINT64_FORMAT " %" G_GINT64_FORMAT, &resident, &shared) != 2)
    resident = shared = 0;
  fclose (file);
  return (resident - shared) * sysconf (_SC_PAGESIZE)
         - (gint64) tps_budget_get_held (trimmer->budgets->process);
}

void
tps_memory_trimmer_turn (TpsMemoryTrimmer *trimmer)
{
  gsize kept = tps_budget_get_held (trimmer->budgets->kept);
  gint64 uncounted = get_uncounted (trimmer);
  gsize held;

  if (++trimmer->n_turns % RECLAIM_TURNS == 0 && kept >= MIN_RECLAIM_BYTES)
    tps_budget_reclaim (trimmer->budgets->kept, kept / 2);
  held = tps_budget_get_held (trimmer->budgets->process);
  trimmer->highest = MAX (trimmer->highest, held);
  trimmer->uncounted = MIN (trimmer->uncounted, uncounted);
  if (trimmer->highest - held >= MIN_TRIM_BYTES
      || uncounted - trimmer->uncounted >= MIN_UNCOUNTED_BYTES)
    {
      malloc_trim (0);
      trimmer->highest = held;
      trimmer->uncounted = get_uncounted (trimmer);
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
