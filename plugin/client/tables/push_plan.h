/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The plan of a push: gradients of several queries over several servers, with one request per
 * server. Every row receives the same contributions in the same order as if its table were in one
 * piece. It uses no sockets.
 *
 * All contributions to a row go to its shard, in the order of the list. Means are divided here,
 * once per bag. The maxima of bags that span several shards need the rows of the bags first; `rows`
 * is the lookup for that. Optimizers that count steps receive an empty gradient on shards without
 * ids.
 */

#pragma once

#include "plugin/client/tables/lookup_plan.h"

G_BEGIN_DECLS

typedef struct
{
  /* Of TpsBagGradient, in the order of the caller's; empty = no request to this server. */
  GArray *gradients;
} TpsPushPart;

typedef struct TpsPushPlan TpsPushPlan;

struct TpsPushPlan
{
  TpsLookupPlan *rows; /* must be answered before tps_push_plan_finish(); NULL = not needed */
  guint n_servers;
  TpsPushPart *requests; /* [n_servers], filled in by tps_push_plan_finish() */

  /* Private. */
  guint n_gradients;
  TpsBagGradient *gradients; /* [n_gradients], with maxima replaced by their expansions */
  TpsBagSplit *splits;       /* [n_gradients] */
  GArray *maxima;            /* of guint: the gradients that need `rows` */
  GPtrArray *expanded;       /* of TpsMaxGradient */
  GPtrArray *buffers;        /* of TpsBuffer: gradients of parts */
};

/* Creates a plan. `tables` [n_gradients]: it takes references. The gradients must have been
 * checked; their elements are borrowed. */
TpsPushPlan *tps_push_plan_new (TpsPlacedTable *const *tables, const TpsBagGradient *gradients,
                                guint n_gradients, guint n_servers);
void tps_push_plan_free (TpsPushPlan *plan);

/* Fills in the requests. All replies of `rows` must have been taken before. */
void tps_push_plan_finish (TpsPushPlan *plan);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPushPlan, tps_push_plan_free)

G_END_DECLS
