/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The plans of a lookup of several queries, and of a push of their gradients, on several servers,
 * with one request per server. Plans use no sockets.
 *
 * In a push, every row receives the same contributions in the same order as if its table were on
 * one server. All contributions to a row go to its shard, in the order of the list. The gradients
 * of means are divided in the plan, once per bag. Gradients of maxima become gradients of rows; if
 * the caller does not pass the maxima, `rows` is the lookup that finds them. If the optimizer
 * counts steps, shards without ids receive an empty gradient. */

#pragma once

#include "plugin/client/tables/bag_split.h"
#include "plugin/wire/bag_arguments.h"

/* -- lookups -- */

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

/* -- pushes -- */

typedef struct
{
  /* Of TpsBagGradient, in the order of the caller's gradients; empty = no request is sent to this
   * server. */
  GArray *gradients;
  TpsApplyBagGradientsArguments arguments; /* the sender's */
} TpsPushPart;

typedef struct TpsPushPlan TpsPushPlan;

struct TpsPushPlan
{
  TpsLookupPlan *rows; /* must be answered before tps_push_plan_finish(); NULL = not needed */
  guint n_servers;
  TpsPushPart *requests; /* [n_servers], filled in by tps_push_plan_finish() */

  /* Private. */
  guint n_gradients;
  TpsPlacedTable **tables;   /* [n_gradients], references */
  TpsBagGradient *gradients; /* [n_gradients], with maxima replaced by their expansions */
  TpsBagSplit *splits;       /* [n_gradients], filled in by tps_push_plan_finish() */
  GPtrArray *expanded;       /* of TpsMaxGradient */
  GPtrArray *buffers;        /* of TpsBuffer: gradients of parts */
};

/* Creates a plan, which the caller owns. It takes references to `tables` [n_gradients]. The
 * gradients must have been checked; their elements are borrowed. */
TpsPushPlan *tps_push_plan_new (TpsPlacedTable *const *tables, const TpsBagGradient *gradients,
                                guint n_gradients, guint n_servers);
void tps_push_plan_free (TpsPushPlan *plan);

/* Fills in the requests. If `rows` is not NULL, all its replies must already have been taken. */
void tps_push_plan_finish (TpsPushPlan *plan);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupPlan, tps_lookup_plan_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPushPlan, tps_push_plan_free)
