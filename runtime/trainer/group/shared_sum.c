/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Large data in the arena of the ranks are reduced in place. The ranks exchange the places of their
 * data and meet. Each rank then takes one range of the data after another, and writes the sum of
 * each range to the data of all ranks. A rank begins with the ranges of its own share and then
 * helps the other ranks. When no range is left, all ranks meet again. Because a rank begins with
 * its own share, successive calls find the same data in the cache of the same core.
 *
 * Other data are cut into chunks, and each chunk into one segment for each rank. Every rank has
 * slots for chunks in the shared memory. A chunk needs three steps, with a meeting of all ranks
 * after the first and after the second step:
 *
 *   - from its own data, every rank copies the segments that the other ranks will sum into its slot
 *   - every rank sums its own segment over all slots, in rank order, and writes the sum to its slot
 *   - every rank copies the sums of the other segments from the slots of the other ranks
 *
 * Three chunks are in progress at a time, so one meeting for each chunk suffices. Between two
 * meetings, a rank copies chunk k into its slot, sums chunk k - 1 and copies out chunk k - 2.
 * Therefore each rank has three slots and uses them in turn. After the last read of a slot, all
 * ranks meet once more before the slot is filled again, possibly by the next call.
 *
 * A chunk is small enough (`reduce_slot_bytes` of runtime/machine/tuning.h) to stay in the
 * second-level cache from its first to its last step. The data are then read from memory once and
 * written once. Chunks must have equal sizes on all ranks. */

#include "runtime/trainer/group/shared_sum.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/trainer/group/rank_order.h"
#include "runtime/base/error.h"
#include "runtime/machine/tuning.h"

#define N_TURNS 3
#define LINE_BYTES 64
#define BLOCK_BYTES 8192 /* stays in the first-level cache */

/* The beginning of the shared memory, before the slots. Successive exchanges use the two rows of
 * weights and of places alternately, because a rank may begin the next exchange while another rank
 * still reads the row of the current exchange. */
typedef struct
{
  gdouble weights[2][TPS_RANK_MEMORY_MAX_RANKS];
  guint64 places[2][TPS_RANK_MEMORY_MAX_RANKS]; /* in the arena; 0 = elsewhere */
  /* The number of ranges that have been taken from a rank's share. In each exchange, a rank resets
   * its counter of the next exchange. This is safe for two reasons. All ranks have finished the
   * last use of that counter, two exchanges ago. And in the next exchange, a rank takes ranges only
   * after the meeting of all ranks. */
  struct
  {
    _Alignas(LINE_BYTES) _Atomic guint64 n_taken;
  } shares[N_TURNS][TPS_RANK_MEMORY_MAX_RANKS];
} Notes;

#define NOTES_BYTES 16384

struct TpsSharedSum
{
  TpsRankMemory *memory;
  TpsRankArena *arena; /* may be NULL */
  guint rank;
  guint size;
  guint n_chunks; /* number of completed chunks, modulo N_TURNS */
  guint exchange; /* number of exchanges begun, modulo 2 * N_TURNS */
  Notes *notes;
  gsize slot_bytes; /* equal on all ranks */
  guint8 *slots;    /* [N_TURNS, size, slot_bytes] */
};

gsize
tps_shared_sum_get_n_bytes (guint size)
{
  return NOTES_BYTES + N_TURNS * (gsize) size * tps_tuning_get ()->reduce_slot_bytes;
}

TpsSharedSum *
tps_shared_sum_new (TpsRankMemory *memory, TpsRankArena *arena)
{
  TpsSharedSum *shared = g_new0 (TpsSharedSum, 1);
  guint8 *data = tps_rank_memory_get_data (memory);

  G_STATIC_ASSERT (sizeof (Notes) <= NOTES_BYTES);
  shared->memory = memory;
  shared->arena = arena;
  shared->rank = tps_rank_memory_get_rank (memory);
  shared->size = tps_rank_memory_get_size (memory);
  shared->notes = (Notes *) (gpointer) data;
  shared->slot_bytes = tps_tuning_get ()->reduce_slot_bytes;
  shared->slots = data + NOTES_BYTES;
  return shared;
}

void
tps_shared_sum_free (TpsSharedSum *shared)
{
  tps_rank_memory_free (shared->memory);
  g_clear_pointer (&shared->arena, tps_rank_arena_unref);
  g_free (shared);
}

void
tps_shared_sum_break (TpsSharedSum *shared)
{
  tps_rank_memory_break (shared->memory);
}

TpsBuffer *
tps_shared_sum_get_memory (TpsSharedSum *shared, gsize n_bytes, TpsBuffer *current)
{
  if (shared->arena == NULL || n_bytes <= shared->slot_bytes)
    return NULL;
  if (current != NULL && tps_rank_arena_find (shared->arena, tps_buffer_get_data (current)) != 0)
    return tps_buffer_ref (current);
  return tps_rank_arena_take (shared->arena, n_bytes);
}

/* -- a chunk -- */

/* The data and the parameters of one call. */
typedef struct
{
  TpsSharedSum *shared;
  guint8 *data;
  gsize n_elems;
  gsize elem_size;
  const TpsAverage *average; /* NULL: a sum of floats */
  gdouble divisor;
  const gdouble *weights;                    /* [size]; NULL for a sum */
  guint8 *places[TPS_RANK_MEMORY_MAX_RANKS]; /* the data of all ranks, if they lie in the arena */
  guint turn;                                /* index of the counters in Notes.shares */
} Reduction;

/* The position of a chunk and its division into segments. */
typedef struct
{
  const Reduction *reduction;
  guint8 *data;
  gsize n_bytes;
  guint turn;
} Chunk;

static Chunk
get_chunk (const Reduction *reduction, gsize number)
{
  gsize slot_bytes = reduction->shared->slot_bytes;
  gsize start = number * slot_bytes;

  return (Chunk) {
    .reduction = reduction,
    .data = reduction->data + start,
    .n_bytes = MIN (slot_bytes, reduction->n_elems * reduction->elem_size - start),
    .turn = (reduction->shared->n_chunks + number) % N_TURNS,
  };
}

/* Segments begin at multiples of a cache line, so two ranks never write to the same line. */
static gsize
begin_of (const Chunk *chunk, guint rank)
{
  gsize n_lines = (chunk->n_bytes + LINE_BYTES - 1) / LINE_BYTES;

  return MIN (chunk->n_bytes, n_lines * rank / chunk->reduction->shared->size * LINE_BYTES);
}

static guint8 *
slot_of (const Chunk *chunk, guint rank)
{
  const TpsSharedSum *shared = chunk->reduction->shared;

  return shared->slots + (chunk->turn * shared->size + rank) * shared->slot_bytes;
}

static void
copy (guint8 *to, const guint8 *from, gsize begin, gsize end)
{
  memcpy (to + begin, from + begin, end - begin);
}

static void
put_segments (const Chunk *chunk)
{
  guint rank = chunk->reduction->shared->rank;

  copy (slot_of (chunk, rank), chunk->data, 0, begin_of (chunk, rank));
  copy (slot_of (chunk, rank), chunk->data, begin_of (chunk, rank + 1), chunk->n_bytes);
}

static void
take_sums (const Chunk *chunk)
{
  const TpsSharedSum *shared = chunk->reduction->shared;

  for (guint r = 0; r < shared->size; r++)
    if (r != shared->rank)
      copy (chunk->data, slot_of (chunk, r), begin_of (chunk, r), begin_of (chunk, r + 1));
}

/* -- sums -- */

static const guint8 *
part_of (const Chunk *chunk, guint rank)
{
  return rank == chunk->reduction->shared->rank ? chunk->data : slot_of (chunk, rank);
}

/* sum = the sum of `n_elems` floats of all ranks from byte `begin` of the chunk on. */
static void
sum_floats (const Chunk *chunk, gsize begin, gsize n_elems, gfloat *sum)
{
  tps_cpu_add (TPS_DTYPE_FLOAT32, sum, part_of (chunk, 0) + begin, part_of (chunk, 1) + begin,
               n_elems);
  for (guint r = 2; r < chunk->reduction->shared->size; r++)
    tps_cpu_accumulate (TPS_DTYPE_FLOAT32, sum, part_of (chunk, r) + begin, n_elems);
}

static void
add_floats (const Chunk *chunk, gsize begin, gsize end)
{
  guint8 *own_slot = slot_of (chunk, chunk->reduction->shared->rank);
  gfloat sum[BLOCK_BYTES / sizeof (gfloat)];

  for (gsize at = begin; at < end; at += BLOCK_BYTES)
    {
      gsize n_bytes = MIN (BLOCK_BYTES, end - at);

      sum_floats (chunk, at, n_bytes / sizeof (gfloat), sum);
      memcpy (chunk->data + at, sum, n_bytes);
      memcpy (own_slot + at, sum, n_bytes);
    }
}

static void
average_segment (const Chunk *chunk, gsize begin, gsize end)
{
  const Reduction *reduction = chunk->reduction;
  guint size = reduction->shared->size;
  gconstpointer parts[TPS_RANK_MEMORY_MAX_RANKS];

  for (guint r = 0; r < size; r++)
    parts[r] = part_of (chunk, r) + begin;
  tps_average_in_rank_order (reduction->average->dtype, chunk->data + begin, parts,
                             reduction->weights, size, reduction->divisor,
                             (end - begin) / reduction->elem_size);
  copy (slot_of (chunk, reduction->shared->rank), chunk->data, begin, end);
}

static void
add_own_segment (const Chunk *chunk)
{
  guint rank = chunk->reduction->shared->rank;
  gsize begin = begin_of (chunk, rank);
  gsize end = begin_of (chunk, rank + 1);

  if (chunk->reduction->average == NULL)
    add_floats (chunk, begin, end);
  else
    average_segment (chunk, begin, end);
}

/* -- in place -- */

static void
add_in_place (const Reduction *reduction, gsize begin, gsize n_bytes)
{
  guint8 *sum = reduction->places[0] + begin;
  gsize n_elems = n_bytes / reduction->elem_size;

  tps_cpu_add (TPS_DTYPE_FLOAT32, sum, sum, reduction->places[1] + begin, n_elems);
  for (guint r = 2; r < reduction->shared->size; r++)
    tps_cpu_accumulate (TPS_DTYPE_FLOAT32, sum, reduction->places[r] + begin, n_elems);
}

static void
average_in_place (const Reduction *reduction, gsize begin, gsize n_bytes)
{
  guint size = reduction->shared->size;
  gconstpointer parts[TPS_RANK_MEMORY_MAX_RANKS];

  for (guint r = 0; r < size; r++)
    parts[r] = reduction->places[r] + begin;
  tps_average_in_rank_order (reduction->average->dtype, reduction->places[0] + begin, parts,
                             reduction->weights, size, reduction->divisor,
                             n_bytes / reduction->elem_size);
}

static void
reduce_range (const Reduction *reduction, gsize begin, gsize end)
{
  for (gsize at = begin; at < end; at += BLOCK_BYTES)
    {
      gsize n_bytes = MIN (BLOCK_BYTES, end - at);

      if (reduction->average == NULL)
        add_in_place (reduction, at, n_bytes);
      else
        average_in_place (reduction, at, n_bytes);
      for (guint r = 1; r < reduction->shared->size; r++)
        memcpy (reduction->places[r] + at, reduction->places[0] + at, n_bytes);
    }
}

/* Takes and reduces ranges of the share of `rank`, which may be another rank, until no range is
 * left. */
static void
reduce_share (const Reduction *reduction, guint rank)
{
  const TpsSharedSum *shared = reduction->shared;
  _Atomic guint64 *n_taken = &shared->notes->shares[reduction->turn][rank].n_taken;
  gsize n_bytes = reduction->n_elems * reduction->elem_size;
  gsize n_ranges = (n_bytes + shared->slot_bytes - 1) / shared->slot_bytes;
  gsize begin = n_ranges * rank / shared->size;
  gsize end = n_ranges * (rank + 1) / shared->size;
  guint64 taken;

  while ((taken = atomic_fetch_add (n_taken, 1)) < end - begin)
    {
      gsize at = (begin + taken) * shared->slot_bytes;

      reduce_range (reduction, at, MIN (at + shared->slot_bytes, n_bytes));
    }
}

static gboolean
reduce_in_place (const Reduction *reduction, gint64 deadline_ns, GError **error)
{
  TpsSharedSum *shared = reduction->shared;

  for (guint i = 0; i < shared->size; i++)
    reduce_share (reduction, (shared->rank + i) % shared->size);
  return tps_rank_memory_meet (shared->memory, deadline_ns, error);
}

/* -- calls -- */

/* Does this rank's work between two meetings. */
static void
run_step (const Reduction *reduction, gsize step, gsize n_chunks)
{
  Chunk chunk;

  if (step >= 2)
    {
      chunk = get_chunk (reduction, step - 2);
      take_sums (&chunk);
    }
  if (step >= 1 && step <= n_chunks)
    {
      chunk = get_chunk (reduction, step - 1);
      add_own_segment (&chunk);
    }
  if (step < n_chunks)
    {
      chunk = get_chunk (reduction, step);
      put_segments (&chunk);
    }
}

static gboolean
reduce_in_slots (const Reduction *reduction, gint64 deadline_ns, GError **error)
{
  TpsSharedSum *shared = reduction->shared;
  gsize n_bytes = reduction->n_elems * reduction->elem_size;
  gsize n_chunks = (n_bytes + shared->slot_bytes - 1) / shared->slot_bytes;

  if (n_chunks == 0)
    return TRUE;
  for (gsize step = 0; step < n_chunks + 2; step++)
    {
      run_step (reduction, step, n_chunks);
      if (step <= n_chunks && !tps_rank_memory_meet (shared->memory, deadline_ns, error))
        return FALSE;
    }
  shared->n_chunks = (guint) ((shared->n_chunks + n_chunks) % N_TURNS);
  return TRUE;
}

/* Returns TRUE if the ranks exchange the places of their data. The result is equal on all ranks. */
static gboolean
is_large (const Reduction *reduction)
{
  const TpsSharedSum *shared = reduction->shared;

  return shared->arena != NULL && reduction->n_elems * reduction->elem_size > shared->slot_bytes;
}

/* Finds the data of all ranks in the arena. Returns FALSE with an error if a rank has sent an
 * invalid place, and FALSE without an error if the data of a rank lie outside the arena. */
static gboolean
find_places (Reduction *reduction, const guint64 *places, GError **error)
{
  gsize n_bytes = reduction->n_elems * reduction->elem_size;

  for (guint r = 0; r < reduction->shared->size; r++)
    {
      guint64 place = *(volatile const guint64 *) &places[r]; /* read once: it may change */

      if (place == 0)
        return FALSE;
      reduction->places[r] = tps_rank_arena_at (reduction->shared->arena, r, place, n_bytes);
      if (reduction->places[r] == NULL || place % reduction->elem_size != 0)
        return tps_fail (error, TPS_ERROR_GROUP_BROKEN, "rank %u sent an invalid place", r);
    }
  return TRUE;
}

/* Exchanges the weights of the ranks and, for large data, the places of the data. `weights` [size]
 * receives the weights. `in_place` receives TRUE if the data of all ranks lie in the arena. */
static gboolean
exchange (Reduction *reduction, gdouble weight, gdouble *weights, gboolean *in_place,
          gint64 deadline_ns, GError **error)
{
  TpsSharedSum *shared = reduction->shared;
  guint turn = shared->exchange;
  Notes *notes = shared->notes;
  GError *failure = NULL;

  shared->exchange = (turn + 1) % (2 * N_TURNS);
  reduction->turn = turn % N_TURNS;
  notes->shares[(turn + 1) % N_TURNS][shared->rank].n_taken = 0;
  notes->weights[turn % 2][shared->rank] = weight;
  notes->places[turn % 2][shared->rank] = is_large (reduction)
                                              ? tps_rank_arena_find (shared->arena, reduction->data)
                                              : 0;
  if (!tps_rank_memory_meet (shared->memory, deadline_ns, error))
    return FALSE;
  memcpy (weights, notes->weights[turn % 2], shared->size * sizeof *weights);
  *in_place = find_places (reduction, notes->places[turn % 2], &failure);
  if (failure == NULL)
    return TRUE;
  g_propagate_error (error, failure);
  return FALSE;
}

static gboolean
reduce (const Reduction *reduction, gboolean in_place, gint64 deadline_ns, GError **error)
{
  return in_place ? reduce_in_place (reduction, deadline_ns, error)
                  : reduce_in_slots (reduction, deadline_ns, error);
}

gboolean
tps_shared_sum_run (TpsSharedSum *shared, gfloat *data, gsize n_elems, gint64 deadline_ns,
                    GError **error)
{
  gdouble weights[TPS_RANK_MEMORY_MAX_RANKS]; /* not used */
  gboolean in_place = FALSE;
  Reduction reduction = {
    .shared = shared,
    .data = (guint8 *) data,
    .n_elems = n_elems,
    .elem_size = sizeof *data,
  };

  return (!is_large (&reduction)
          || exchange (&reduction, 0, weights, &in_place, deadline_ns, error))
         && reduce (&reduction, in_place, deadline_ns, error);
}

static gboolean
add_weights (const gdouble *weights, guint size, gdouble *sum, GError **error)
{
  gdouble all = 0;

  for (guint r = 0; r < size; r++)
    {
      if (!isfinite (weights[r]) || weights[r] < 0)
        return tps_fail (error, TPS_ERROR_GROUP_BROKEN, "rank %u sent an invalid weight", r);
      all += weights[r];
    }
  *sum = all;
  return TRUE;
}

gboolean
tps_shared_sum_average (TpsSharedSum *shared, TpsAverage *average, gint64 deadline_ns,
                        GError **error)
{
  gdouble weights[TPS_RANK_MEMORY_MAX_RANKS];
  gboolean in_place;
  Reduction reduction = {
    .shared = shared,
    .data = average->data,
    .n_elems = average->n_elems,
    .elem_size = tps_dtype_size (average->dtype),
    .average = average,
    .weights = weights,
  };

  if (!exchange (&reduction, average->weight, weights, &in_place, deadline_ns, error)
      || !add_weights (weights, shared->size, &average->weight, error))
    return FALSE;
  reduction.divisor = average->delivers_sum ? 1 : average->weight;
  return reduce (&reduction, in_place, deadline_ns, error);
}
