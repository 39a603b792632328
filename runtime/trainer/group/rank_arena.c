/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/group/rank_arena.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/base/sync.h"
#include "runtime/trainer/group/rank_memory.h"

/* Available since Linux 5.14. An older kernel refuses this advice, and the arena then provides no
 * buffers. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Buffers begin and end at multiples of UNIT_BYTES, a multiple of the page size of every system.
 * The first unit of a part contains no buffer, because the part begins with the token of its
 * file. */
#define UNIT_BYTES (64 * 1024)

/* A range of bytes of this rank's part. */
typedef struct
{
  guint64 begin, end;
} Range;

struct TpsRankArena
{
  gatomicrefcount n_refs; /* one for the creator and one for each buffer */
  guint rank;
  guint size;
  gint fd; /* of this rank's part; -1 after the part has been closed to further ranks */
  guint8 *parts[TPS_RANK_MEMORY_MAX_RANKS];
  TpsMutex lock;
  GArray *taken; /* Range, sorted; under the lock */
};

/* The range of a buffer, with its reference to the arena. */
typedef struct
{
  TpsRankArena *arena;
  Range range;
} Claim;

/* -- opening and closing -- */

static guint8 *
map (gint fd)
{
  void *part = mmap (NULL, TPS_RANK_ARENA_PART_BYTES, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_NORESERVE, fd, 0);

  if (part == MAP_FAILED)
    return NULL;
  madvise (part, TPS_RANK_ARENA_PART_BYTES, MADV_DONTDUMP);
  return part;
}

/* Returns TRUE if the address space of the process is not limited (`ulimit -v`). The parts would
 * exhaust a limited address space. */
static gboolean
may_have_all_addresses (void)
{
  struct rlimit limit;

  return getrlimit (RLIMIT_AS, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

TpsRankArena *
tps_rank_arena_new (guint rank, guint size, TpsRankFileAddress *address)
{
  TpsRankArena *arena;
  guint8 *part = NULL;
  gint fd;

  if (size > TPS_RANK_MEMORY_MAX_RANKS || sizeof (gsize) < sizeof (guint64)
      || !may_have_all_addresses ())
    return NULL;
  fd = tps_rank_file_create (TPS_RANK_ARENA_PART_BYTES, address);
  if (fd < 0)
    return NULL;
  part = map (fd);
  if (part == NULL)
    {
      close (fd);
      return NULL;
    }
  arena = g_new0 (TpsRankArena, 1);
  g_atomic_ref_count_init (&arena->n_refs);
  arena->rank = rank;
  arena->size = size;
  arena->fd = fd;
  arena->parts[rank] = part;
  tps_mutex_init (&arena->lock);
  arena->taken = g_array_new (FALSE, FALSE, sizeof (Range));
  return arena;
}

gboolean
tps_rank_arena_open (TpsRankArena *arena, guint rank, const TpsRankFileAddress *address)
{
  gint fd = tps_rank_file_open (address, TPS_RANK_ARENA_PART_BYTES);

  if (fd < 0)
    return FALSE;
  arena->parts[rank] = map (fd);
  close (fd);
  return arena->parts[rank] != NULL;
}

void
tps_rank_arena_close_door (TpsRankArena *arena)
{
  if (arena->fd >= 0)
    close (arena->fd);
  arena->fd = -1;
}

void
tps_rank_arena_unref (TpsRankArena *arena)
{
  if (!g_atomic_ref_count_dec (&arena->n_refs))
    return;
  tps_rank_arena_close_door (arena);
  for (guint r = 0; r < arena->size; r++)
    if (arena->parts[r] != NULL)
      munmap (arena->parts[r], TPS_RANK_ARENA_PART_BYTES);
  g_array_unref (arena->taken);
  tps_mutex_clear (&arena->lock);
  g_free (arena);
}

/* -- buffers -- */

/* Takes the first free range of `n_bytes`. Returns FALSE if there is none. */
static gboolean
take_range (TpsRankArena *arena, guint64 n_bytes, Range *range)
{
  guint64 begin = UNIT_BYTES;
  guint i = 0;

  TPS_LOCK_SCOPE (&arena->lock);
  for (; i < arena->taken->len; i++)
    {
      const Range *taken = &g_array_index (arena->taken, Range, i);

      if (taken->begin - begin >= n_bytes)
        break;
      begin = taken->end;
    }
  *range = (Range) { begin, begin + n_bytes };
  if (range->end <= TPS_RANK_ARENA_PART_BYTES)
    g_array_insert_val (arena->taken, i, *range);
  return range->end <= TPS_RANK_ARENA_PART_BYTES;
}

/* Releases a range. Its memory is released first: as soon as the range is removed from `taken`,
 * another thread may take it. */
static void
release_range (TpsRankArena *arena, const Range *range)
{
  guint i = 0;

  madvise (arena->parts[arena->rank] + range->begin, range->end - range->begin, MADV_REMOVE);
  TPS_LOCK_SCOPE (&arena->lock);
  while (g_array_index (arena->taken, Range, i).begin != range->begin)
    i++;
  g_array_remove_index (arena->taken, i);
}

static void
claim_free (gpointer data)
{
  Claim *claim = data;

  release_range (claim->arena, &claim->range);
  tps_rank_arena_unref (claim->arena);
  g_free (claim);
}

TpsBuffer *
tps_rank_arena_take (TpsRankArena *arena, gsize n_bytes)
{
  Claim *claim;
  guint8 *data;
  Range range;

  if (n_bytes == 0 || n_bytes > TPS_RANK_ARENA_PART_BYTES - UNIT_BYTES)
    return NULL;
  if (!take_range (arena, (n_bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES, &range))
    return NULL;
  data = arena->parts[arena->rank] + range.begin;
  /* If the system has no memory left, this call fails. Otherwise a later write to the buffer would
   * terminate the process. */
  if (madvise (data, range.end - range.begin, MADV_POPULATE_WRITE) != 0)
    {
      release_range (arena, &range);
      return NULL;
    }
  claim = g_new (Claim, 1);
  *claim = (Claim) { arena, range };
  g_atomic_ref_count_inc (&arena->n_refs);
  return tps_buffer_new_foreign (data, n_bytes, NULL, claim_free, claim);
}

guint64
tps_rank_arena_find (const TpsRankArena *arena, gconstpointer data)
{
  gsize part = (gsize) arena->parts[arena->rank];
  gsize address = (gsize) data;

  return address > part && address - part < TPS_RANK_ARENA_PART_BYTES ? address - part : 0;
}

guint8 *
tps_rank_arena_at (const TpsRankArena *arena, guint rank, guint64 place, gsize n_bytes)
{
  if (place == 0 || place > TPS_RANK_ARENA_PART_BYTES
      || n_bytes > TPS_RANK_ARENA_PART_BYTES - place)
    return NULL;
  return arena->parts[rank] + place;
}
