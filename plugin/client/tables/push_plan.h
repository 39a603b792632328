/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Gradients of several queries over several servers: one request a server, so that every row gets
 * the same contributions in the same order as if its table were in one piece. No sockets here.
 *
 * Contributions to a row come from the shard that has it, where they stay in the order of the list.
 * Means are divided here, once a bag. The maxima of bags that span several shards need the rows of
 * the bags first: `rows` says what to look up for that. Optimizers that count steps get an empty
 * gradient on shards that no id touches.
 */

#pragma once

#include "plugin/client/tables/lookup_plan.h"

G_BEGIN_DECLS

typedef struct
{
  /* of TpsBagGradient, in the order of the caller's; empty = nothing for this server */
  GArray *gradients;
} TpsPushPart;

typedef struct TpsPushPlan TpsPushPlan;

struct TpsPushPlan
{
  TpsLookupPlan *rows; /* to be answered before tps_push_plan_finish (); NULL = nothing is needed */
  guint n_servers;
  TpsPushPart *requests; /* [n_servers], filled by tps_push_plan_finish () */

  /* Private. */
  guint n_gradients;
  TpsBagGradient *gradients; /* [n_gradients], maxima replaced by what they were expanded to */
  TpsBagSplit *splits;       /* [n_gradients] */
  GArray *maxima;            /* of guint: the gradients that `rows` is for */
  GPtrArray *expanded;       /* of TpsMaxGradient */
  GPtrArray *buffers;        /* of TpsBuffer: gradients of parts */
};

/* `tables` [n_gradients], of which references are taken; checked gradients, whose elements are
 * borrowed. */
TpsPushPlan *tps_push_plan_new (TpsPlacedTable *const *tables, const TpsBagGradient *gradients,
                                guint n_gradients, guint n_servers);
void tps_push_plan_free (TpsPushPlan *plan);

void tps_push_plan_finish (TpsPushPlan *plan);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPushPlan, tps_push_plan_free)

G_END_DECLS
