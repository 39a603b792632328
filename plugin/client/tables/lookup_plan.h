/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Several queries over several servers: one request a server, and the answers put together. No
 * sockets here. */

#pragma once

#include "plugin/client/tables/bag_split.h"

G_BEGIN_DECLS

/* Part `part` of query `query`. */
typedef struct
{
  guint query, part;
} TpsPartNumber;

/* What one server is asked; nothing where `queries` is empty. */
typedef struct
{
  GArray *queries; /* of TpsBagQuery, in the order of the caller's */
  GArray *parts;   /* of TpsPartNumber: whose each of them is */
} TpsLookupRequest;

typedef struct
{
  guint n_queries;
  TpsBagSplit *splits; /* [n_queries] */
  guint n_servers;
  TpsLookupRequest *requests; /* [n_servers] */
} TpsLookupPlan;

/* `tables` [n_queries], of which references are taken; checked queries, whose elements are
 * borrowed. */
TpsLookupPlan *tps_lookup_plan_new (TpsPlacedTable *const *tables, const TpsBagQuery *queries,
                                    guint n_queries, TpsSplitMode mode, guint n_servers);
void tps_lookup_plan_free (TpsLookupPlan *plan);

/* Takes a server's answer over. Errors: INVALID_ARGUMENT where it does not fit what was asked.
 * Thread: several servers' at a time. */
gboolean tps_lookup_plan_take_answer (TpsLookupPlan *plan, guint server, TpsTensor *tensors,
                                      guint n_tensors, GError **error);

/* All answers are there. `outputs` [n_queries], zero before: FLOAT32 [bags, dim] each, for ROWS
 * [n_indices, dim]. */
void tps_lookup_plan_finish (TpsLookupPlan *plan, TpsTensor *outputs);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupPlan, tps_lookup_plan_free)

G_END_DECLS
