/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The split of one query over the shards of its table, and the merge of their replies.
 *
 * Each shard that has ids of the query receives its own query: the bags that have ids in the shard,
 * with only these ids, in their order. The reply of the shard has one row per bag. If a bag lies in
 * one shard, this row is the result of the bag. If a bag spans several shards, it has some slots of
 * a scratch table. The rows are copied into the slots and pooled from there, like rows of a small
 * table:
 *
 *   POOLED  Shards pool their parts. The parts are pooled again in the order of the shards.
 *   EXACT   Shards return the rows of bags that span several shards one by one. The rows are pooled
 *           in the order of the indices.
 *   ROWS    The mode of every query with pooling MAX. Shards return all rows one by one. The maxima
 *           are found in the merge (maxima.h).
 *
 * For a mean, shards return sums, and the division happens only once, in the merge. A query whose
 * ids all lie in one shard is passed on unchanged, except in the mode ROWS.
 */

#pragma once

#include "plugin/client/tables/placed_table.h"

typedef enum
{
  TPS_SPLIT_POOLED = 0,
  TPS_SPLIT_EXACT = 1,
  TPS_SPLIT_ROWS = 2,
} TpsSplitMode;

/* The request to one shard. */
typedef struct
{
  guint shard;
  gsize n_indices, n_bags;
  gint64 *indices; /* [n_indices] */
  gint64 *offsets; /* [n_bags] */
  gfloat *weights; /* [n_indices], or NULL */
  gint64 *bags;    /* [n_bags], the number of each bag in the query */
  gint64 *slots;   /* [n_bags], slots in the scratch table; -1 = the bag lies in one shard */
  TpsTensor answer;
} TpsBagPart;

/* A bag that spans several shards, and is pooled from slots of the scratch table. */
typedef struct
{
  gsize bag, first_slot, n_slots;
} TpsSpanningBag;

typedef struct
{
  TpsPlacedTable *table; /* a reference */
  TpsBagQuery query;     /* borrowed */
  TpsSplitMode mode;
  gboolean is_passed_on; /* there is one part, the unchanged query; the part's arrays are NULL */
  guint n_parts;
  TpsBagPart *parts;       /* in ascending order of shards; only shards with ids */
  GArray *spanning;        /* of TpsSpanningBag; NULL if is_passed_on */
  gsize n_slots;           /* of the scratch table */
  gfloat *slot_weights;    /* EXACT with weights: [n_slots] */
  gpointer memory, floats; /* memory of the parts' arrays */
} TpsBagSplit;

/* Splits `query`, which must have been checked, also against the rows of `table`. `query` and its
 * tensors are borrowed until the split is cleared. `mode` is POOLED or EXACT; pooling MAX makes it
 * ROWS. */
void tps_bag_split_init (TpsBagSplit *split, TpsPlacedTable *table, const TpsBagQuery *query,
                         TpsSplitMode mode);
void tps_bag_split_clear (TpsBagSplit *split);

/* Returns the query for the shard of part `number`; it borrows from the split. */
TpsBagQuery tps_bag_split_get_query (const TpsBagSplit *split, guint number);

/* Takes ownership of the reply for part `number`. If the reply must be merged and lies in memory of
 * a device, it is copied to the host; the copy blocks. Errors: INVALID_ARGUMENT if the reply does
 * not match the request; those of the copy. Thread: any; calls for different parts may run at the
 * same time. */
gboolean tps_bag_split_take_answer (TpsBagSplit *split, guint number, TpsTensor *answer,
                                    GError **error);

/* Merges the replies, all of which must have been taken, into FLOAT32 [bags, dim]. With pooling
 * MAX, `maxima` becomes INT64 [bags, dim], as from tps_maxima_find(). `output` and `maxima` must be
 * zero on entry. */
void tps_bag_split_merge (TpsBagSplit *split, TpsTensor *output, TpsTensor *maxima);
