/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The plan of a lookup of several queries on several servers, with one request per server, and the
 * merge of the replies. It uses no sockets. */

#pragma once

#include "plugin/client/tables/bag_split.h"
#include "plugin/wire/bag_arguments.h"

G_BEGIN_DECLS

/* Identifies a part: number `part` of the split of query `query`. */
typedef struct
{
  guint query, part;
} TpsPartNumber;

typedef struct TpsLookupPlan TpsLookupPlan;

/* The request to one server. If `queries` is empty, no request is sent. */
typedef struct
{
  TpsLookupPlan *plan;
  GArray *queries;                  /* of TpsBagQuery, in the order of the caller's queries */
  GArray *parts;                    /* of TpsPartNumber: the origin of each query */
  TpsLookupBagsArguments arguments; /* the sender's */
} TpsLookupRequest;

struct TpsLookupPlan
{
  guint n_queries;
  TpsBagSplit *splits; /* [n_queries] */
  guint n_servers;
  TpsLookupRequest *requests; /* [n_servers] */
};

/* Creates a plan, which the caller owns. It takes references to `tables` [n_queries]. The queries
 * must have been checked; their elements are borrowed. */
TpsLookupPlan *tps_lookup_plan_new (TpsPlacedTable *const *tables, const TpsBagQuery *queries,
                                    guint n_queries, TpsSplitMode mode, guint n_servers);
void tps_lookup_plan_free (TpsLookupPlan *plan);

/* Takes ownership of the reply of a server. Errors: INVALID_ARGUMENT if the reply does not match
 * the request; those of tps_bag_split_take_answer(). Thread: any; calls for different servers may
 * run at the same time. */
gboolean tps_lookup_plan_take_answer (TpsLookupPlan *plan, guint server, TpsTensor *tensors,
                                      guint n_tensors, GError **error);

/* Merges the replies, all of which must have been taken. `outputs` and `maxima` [n_queries] must be
 * zero on entry; see tps_bag_split_merge(). */
void tps_lookup_plan_finish (TpsLookupPlan *plan, TpsTensor *outputs, TpsTensor *maxima);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupPlan, tps_lookup_plan_free)

G_END_DECLS
