/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The split of a list of rows over the shards of their table, and the merge of the replies. Within
 * each shard, rows keep their order. It uses no sockets. */

#pragma once

#include "plugin/client/tables/placed_table.h"

/* The rows in one shard. */
typedef struct
{
  guint shard;
  TpsTensorView indices; /* INT64 [n] */
  gsize *positions; /* [n], positions of the rows in the whole list; NULL = all rows, in order */
  TpsTensor answer;
} TpsRowPart;

typedef struct
{
  TpsPlacedTable *table; /* a reference */
  gsize n_rows;
  guint n_parts;
  TpsRowPart *parts; /* in ascending order of shards */
  gint64 *indices;   /* memory of the parts' indices */
  gsize *positions;
} TpsRowSplit;

/* Splits `indices`, INT64 [n], which must have been checked against the table and are borrowed
 * until the split is cleared. There is one part for each shard with rows, or for each shard of the
 * table if `all_shards` is TRUE. */
void tps_row_split_init (TpsRowSplit *split, TpsPlacedTable *table, TpsTensorView indices,
                         gboolean all_shards);
void tps_row_split_clear (TpsRowSplit *split);

/* Takes ownership of the rows of part `number`. If the rows must be merged and lie in memory of a
 * device, they are copied to the host; the copy blocks. Errors: INVALID_ARGUMENT if the rows do not
 * match the request; those of the copy. Thread: any; calls for different parts may run at the same
 * time. */
gboolean tps_row_split_take_answer (TpsRowSplit *split, guint number, TpsTensor *answer,
                                    GError **error);

/* Merges the taken replies into [n, dim] of the table's dtype. `rows` must be zero on entry. */
void tps_row_split_merge (TpsRowSplit *split, TpsTensor *rows);

/* Collects the rows of part `number` from `values` [n, dim], of any dtype, into `gathered`, which
 * must be zero on entry and may borrow from `values`. */
void tps_row_split_gather (const TpsRowSplit *split, guint number, TpsTensorView values,
                           TpsTensor *gathered);
