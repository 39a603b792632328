/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The data are cut into chunks, and a chunk into one segment for each rank. Every rank has slots
 * for chunks in the shared memory. The steps for a chunk, with a meeting of all ranks after the
 * first and the second:
 *
 *   - every rank copies the segments of the others into its own slot
 *   - every rank adds its own segment from all slots, in rank order, and puts the sum into its slot
 *   - every rank copies the sums of the others' segments from their slots
 *
 * Three chunks are in progress at a time, so that one meeting for each chunk suffices. One step
 * copies a chunk in, adds the chunk before it, and copies out the chunk before that. So each rank
 * has three slots, used in turn. A slot is filled again, possibly by the next call, after one more
 * meeting following the step that read it last.
 *
 * Chunks are so small that most memory touched between the first and the last step stays in the
 * second-level cache (`reduce_slot_bytes` of runtime/machine/tuning.h): the data are read from
 * memory once and written once. Chunks must be equally long on all ranks. */

#include "runtime/trainer/group/shared_sum.h"

#include <math.h>
#include <string.h>

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/trainer/group/process_groups.h"
#include "runtime/base/error.h"
#include "runtime/machine/tuning.h"

#define N_TURNS 3
#define LINE_BYTES 64
#define WEIGHT_BYTES 4096 /* before the slots: weights [2, ranks], used in turn */

struct TpsSharedSum
{
  TpsRankMemory *memory;
  guint rank;
  guint size;
  guint n_chunks;   /* number of completed chunks */
  guint n_averages; /* number of averages begun */
  gdouble *weights; /* [2, size] */
  gsize slot_bytes; /* equal on all ranks */
  guint8 *slots;    /* [N_TURNS, size, slot_bytes] */
};

gsize
tps_shared_sum_get_n_bytes (guint size)
{
  return WEIGHT_BYTES + N_TURNS * (gsize) size * tps_tuning_get ()->reduce_slot_bytes;
}

TpsSharedSum *
tps_shared_sum_new (TpsRankMemory *memory)
{
  TpsSharedSum *shared = g_new0 (TpsSharedSum, 1);
  guint8 *data = tps_rank_memory_get_data (memory);

  G_STATIC_ASSERT (2 * TPS_RANK_MEMORY_MAX_RANKS * sizeof (gdouble) <= WEIGHT_BYTES);
  shared->memory = memory;
  shared->rank = tps_rank_memory_get_rank (memory);
  shared->size = tps_rank_memory_get_size (memory);
  shared->weights = (gdouble *) (gpointer) data;
  shared->slot_bytes = tps_tuning_get ()->reduce_slot_bytes;
  shared->slots = data + WEIGHT_BYTES;
  return shared;
}

void
tps_shared_sum_free (TpsSharedSum *shared)
{
  tps_rank_memory_free (shared->memory);
  g_free (shared);
}

void
tps_shared_sum_break (TpsSharedSum *shared)
{
  tps_rank_memory_break (shared->memory);
}

/* -- a chunk -- */

/* The data to be summed. */
typedef struct
{
  TpsSharedSum *shared;
  guint8 *data;
  gsize n_elems;
  gsize elem_size;
  const TpsAverage *average; /* NULL: a sum of floats */
  gdouble divisor;
  const gdouble *weights; /* [size], of an average */
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

/* Segments begin at cache lines, so that two ranks never write to the same line. */
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

/* Sums `n_elems` floats at `begin`, which is in bytes. */
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
  enum
  {
    BLOCK_BYTES = 8192
  }; /* stays in the first-level cache */
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
average_halves (const Chunk *chunk, gsize begin, gsize end)
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
    average_halves (chunk, begin, end);
}

/* -- calls -- */

/* The work between two meetings. */
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
reduce (const Reduction *reduction, gint64 deadline_ns, GError **error)
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

gboolean
tps_shared_sum_run (TpsSharedSum *shared, gfloat *data, gsize n_elems, gint64 deadline_ns,
                    GError **error)
{
  Reduction reduction = {
    .shared = shared,
    .data = (guint8 *) data,
    .n_elems = n_elems,
    .elem_size = sizeof *data,
  };

  return reduce (&reduction, deadline_ns, error);
}

/* Exchanges the weights of all ranks. There are two sets, used in turn: a rank may begin the next
 * exchange while another still reads this one. */
static gboolean
exchange_weights (TpsSharedSum *shared, gdouble weight, gdouble *weights, gint64 deadline_ns,
                  GError **error)
{
  gdouble *told = shared->weights + shared->n_averages++ % 2 * shared->size;

  told[shared->rank] = weight;
  if (!tps_rank_memory_meet (shared->memory, deadline_ns, error))
    return FALSE;
  memcpy (weights, told, shared->size * sizeof *weights);
  return TRUE;
}

static gboolean
add_weights (const gdouble *weights, guint size, gdouble *sum, GError **error)
{
  gdouble all = 0;

  for (guint r = 0; r < size; r++)
    {
      if (!isfinite (weights[r]) || weights[r] < 0)
        {
          g_set_error (error, TPS_ERROR, TPS_ERROR_GROUP_BROKEN, "rank %u sent an invalid weight",
                       r);
          return FALSE;
        }
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
  Reduction reduction = {
    .shared = shared,
    .data = average->data,
    .n_elems = average->n_elems,
    .elem_size = tps_dtype_size (average->dtype),
    .average = average,
    .weights = weights,
  };

  if (!exchange_weights (shared, average->weight, weights, deadline_ns, error)
      || !add_weights (weights, shared->size, &average->weight, error))
    return FALSE;
  reduction.divisor = average->delivers_sum ? 1 : average->weight;
  return reduce (&reduction, deadline_ns, error);
}
