/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The plan of a lookup: several queries over several servers, with one request per server, and the
 * merge of the replies. It uses no sockets. */

#pragma once

#include "plugin/client/tables/bag_split.h"

G_BEGIN_DECLS

/* Part `part` of query `query`. */
typedef struct
{
  guint query, part;
} TpsPartNumber;

/* The request to one server; none if `queries` is empty. */
typedef struct
{
  GArray *queries; /* of TpsBagQuery, in the order of the caller's */
  GArray *parts;   /* of TpsPartNumber: the origin of each query */
} TpsLookupRequest;

typedef struct
{
  guint n_queries;
  TpsBagSplit *splits; /* [n_queries] */
  guint n_servers;
  TpsLookupRequest *requests; /* [n_servers] */
} TpsLookupPlan;

/* Creates a plan. `tables` [n_queries]: it takes references. The queries must have been checked;
 * their elements are borrowed. */
TpsLookupPlan *tps_lookup_plan_new (TpsPlacedTable *const *tables, const TpsBagQuery *queries,
                                    guint n_queries, TpsSplitMode mode, guint n_servers);
void tps_lookup_plan_free (TpsLookupPlan *plan);

/* Takes ownership of the reply of a server. Errors: INVALID_ARGUMENT if it does not match the
 * request. Thread: any; several servers at the same time. */
gboolean tps_lookup_plan_take_answer (TpsLookupPlan *plan, guint server, TpsTensor *tensors,
                                      guint n_tensors, GError **error);

/* Merges the replies, all of which must have been taken. `outputs` [n_queries], zero before, become
 * FLOAT32 [bags, dim] each, or [n_indices, dim] for ROWS. */
void tps_lookup_plan_finish (TpsLookupPlan *plan, TpsTensor *outputs);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupPlan, tps_lookup_plan_free)

G_END_DECLS
