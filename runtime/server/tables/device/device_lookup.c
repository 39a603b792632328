/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* All queries of a call on one device run in passes of PASS_BYTES. The stages of a pass:
 *
 *   - The ids, offsets and weights are collected in the lane's staged memory, and copied to the
 *     device at once.
 *   - Each table pools on its own stream. An output on the device is pooled into its destination.
 *   - All small outputs are copied back at once, and then distributed. Each large output is copied
 *     to its destination.
 *
 * The block on the device has the same arrays at the same offsets as the staged block, which ends
 * before the large outputs:
 *
 *   | ids, offsets, weights of piece 0 | of piece 1 | … | small outputs | large outputs | pooled |
 *
 * A piece consists of some bags of a query, usually of all of them. Tables pool into FLOAT32. If
 * the output has another type, the pooled rows are converted on the lane's stream. The conversion
 * is exact, because such an output consists of single rows.
 */

#include "runtime/server/tables/device/device_lookup.h"

#include <string.h>

#include "runtime/device/device_memory.h"

/* The device memory of a pass, unless a single bag needs more. */
#define PASS_BYTES ((gsize) 32 << 20)

/* A piece, and the offsets of its arrays in the block. */
typedef struct
{
  const TpsDeviceQuery *query;
  gsize begin, end;     /* bags */
  gboolean has_offsets; /* FALSE if each bag is one index, which needs no offsets and is faster */
  gsize ids, offsets, weights, output;
  gsize pooled; /* FLOAT32, on the device only; not used if the output is FLOAT32 */
} Piece;

/* The queries of one device. */
typedef struct
{
  TpsDeviceLanes *lanes;
  GPtrArray *queries; /* of const TpsDeviceQuery */
  guint next_query;   /* the first query that is not completely in a pass */
  gsize next_bag;
  TpsDeviceLane *lane; /* event 0: the inputs have been copied; event i + 1: piece i is pooled */
  GArray *pieces;      /* of the current pass */
  gsize n_input_bytes, n_staged_bytes, n_bytes;
} Passes;

struct TpsDeviceLookup
{
  GPtrArray *devices; /* of Passes */
};

/* -- cutting into passes -- */

static gboolean
is_as_pooled (const TpsDeviceQuery *query)
{
  return query->dtype == TPS_DTYPE_FLOAT32;
}

static gsize
bags_bytes (const TpsDeviceQuery *query, gsize begin, gsize end)
{
  const TpsDeviceBags *bags = &query->bags;
  gsize n_indices = tps_device_bag_start (bags, end) - tps_device_bag_start (bags, begin);
  gsize value_bytes = (query->is_on_device ? 0 : tps_dtype_size (query->dtype))
                      + (is_as_pooled (query) ? 0 : sizeof (gfloat));

  return n_indices * (sizeof (gint64) + sizeof (gfloat))
         + (end - begin) * (sizeof (gint64) + bags->rows->dim * value_bytes);
}

/* Returns the largest `end` for which bags [begin, end) need at most `n_bytes`. The search is
 * binary, because the bytes grow with `end`. */
static gsize
find_end (const TpsDeviceQuery *query, gsize begin, gsize n_bytes)
{
  gsize low = begin, high = query->bags.n_bags;

  if (bags_bytes (query, begin, high) <= n_bytes)
    return high;
  while (high - low > 1)
    {
      gsize middle = low + (high - low) / 2;

      if (bags_bytes (query, begin, middle) <= n_bytes)
        low = middle;
      else
        high = middle;
    }
  return low;
}

static gboolean
are_single_rows (const TpsDeviceBags *bags, gsize begin, gsize end)
{
  gsize first = tps_device_bag_start (bags, begin);
  gboolean are_single = tps_device_bag_start (bags, end) - first == end - begin;

  for (gsize bag = begin; are_single && bags->offsets != NULL && bag < end; bag++)
    are_single = (gsize) bags->offsets[bag] - first == bag - begin;
  return are_single;
}

/* Adds the next piece to the pass, and subtracts its bytes from `n_left`. Returns FALSE if the pass
 * is full. The first piece has at least one bag, even if the bag needs more bytes. */
static gboolean
take_piece (Passes *passes, gsize *n_left)
{
  const TpsDeviceQuery *query = g_ptr_array_index (passes->queries, passes->next_query);
  Piece piece = { .query = query, .begin = passes->next_bag };

  piece.end = find_end (query, piece.begin, *n_left);
  if (piece.end == piece.begin && passes->pieces->len > 0)
    return FALSE;
  piece.end = MAX (piece.end, piece.begin + 1);
  piece.has_offsets = !are_single_rows (&query->bags, piece.begin, piece.end);
  *n_left -= MIN (*n_left, bags_bytes (query, piece.begin, piece.end));
  g_array_append_val (passes->pieces, piece);
  passes->next_bag = piece.end;
  if (piece.end == query->bags.n_bags)
    {
      passes->next_query++;
      passes->next_bag = 0;
    }
  return TRUE;
}

static void
take_pieces (Passes *passes)
{
  gsize n_left = PASS_BYTES;

  g_array_set_size (passes->pieces, 0);
  while (passes->next_query < passes->queries->len && take_piece (passes, &n_left))
    ;
}

/* -- a pass -- */

static gsize
count_indices (const Piece *piece)
{
  return tps_device_bag_start (&piece->query->bags, piece->end)
         - tps_device_bag_start (&piece->query->bags, piece->begin);
}

static gsize
count_values (const Piece *piece)
{
  return (piece->end - piece->begin) * piece->query->bags.rows->dim;
}

static gsize
output_bytes (const Piece *piece)
{
  return count_values (piece) * tps_dtype_size (piece->query->dtype);
}

/* The path of an output to its destination. The memory of a large output must be page-locked,
 * because the device's library would otherwise stage the copy. */
typedef enum
{
  OUTPUT_STAGED,
  OUTPUT_LARGE,
  OUTPUT_ON_DEVICE,
} OutputWay;

static OutputWay
way_of (const Piece *piece)
{
  if (piece->query->is_on_device)
    return OUTPUT_ON_DEVICE;
  return output_bytes (piece) >= TPS_PINNED_MIN_BYTES ? OUTPUT_LARGE : OUTPUT_STAGED;
}

static void
place_outputs (Passes *passes, OutputWay way)
{
  for (guint i = 0; i < passes->pieces->len; i++)
    {
      Piece *piece = &g_array_index (passes->pieces, Piece, i);

      if (way_of (piece) == way)
        piece->output = tps_device_lane_reserve (&passes->n_bytes, output_bytes (piece));
    }
}

static void
place_pooled (Passes *passes)
{
  for (guint i = 0; i < passes->pieces->len; i++)
    {
      Piece *piece = &g_array_index (passes->pieces, Piece, i);

      if (!is_as_pooled (piece->query))
        piece->pooled = tps_device_lane_reserve (&passes->n_bytes,
                                                 count_values (piece) * sizeof (gfloat));
    }
}

static void
place_pieces (Passes *passes)
{
  passes->n_bytes = 0;
  for (guint i = 0; i < passes->pieces->len; i++)
    {
      Piece *piece = &g_array_index (passes->pieces, Piece, i);
      const TpsDeviceBags *bags = &piece->query->bags;
      gsize n_indices = count_indices (piece);

      piece->ids = tps_device_lane_reserve (&passes->n_bytes, n_indices * sizeof (gint64));
      if (piece->has_offsets)
        piece->offsets = tps_device_lane_reserve (&passes->n_bytes,
                                                  (piece->end - piece->begin) * sizeof (gint64));
      if (bags->weights != NULL)
        piece->weights = tps_device_lane_reserve (&passes->n_bytes, n_indices * sizeof (gfloat));
    }
  passes->n_input_bytes = passes->n_bytes;
  place_outputs (passes, OUTPUT_STAGED);
  passes->n_staged_bytes = passes->n_bytes;
  place_outputs (passes, OUTPUT_LARGE);
  place_pooled (passes);
}

static void
stage_piece (const Piece *piece, guint8 *block)
{
  const TpsDeviceBags *bags = &piece->query->bags;
  gsize first = tps_device_bag_start (bags, piece->begin);
  gsize n_indices = count_indices (piece);

  tps_device_bags_stage_slots (bags, first, n_indices, (gint64 *) (gpointer) (block + piece->ids));
  if (piece->has_offsets)
    {
      gint64 *offsets = (gint64 *) (gpointer) (block + piece->offsets);

      for (gsize bag = piece->begin; bag < piece->end; bag++)
        offsets[bag - piece->begin] = bags->offsets[bag] - (gint64) first;
    }
  if (bags->weights != NULL && n_indices > 0)
    memcpy (block + piece->weights, bags->weights + first, n_indices * sizeof bags->weights[0]);
}

static guint8 *
output_of (const Piece *piece)
{
  return (guint8 *) piece->query->output
         + piece->begin * piece->query->bags.rows->dim * tps_dtype_size (piece->query->dtype);
}

static guint8 *
result_of (const Piece *piece, guint8 *block)
{
  return way_of (piece) == OUTPUT_ON_DEVICE ? output_of (piece) : block + piece->output;
}

static void
enqueue_piece (const Piece *piece, guint8 *block, TpsEvent *before, TpsEvent *after)
{
  guint8 *pooled = is_as_pooled (piece->query) ? result_of (piece, block) : block + piece->pooled;
  const TpsDeviceBags *from = &piece->query->bags;
  TpsBags bags = {
    .rows = from->rows->n_rows,
    .dim = (gint64) from->rows->dim,
    .indices = (const gint64 *) (gpointer) (block + piece->ids),
    .n_indices = count_indices (piece),
    .offsets = piece->has_offsets ? (const gint64 *) (gpointer) (block + piece->offsets) : NULL,
    .n_bags = piece->end - piece->begin,
    .weights = from->weights != NULL ? (const gfloat *) (gpointer) (block + piece->weights) : NULL,
    .pooling = from->pooling,
  };

  tps_device_rows_pool (from->rows, &bags, (gfloat *) (gpointer) pooled, before, after);
}

static void
enqueue_outputs (Passes *passes, guint8 *staged, guint8 *block)
{
  TpsStream *stream = passes->lane->stream;
  const TpsDeviceOps *ops = passes->lanes->device->ops;

  for (guint i = 0; i < passes->pieces->len; i++)
    {
      const Piece *piece = &g_array_index (passes->pieces, Piece, i);

      ops->stream_wait_event (stream, g_ptr_array_index (passes->lane->events, i + 1));
      if (!is_as_pooled (piece->query))
        ops->cast (stream, piece->query->dtype, result_of (piece, block), TPS_DTYPE_FLOAT32,
                   block + piece->pooled, count_values (piece));
    }
  if (passes->n_staged_bytes > passes->n_input_bytes)
    ops->copy (stream, staged + passes->n_input_bytes, block + passes->n_input_bytes,
               passes->n_staged_bytes - passes->n_input_bytes);
  for (guint i = 0; i < passes->pieces->len; i++)
    {
      const Piece *piece = &g_array_index (passes->pieces, Piece, i);

      if (way_of (piece) == OUTPUT_LARGE)
        ops->copy (stream, output_of (piece), block + piece->output, output_bytes (piece));
    }
}

/* Enqueues the work of a pass. All memory has been provided, so this function cannot fail. */
static void
enqueue_pieces (Passes *passes)
{
  TpsDeviceLane *lane = passes->lane;
  const TpsDeviceOps *ops = passes->lanes->device->ops;
  guint8 *staged = tps_buffer_get_data (lane->staged);
  guint8 *block = tps_buffer_get_data (lane->memory);
  TpsEvent *copied = g_ptr_array_index (lane->events, 0);

  for (guint i = 0; i < passes->pieces->len; i++)
    stage_piece (&g_array_index (passes->pieces, Piece, i), staged);
  ops->copy (lane->stream, block, staged, passes->n_input_bytes);
  ops->event_record (copied, lane->stream);
  for (guint i = 0; i < passes->pieces->len; i++)
    enqueue_piece (&g_array_index (passes->pieces, Piece, i), block, copied,
                   g_ptr_array_index (lane->events, i + 1));
  enqueue_outputs (passes, staged, block);
}

static gboolean
begin_pass (Passes *passes, GError **error)
{
  take_pieces (passes);
  if (passes->pieces->len == 0)
    return TRUE;
  place_pieces (passes);
  if (passes->lane == NULL)
    passes->lane = tps_device_lane_new (passes->lanes, error);
  if (passes->lane == NULL
      || !tps_device_lane_provide (passes->lane, passes->n_staged_bytes, passes->n_bytes,
                                   passes->pieces->len + 1, error))
    {
      g_array_set_size (passes->pieces, 0);
      return FALSE;
    }
  enqueue_pieces (passes);
  return TRUE;
}

static TpsDeviceRows *
rows_of (const Passes *passes, guint piece)
{
  return g_array_index (passes->pieces, Piece, piece).query->bags.rows;
}

/* Must be called after a failure. Waits until no table uses the lane's memory. */
static gboolean
fail_pass (Passes *passes, GError **error)
{
  for (guint i = 0; i < passes->pieces->len; i++)
    tps_device_rows_recover (rows_of (passes, i));
  g_prefix_error (error, "table %s%s: ", rows_of (passes, 0)->name,
                  passes->pieces->len > 1 ? ", or another" : "");
  return FALSE;
}

static gboolean
end_pass (Passes *passes, GError **error)
{
  const guint8 *staged;

  if (passes->pieces->len == 0)
    return TRUE;
  if (!passes->lanes->device->ops->stream_sync (passes->lane->stream, error))
    return fail_pass (passes, error);
  staged = tps_buffer_get_data (passes->lane->staged);
  for (guint i = 0; i < passes->pieces->len; i++)
    {
      const Piece *piece = &g_array_index (passes->pieces, Piece, i);

      if (way_of (piece) == OUTPUT_STAGED)
        memcpy (output_of (piece), staged + piece->output, output_bytes (piece));
    }
  return TRUE;
}

/* -- a call -- */

static void
passes_free (gpointer data)
{
  Passes *passes = data;

  g_clear_pointer (&passes->lane, tps_device_lane_free);
  g_ptr_array_unref (passes->queries);
  g_array_unref (passes->pieces);
  g_free (passes);
}

static Passes *
find_passes (TpsDeviceLookup *lookup, TpsDeviceLanes *lanes)
{
  Passes *passes;

  for (guint i = 0; i < lookup->devices->len; i++)
    {
      passes = g_ptr_array_index (lookup->devices, i);
      if (passes->lanes == lanes)
        return passes;
    }
  passes = g_new0 (Passes, 1);
  passes->lanes = lanes;
  passes->queries = g_ptr_array_new ();
  passes->pieces = g_array_new (FALSE, FALSE, sizeof (Piece));
  g_ptr_array_add (lookup->devices, passes);
  return passes;
}

/* Frees the lookup. First waits for the passes of the first `n_under_way` devices, including failed
 * passes, because they use memory of the lookup. */
static void
lookup_free (TpsDeviceLookup *lookup, guint n_under_way)
{
  for (guint i = 0; i < n_under_way; i++)
    end_pass (g_ptr_array_index (lookup->devices, i), NULL);
  g_ptr_array_unref (lookup->devices);
  g_free (lookup);
}

TpsDeviceLookup *
tps_device_lookup_begin (const TpsDeviceQuery *queries, guint n_queries, GError **error)
{
  TpsDeviceLookup *lookup = g_new0 (TpsDeviceLookup, 1);

  lookup->devices = g_ptr_array_new_with_free_func (passes_free);
  for (guint i = 0; i < n_queries; i++)
    if (queries[i].bags.n_bags > 0)
      g_ptr_array_add (find_passes (lookup, queries[i].bags.rows->lanes)->queries,
                       (gpointer) (gsize) &queries[i]);
  for (guint i = 0; i < lookup->devices->len; i++)
    if (!begin_pass (g_ptr_array_index (lookup->devices, i), error))
      {
        lookup_free (lookup, i);
        return NULL;
      }
  return lookup;
}

gboolean
tps_device_lookup_end (TpsDeviceLookup *lookup, GError **error)
{
  for (guint i = 0; i < lookup->devices->len; i++)
    {
      Passes *passes = g_ptr_array_index (lookup->devices, i);

      while (passes->pieces->len > 0)
        if (!end_pass (passes, error) || !begin_pass (passes, error))
          {
            g_array_set_size (passes->pieces, 0); /* end_pass() has waited for this pass */
            lookup_free (lookup, lookup->devices->len);
            return FALSE;
          }
    }
  lookup_free (lookup, 0);
  return TRUE;
}
