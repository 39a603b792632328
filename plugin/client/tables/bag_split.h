/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One query over the shards of its table: what each shard is asked, and how their answers make one.
 *
 * Each shard that has ids of the query gets a query of its own: the bags that have ids there, with
 * those ids, in the order given. Its answer has a row for each of them. The row of a bag that lies
 * in one shard is the bag's; a bag that spans several has some slots of a scratch table, which its
 * rows go to and are pooled from, as rows of a small table:
 *
 *   POOLED  shards pool their parts; the parts are pooled again in the order of the shards
 *   EXACT   rows of bags that span several shards come one by one, and are pooled in the order of
 *           the indices
 *   ROWS    all rows come one by one, and stay in their slots in the order of the indices
 *
 * Means are sums at the shards, and divided once, here. A query whose ids all lie in one shard is
 * passed on as it is.
 */

#pragma once

#include "plugin/client/tables/placed_table.h"
#include "runtime/embedding/bag_query.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_SPLIT_POOLED = 0,
  TPS_SPLIT_EXACT = 1,
  TPS_SPLIT_ROWS = 2,
} TpsSplitMode;

/* What one shard is asked. */
typedef struct
{
  guint shard;
  gsize n_indices, n_bags;
  gint64 *indices; /* [n_indices] */
  gint64 *offsets; /* [n_bags] */
  gfloat *weights; /* [n_indices], or NULL */
  gint64 *bags;    /* [n_bags], which bag of the query each is */
  gint64 *slots;   /* [n_bags], of the scratch table; -1 = the bag lies here */
  TpsTensor answer;
} TpsBagPart;

/* A bag that is pooled from slots. */
typedef struct
{
  gsize bag, first_slot, n_slots;
} TpsSpanningBag;

typedef struct
{
  TpsPlacedTable *table; /* a reference */
  TpsBagQuery query;     /* borrowed */
  TpsSplitMode mode;
  gboolean is_passed_on; /* one part: the query as it is; the part's arrays are NULL */
  guint n_parts;
  TpsBagPart *parts;       /* ascending shards; none where there are no ids */
  GArray *spanning;        /* of TpsSpanningBag; NULL where is_passed_on */
  gsize n_slots;           /* of the scratch table */
  gfloat *slot_weights;    /* EXACT with weights: [n_slots] */
  gpointer memory, floats; /* what the parts' arrays lie in */
} TpsBagSplit;

/* `query` is checked, its rows too; it and what it points to is borrowed until the split is
 * cleared. In the mode ROWS it has neither weights nor ids in one shard only. */
void tps_bag_split_init (TpsBagSplit *split, TpsPlacedTable *table, const TpsBagQuery *query,
                         TpsSplitMode mode);
void tps_bag_split_clear (TpsBagSplit *split);

gsize tps_bag_split_n_bags (const TpsBagSplit *split);

/* What the part's shard is asked; borrows from the split. */
TpsBagQuery tps_bag_split_get_query (const TpsBagSplit *split, guint number);

/* Takes the part's answer over. Errors: INVALID_ARGUMENT where it does not fit what was asked.
 * Thread: several parts at a time. */
gboolean tps_bag_split_take_answer (TpsBagSplit *split, guint number, TpsTensor *answer,
                                    GError **error);

/* All answers are there: FLOAT32 [bags, dim], zero before. Not for ROWS. */
void tps_bag_split_merge (TpsBagSplit *split, TpsTensor *output);

/* ROWS: FLOAT32 [n_indices, dim], zero before. */
void tps_bag_split_gather_rows (TpsBagSplit *split, TpsTensor *rows);

G_END_DECLS
