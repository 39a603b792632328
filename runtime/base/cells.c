/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A shard contains one thread's copies of all cells. It is a directory of chunks. The thread makes
 * a chunk when it first adds to one of the chunk's cells. Threads without a shard of their own
 * share shard 0.
 *
 * Every other shard has one writer, its owner. The owner therefore uses a load, an addition and a
 * store instead of an atomic read-modify-write. When a thread exits, its shard passes to a new
 * owner by a release and an acquire of `taken`. The new owner thus sees all stores of the former
 * owner.
 */

#include "runtime/base/cells.h"

#include <stdlib.h>

#include "runtime/base/sync.h"

#define N_SHARDS 64
#define N_BLOCKS (TPS_CELL_CHUNKS * TPS_CELL_CHUNK_CELLS / TPS_CELL_BLOCK)
#define CACHE_LINE 64

static TpsCellShard shards[N_SHARDS];
/* One bit for each shard that has an owner. The bit of the shared shard 0 is always set. */
static atomic_ullong taken = 1;
/* The number of shards that a reader must visit. No later shard has ever had an owner. */
static atomic_uint n_shards = 1;

__thread TpsCellShard *tps_cell_own_shard;
/* TRUE if this thread found no free shard, and uses the shared one. */
static _Thread_local gboolean shares_first;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* gives tps_cell_own_shard back at the end of a thread */

static TpsMutex lock = TPS_MUTEX_INIT; /* guards the following */
static guint n_blocks = 1;             /* the first holds cell 0 */
static GArray *free_blocks;            /* of TpsCell: the first cell of each block */
static GArray *free_cells;             /* of TpsCell */

/* ---- shards ---------------------------------------------------------------------------------- */

/* The destructor of the key, called at the end of a thread. If a later destructor adds to a cell,
 * the thread takes a shard again. */
static void
give_back_shard (gpointer data)
{
  const TpsCellShard *shard = data;

  tps_cell_own_shard = NULL;
  atomic_fetch_and_explicit (&taken, ~(1ull << (shard - shards)), memory_order_release);
}

static void
create_key (void)
{
  tps_sync_check (pthread_key_create (&key, give_back_shard));
}

/* Raises `n_shards` so that readers visit shard `number`. */
static void
note_shard (guint number)
{
  guint n = atomic_load_explicit (&n_shards, memory_order_relaxed);

  while (n <= number && !atomic_compare_exchange_weak (&n_shards, &n, number + 1))
    ;
}

/* Takes a free shard for this thread. If there is none, returns the shared shard. */
static TpsCellShard *
take_shard (void)
{
  unsigned long long seen = atomic_load_explicit (&taken, memory_order_relaxed);
  guint number = 0;

  tps_sync_check (pthread_once (&key_once, create_key));
  do
    number = ~seen != 0 ? (guint) __builtin_ctzll (~seen) : 0;
  while (number != 0
         && !atomic_compare_exchange_weak_explicit (&taken, &seen, seen | 1ull << number,
                                                    memory_order_acquire, memory_order_relaxed));
  shares_first = number == 0;
  if (shares_first)
    return shards;
  note_shard (number);
  tps_cell_own_shard = &shards[number];
  tps_sync_check (pthread_setspecific (key, tps_cell_own_shard));
  return tps_cell_own_shard;
}

static TpsCellChunk *
add_chunk (TpsCellShard *shard, guint number)
{
  TpsCellChunk *chunk = g_aligned_alloc0 (1, sizeof *chunk, CACHE_LINE);
  TpsCellChunk *other = NULL;

  if (__atomic_compare_exchange_n (&shard->chunks[number], &other, chunk, FALSE, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE))
    return chunk;
  g_aligned_free (chunk); /* another thread was faster; possible only in the shared shard */
  return other;
}

/* Returns NULL if nothing has been added to a cell of the chunk in this shard. */
static TpsCellChunk *
find_chunk (TpsCellShard *shard, TpsCell cell)
{
  return __atomic_load_n (&shard->chunks[cell / TPS_CELL_CHUNK_CELLS], __ATOMIC_ACQUIRE);
}

static guint64 *
find_slot (TpsCellChunk *chunk, TpsCell cell)
{
  return &chunk->slots[cell % TPS_CELL_CHUNK_CELLS];
}

/* ---- adding ---------------------------------------------------------------------------------- */

static TpsCellShard *
provide_shard (void)
{
  if (tps_cell_own_shard != NULL)
    return tps_cell_own_shard;
  return shares_first ? shards : take_shard ();
}

void
tps_cell_add_anywhere (TpsCell cell, guint64 n)
{
  TpsCellShard *shard = provide_shard ();
  TpsCellChunk *chunk = find_chunk (shard, cell);

  if (chunk == NULL)
    chunk = add_chunk (shard, cell / TPS_CELL_CHUNK_CELLS);
  if (shard != shards)
    tps_cell_add (cell, n);
  else
    __atomic_fetch_add (find_slot (chunk, cell), n, __ATOMIC_RELAXED);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void
read_cells (TpsCell first, guint n_cells, guint64 *sums)
{
  guint n = first != 0 ? atomic_load (&n_shards) : 0;

  for (guint i = 0; i < n; i++)
    {
      TpsCellChunk *chunk = find_chunk (&shards[i], first);

      for (guint j = 0; chunk != NULL && j < n_cells; j++)
        sums[j] += __atomic_load_n (find_slot (chunk, first + j), __ATOMIC_RELAXED);
    }
}

guint64
tps_cell_read (TpsCell cell)
{
  guint64 sum = 0;

  read_cells (cell, 1, &sum);
  return sum;
}

void
tps_cell_block_read (TpsCell first, guint64 *sums)
{
  read_cells (first, TPS_CELL_BLOCK, sums);
}

/* ---- making and freeing ---------------------------------------------------------------------- */

static TpsCell
pop (GArray *cells)
{
  TpsCell cell = g_array_index (cells, TpsCell, cells->len - 1);

  g_array_set_size (cells, cells->len - 1);
  return cell;
}

static void
push (GArray **cells, TpsCell cell)
{
  if (*cells == NULL)
    *cells = g_array_new (FALSE, FALSE, sizeof (TpsCell));
  g_array_append_val (*cells, cell);
}

static gboolean
has_any (const GArray *cells)
{
  return cells != NULL && cells->len > 0;
}

/* Returns the first cell of an unused block; 0 if there are no more blocks. The lock is held. */
static TpsCell
provide_block (void)
{
  if (has_any (free_blocks))
    return pop (free_blocks);
  return n_blocks < N_BLOCKS ? n_blocks++ * TPS_CELL_BLOCK : 0;
}

TpsCell
tps_cell_block_new (void)
{
  TPS_LOCK_SCOPE (&lock);
  return provide_block ();
}

/* Blocks that have been cut into single cells are never joined again. */
TpsCell
tps_cell_new (void)
{
  TpsCell cell = 0;
  TpsCell first;

  TPS_LOCK_SCOPE (&lock);
  if (!has_any (free_cells) && (first = provide_block ()) != 0)
    for (guint i = TPS_CELL_BLOCK; i > 0; i--)
      push (&free_cells, first + i - 1);
  if (has_any (free_cells))
    cell = pop (free_cells);
  return cell;
}

/* Sets cells to 0 in all shards, since their next user must begin at 0. The lock is held. */
static void
clear_cells (TpsCell first, guint n_cells)
{
  guint n = atomic_load (&n_shards);

  for (guint i = 0; i < n; i++)
    {
      TpsCellChunk *chunk = find_chunk (&shards[i], first);

      for (guint j = 0; chunk != NULL && j < n_cells; j++)
        __atomic_store_n (find_slot (chunk, first + j), 0, __ATOMIC_RELAXED);
    }
}

void
tps_cell_free (TpsCell cell)
{
  if (cell == 0)
    return;
  TPS_LOCK_SCOPE (&lock);
  clear_cells (cell, 1);
  push (&free_cells, cell);
}

void
tps_cell_block_free (TpsCell first)
{
  if (first == 0)
    return;
  TPS_LOCK_SCOPE (&lock);
  clear_cells (first, TPS_CELL_BLOCK);
  push (&free_blocks, first);
}
