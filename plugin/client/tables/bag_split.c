/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/tables/bag_split.h"

#include <string.h>

#include "plugin/client/tables/maxima.h"
#include "runtime/device/device_memory.h"
#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/cpu/kernels/rows.h"
#include "runtime/base/error.h"

/* State that is needed only during the split. */
typedef struct
{
  TpsBagSplit *split;
  const gint64 *indices;
  const gfloat *weights;
  guint *shard_of;       /* [n_indices] */
  TpsBagPart **parts;    /* [n_shards], NULL if the shard has no ids */
  gsize *bag_of_part;    /* [n_parts], 1 + the number of the last bag in the part; 0 = none */
  gint64 *slot_of_shard; /* [n_shards], for the current bag */
} Splitter;

static gsize
count_bags (const TpsBagSplit *split)
{
  return (gsize) split->query.offsets.shape.dims[0];
}

static gsize
n_indices_of (const TpsBagQuery *query)
{
  return (gsize) query->indices.shape.dims[0];
}

static gsize
bag_begin (const TpsBagSplit *split, gsize bag)
{
  const gint64 *offsets = split->query.offsets.data;

  return bag < count_bags (split) ? (gsize) offsets[bag] : n_indices_of (&split->query);
}

static gboolean
has_weights (const TpsBagQuery *query)
{
  return query->weights.shape.dtype != 0;
}

/* -- splitting -- */

/* Allocates the parts. Each part has room for its ids and for one bag per id, the worst case. */
static void
init_parts (Splitter *splitter, gsize n_indices)
{
  TpsBagSplit *split = splitter->split;
  guint n_shards = split->table->n_shards;
  g_autofree gsize *counts = g_new0 (gsize, n_shards);
  gint64 *memory;
  gfloat *floats;

  for (gsize i = 0; i < n_indices; i++)
    counts[splitter->shard_of[i]]++;
  for (guint shard = 0; shard < n_shards; shard++)
    split->n_parts += counts[shard] > 0;
  split->parts = g_new0 (TpsBagPart, split->n_parts);
  split->is_passed_on = split->n_parts == 1 && split->mode != TPS_SPLIT_ROWS;
  split->memory = memory = split->is_passed_on ? NULL : g_new (gint64, 4 * n_indices);
  split->floats = floats = has_weights (&split->query) ? g_new (gfloat, n_indices) : NULL;
  for (guint shard = 0, i = 0; shard < n_shards; shard++)
    {
      TpsBagPart *part = &split->parts[i];

      if (counts[shard] == 0)
        continue;
      splitter->parts[shard] = part;
      i++;
      part->shard = shard;
      if (split->is_passed_on)
        continue;
      part->indices = memory;
      part->offsets = memory + counts[shard];
      part->bags = memory + 2 * counts[shard];
      part->slots = memory + 3 * counts[shard];
      part->weights = floats;
      memory += 4 * counts[shard];
      floats = floats != NULL ? floats + counts[shard] : NULL;
    }
}

static void
begin_bag (TpsBagPart *part, gsize bag, gint64 slot)
{
  part->offsets[part->n_bags] = (gint64) part->n_indices;
  part->bags[part->n_bags] = (gint64) bag;
  part->slots[part->n_bags] = slot;
  part->n_bags++;
}

static void
add_index (const Splitter *splitter, TpsBagPart *part, gsize position, gfloat weight)
{
  if (part->weights != NULL)
    part->weights[part->n_indices] = weight;
  part->indices[part->n_indices++] = splitter->indices[position];
}

static gfloat
weight_of (const Splitter *splitter, gsize position)
{
  return splitter->weights != NULL ? splitter->weights[position] : 1;
}

/* Turns each id of the bag into a bag of its own in its shard, with a slot of its own. */
static void
split_into_rows (Splitter *splitter, gsize bag, gsize begin, gsize end)
{
  TpsBagSplit *split = splitter->split;

  for (gsize i = begin; i < end; i++)
    {
      TpsBagPart *part = splitter->parts[splitter->shard_of[i]];

      if (split->slot_weights != NULL)
        split->slot_weights[split->n_slots] = weight_of (splitter, i);
      begin_bag (part, bag, (gint64) split->n_slots++);
      add_index (splitter, part, i, 1);
    }
}

static void
split_into_parts (Splitter *splitter, gsize bag, gsize begin, gsize end, gboolean is_spanning)
{
  TpsBagSplit *split = splitter->split;
  guint n_shards = split->table->n_shards;

  /* A spanning bag has a slot for each shard that has ids of it, in the order of the shards. */
  if (is_spanning)
    memset (splitter->slot_of_shard, 0, n_shards * sizeof splitter->slot_of_shard[0]);
  for (gsize i = begin; i < end && is_spanning; i++)
    splitter->slot_of_shard[splitter->shard_of[i]] = 1;
  for (guint shard = 0; shard < n_shards && is_spanning; shard++)
    if (splitter->slot_of_shard[shard] != 0)
      splitter->slot_of_shard[shard] = (gint64) split->n_slots++;
  for (gsize i = begin; i < end; i++)
    {
      guint shard = splitter->shard_of[i];
      TpsBagPart *part = splitter->parts[shard];
      gsize *last_bag = &splitter->bag_of_part[part - split->parts];

      if (*last_bag != bag + 1)
        begin_bag (part, bag, is_spanning ? splitter->slot_of_shard[shard] : -1);
      *last_bag = bag + 1;
      add_index (splitter, part, i, weight_of (splitter, i));
    }
}

static void
split_bag (Splitter *splitter, gsize bag)
{
  TpsBagSplit *split = splitter->split;
  gsize begin = bag_begin (split, bag), end = bag_begin (split, bag + 1);
  TpsSpanningBag spanning = { .bag = bag, .first_slot = split->n_slots };
  gboolean is_spanning = FALSE;

  for (gsize i = begin + 1; i < end; i++)
    is_spanning |= splitter->shard_of[i] != splitter->shard_of[begin];
  if (split->mode == TPS_SPLIT_ROWS || (split->mode == TPS_SPLIT_EXACT && is_spanning))
    split_into_rows (splitter, bag, begin, end);
  else
    split_into_parts (splitter, bag, begin, end, is_spanning);
  spanning.n_slots = split->n_slots - spanning.first_slot;
  if (spanning.n_slots > 0)
    g_array_append_val (split->spanning, spanning);
}

void
tps_bag_split_init (TpsBagSplit *split, TpsPlacedTable *table, const TpsBagQuery *query,
                    TpsSplitMode mode)
{
  gsize n_indices = n_indices_of (query);
  Splitter splitter = { .split = split, .indices = query->indices.data };

  if (query->pooling == TPS_POOLING_MAX)
    mode = TPS_SPLIT_ROWS;
  *split = (TpsBagSplit) { .table = tps_placed_table_ref (table), .query = *query, .mode = mode };
  if (table->n_shards == 1 && mode != TPS_SPLIT_ROWS)
    {
      /* The query is passed on unchanged, and its ids are not read. */
      split->is_passed_on = TRUE;
      split->n_parts = 1;
      split->parts = g_new0 (TpsBagPart, 1);
      return;
    }
  splitter.weights = has_weights (query) ? query->weights.data : NULL;
  splitter.shard_of = g_new (guint, n_indices);
  splitter.parts = g_new0 (TpsBagPart *, table->n_shards);
  splitter.slot_of_shard = g_new0 (gint64, table->n_shards);
  tps_placed_table_find_shards (table, splitter.indices, n_indices, splitter.shard_of);
  init_parts (&splitter, n_indices);
  if (!split->is_passed_on)
    {
      splitter.bag_of_part = g_new0 (gsize, split->n_parts);
      split->spanning = g_array_new (FALSE, FALSE, sizeof (TpsSpanningBag));
      if (mode == TPS_SPLIT_EXACT && splitter.weights != NULL)
        split->slot_weights = g_new (gfloat, n_indices);
      for (gsize bag = 0; bag < count_bags (split); bag++)
        split_bag (&splitter, bag);
    }
  g_free (splitter.shard_of);
  g_free (splitter.parts);
  g_free (splitter.bag_of_part);
  g_free (splitter.slot_of_shard);
}

void
tps_bag_split_clear (TpsBagSplit *split)
{
  for (guint i = 0; i < split->n_parts; i++)
    tps_tensor_clear (&split->parts[i].answer);
  g_clear_pointer (&split->table, tps_placed_table_unref);
  g_clear_pointer (&split->spanning, g_array_unref);
  g_clear_pointer (&split->parts, g_free);
  g_clear_pointer (&split->slot_weights, g_free);
  g_clear_pointer (&split->memory, g_free);
  g_clear_pointer (&split->floats, g_free);
  split->n_parts = 0;
}

static TpsTensorView
vector (TpsDType dtype, gsize n_elems, gconstpointer data)
{
  return (TpsTensorView) {
    .shape = { .dtype = dtype, .n_dims = 1, .dims = { (gint64) n_elems } },
    .data = data,
  };
}

TpsBagQuery
tps_bag_split_get_query (const TpsBagSplit *split, guint number)
{
  const TpsBagPart *part = &split->parts[number];
  TpsBagQuery query = split->query;

  if (split->is_passed_on)
    return query;
  query.indices = vector (TPS_DTYPE_INT64, part->n_indices, part->indices);
  query.offsets = vector (TPS_DTYPE_INT64, part->n_bags, part->offsets);
  if (part->weights != NULL)
    query.weights = vector (TPS_DTYPE_FLOAT32, part->n_indices, part->weights);
  query.pooling = TPS_POOLING_SUM;
  return query;
}

/* -- merging -- */

static TpsShape
rows_shape (const TpsBagSplit *split, gsize n_rows)
{
  return (TpsShape) {
    .dtype = TPS_DTYPE_FLOAT32,
    .n_dims = 2,
    .dims = { (gint64) n_rows, split->table->spec.dim },
  };
}

gboolean
tps_bag_split_take_answer (TpsBagSplit *split, guint number, TpsTensor *answer, GError **error)
{
  TpsBagPart *part = &split->parts[number];
  TpsShape expected = rows_shape (split, split->is_passed_on ? count_bags (split) : part->n_bags);
  g_autofree gchar *got = NULL, *wanted = NULL;

  if (tps_shape_equal (&answer->shape, &expected))
    {
      if (!split->is_passed_on && tps_device_memory_of_tensor (answer) != NULL)
        return tps_device_memory_download (&part->answer, answer, error);
      tps_tensor_move (&part->answer, answer);
      return TRUE;
    }
  got = tps_shape_to_string (&answer->shape);
  wanted = tps_shape_to_string (&expected);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "bags of table %s are %s, expected %s",
                   split->query.table, got, wanted);
}

/* Copies each row of the replies to its bag in `output`, or to its slot in `scratch`. */
static void
scatter (const TpsBagSplit *split, gfloat *output, gfloat *scratch)
{
  gsize dim = (gsize) split->table->spec.dim;

  for (guint p = 0; p < split->n_parts; p++)
    {
      const TpsBagPart *part = &split->parts[p];
      const gfloat *row = tps_tensor_data (&part->answer);

      for (gsize i = 0; i < part->n_bags; i++, row += dim)
        memcpy (part->slots[i] < 0 ? output + (gsize) part->bags[i] * dim
                                   : scratch + (gsize) part->slots[i] * dim,
                row, dim * sizeof row[0]);
    }
}

/* Pools the slots of each bag that spans several shards, like rows of a small table. */
static void
pool_slots (const TpsBagSplit *split, const gfloat *scratch, gfloat *output)
{
  gsize dim = (gsize) split->table->spec.dim;
  gsize longest = 0;
  g_autofree gint64 *numbers = NULL;

  for (guint i = 0; i < split->spanning->len; i++)
    longest = MAX (longest, g_array_index (split->spanning, TpsSpanningBag, i).n_slots);
  numbers = g_new (gint64, longest);
  for (gsize i = 0; i < longest; i++)
    numbers[i] = (gint64) i;
  for (guint i = 0; i < split->spanning->len; i++)
    {
      const TpsSpanningBag *bag = &g_array_index (split->spanning, TpsSpanningBag, i);
      TpsBags bags = {
        .rows = (gint64) bag->n_slots,
        .dim = (gint64) dim,
        .indices = numbers,
        .n_indices = bag->n_slots,
        .n_bags = 1,
        .weights = split->slot_weights != NULL ? split->slot_weights + bag->first_slot : NULL,
        .pooling = TPS_POOLING_SUM,
      };

      tps_cpu_embedding_pool (&bags, scratch + bag->first_slot * dim, output + bag->bag * dim);
    }
}

void
tps_bag_split_merge (TpsBagSplit *split, TpsTensor *output, TpsTensor *maxima)
{
  TpsShape shape = rows_shape (split, count_bags (split));
  TpsShape scratch_shape = rows_shape (split, split->n_slots);
  g_auto (TpsTensor) scratch = { 0 };

  if (split->is_passed_on)
    {
      tps_tensor_move (output, &split->parts[0].answer);
      return;
    }
  tps_tensor_init (&scratch, &scratch_shape);
  if (split->mode == TPS_SPLIT_ROWS)
    {
      scatter (split, NULL, tps_tensor_data (&scratch)); /* all rows have slots */
      tps_maxima_find (&split->query, tps_tensor_view (&scratch), output, maxima);
      return;
    }
  tps_tensor_init_zeroed (output, &shape);
  scatter (split, tps_tensor_data (output), tps_tensor_data (&scratch));
  pool_slots (split, tps_tensor_data (&scratch), tps_tensor_data (output));
  if (split->query.pooling == TPS_POOLING_MEAN)
    {
      gsize dim = (gsize) split->table->spec.dim;
      gfloat *row = tps_tensor_data (output);

      for (gsize bag = 0; bag < count_bags (split); bag++, row += dim)
        {
          gsize count = bag_begin (split, bag + 1) - bag_begin (split, bag);

          if (count > 0)
            tps_cpu_divide (TPS_DTYPE_FLOAT32, row, row, (gdouble) (gfloat) count, dim);
        }
    }
}
