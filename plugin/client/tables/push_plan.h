/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The plan of a push: gradients of several queries on several servers, with one request per server.
 * Every row receives the same contributions in the same order as if its table were on one server.
 * The plan uses no sockets.
 *
 * All contributions to a row go to its shard, in the order of the list. The gradients of means are
 * divided in the plan, once per bag. Gradients of maxima become gradients of rows; if the caller
 * does not pass the maxima, `rows` is the lookup that finds them. If the optimizer counts steps,
 * shards without ids receive an empty gradient.
 */

#pragma once

#include "plugin/client/tables/lookup_plan.h"

G_BEGIN_DECLS

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

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPushPlan, tps_push_plan_free)

G_END_DECLS
