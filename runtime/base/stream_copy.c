/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One core can move only a limited number of bytes per second between memory and itself. An
 * ordinary store first reads the memory that it overwrites; a non-temporal store does not. Without
 * this read, a copy of memory that is in no cache is 1.5 times as fast. The C library also uses
 * non-temporal stores (large_memcpy_4x in glibc's memmove-vec-unaligned-erms.S), but only for
 * copies beyond 3/4 of the last-level cache. On servers with hundreds of MiB of cache, which many
 * programs share, no copy is that large.
 *
 * The best order of the copy depends on the processor. On Intel, four pages are copied side by
 * side, so that four rows of memory are open and four of the processor's prefetchers run. On AMD's
 * Zen 3, this order reaches only a quarter to a third of the speed of copying one page after the
 * other (bench/EXPERIMENTS.md). */

#include "runtime/base/stream_copy.h"

#include <string.h>

#include "runtime/base/parallel.h"
#include "runtime/machine/machine.h"
#include "runtime/base/outcome.h"
#include "runtime/machine/tuning.h"

#if defined(__SSE2__)

#include <emmintrin.h>

#define LINE_BYTES ((gsize) 64)
#define AHEAD_BYTES ((gsize) 1024)  /* the distance of prefetches in stream_lines() */
#define STEP_BYTES (2 * LINE_BYTES) /* of each page in turn, since lines are fetched in pairs */
#define PAGE_BYTES ((gsize) 4096)
#define GROUP_PAGES 4
#define GROUP_BYTES (GROUP_PAGES * PAGE_BYTES)

/* Copies one line. `to` must be the beginning of a line. */
static inline void
stream_line (guint8 *to, const guint8 *from)
{
  const __m128i *source = (const __m128i *) (gconstpointer) from;
  __m128i *target = (__m128i *) (gpointer) to;
  __m128i a = _mm_loadu_si128 (source), b = _mm_loadu_si128 (source + 1);
  __m128i c = _mm_loadu_si128 (source + 2), d = _mm_loadu_si128 (source + 3);

  _mm_stream_si128 (target, a);
  _mm_stream_si128 (target + 1, b);
  _mm_stream_si128 (target + 2, c);
  _mm_stream_si128 (target + 3, d);
}

/* Copies one page after another. A prefetch beyond the end has no effect. */
static void
stream_lines (guint8 *to, const guint8 *from)
{
  for (gsize at = 0; at < GROUP_BYTES; at += LINE_BYTES)
    {
      __builtin_prefetch (from + at + AHEAD_BYTES, 0, 0);
      stream_line (to + at, from + at);
    }
}

/* Copies the pages of a group side by side. */
static void
stream_pages (guint8 *to, const guint8 *from)
{
  for (gsize at = 0; at < PAGE_BYTES; at += STEP_BYTES)
    for (gsize page = 0; page < GROUP_BYTES; page += PAGE_BYTES)
      for (gsize line = 0; line < STEP_BYTES; line += LINE_BYTES)
        stream_line (to + page + at + line, from + page + at + line);
}

static void
stream (guint8 *to, const guint8 *from, gsize n_bytes)
{
  gboolean is_side_by_side = tps_tuning_get ()->fetch_bytes > LINE_BYTES;
  /* The bytes before the first whole line of `to`. */
  gsize n_done = MIN (-(gsize) to % LINE_BYTES, n_bytes);

  memcpy (to, from, n_done);
  for (; n_bytes - n_done >= GROUP_BYTES; n_done += GROUP_BYTES)
    if (is_side_by_side)
      stream_pages (to + n_done, from + n_done);
    else
      stream_lines (to + n_done, from + n_done);
  memcpy (to + n_done, from + n_done, n_bytes - n_done);
  _mm_sfence (); /* orders these stores before the store that notifies the reader */
}

#else

static void
stream (guint8 *to, const guint8 *from, gsize n_bytes)
{
  memcpy (to, from, n_bytes);
}

#endif

/* ---- copies by several threads -------------------------------------------------------------- */

/* One core copies a block in about 100 us. A shorter time would not outlast the spins of other
 * threads (see stream_with_helpers()). */
#define BLOCK_BYTES ((gsize) 1 << 20)

typedef struct
{
  guint8 *to;
  const guint8 *from;
  gsize n_bytes;
  TpsOutcome end;
} SharedCopy;

static void
copy_blocks (gpointer user_data, guint first_block, guint n_blocks)
{
  SharedCopy *copy = user_data;
  gsize begin = first_block * BLOCK_BYTES;

  stream (copy->to + begin, copy->from + begin,
          MIN (n_blocks * BLOCK_BYTES, copy->n_bytes - begin));
}

static void
end_copy (gpointer user_data)
{
  SharedCopy *copy = user_data;

  tps_outcome_set (&copy->end, NULL);
}

/* The workers of the process, never freed. NULL if there is only one core, or if no thread could be
 * started. */
static TpsWorkerPool *helpers;

static void
start_helpers (void)
{
  guint n_cores = tps_cores_count ();

  if (n_cores > 1)
    helpers = tps_worker_pool_try_new (
        "tps-copy", MIN (n_cores, (guint) tps_tuning_get ()->max_helpers + 1), NULL);
}

/* This thread copies the first block alone. Event loops that have just handled a reply spin for up
 * to `spin_us` before they sleep. A helper that is woken during these spins finds no idle core, and
 * would delay this thread. */
static void
stream_with_helpers (guint8 *to, const guint8 *from, gsize n_bytes)
{
  SharedCopy copy = {
    .to = to + BLOCK_BYTES,
    .from = from + BLOCK_BYTES,
    .n_bytes = n_bytes - BLOCK_BYTES,
  };
  TpsBlockWork work = {
    .n_blocks = (guint) ((copy.n_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES),
    .range_blocks = 1,
    .blocks_per_helper = 8,
    .run = copy_blocks,
    .done = end_copy,
    .user_data = &copy,
  };

  stream (to, from, BLOCK_BYTES);
  tps_outcome_init (&copy.end);
  tps_block_work_run (helpers, &work);
  tps_outcome_wait (&copy.end, NULL);
}

void
tps_stream_copy (gpointer to, gconstpointer from, gsize n_bytes)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const TpsTuning *tuning = tps_tuning_get ();

  if (n_bytes >= tuning->shared_stream_bytes)
    tps_sync_check (pthread_once (&once, start_helpers));
  if (n_bytes >= tuning->shared_stream_bytes && helpers != NULL)
    stream_with_helpers (to, from, n_bytes);
  else if (n_bytes >= tuning->stream_bytes)
    stream (to, from, n_bytes);
  else if (n_bytes > 0)
    memcpy (to, from, n_bytes);
}
