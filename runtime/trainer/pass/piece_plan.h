/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The division of buckets into pieces, each of which is averaged in a separate round. While a
 * server sends the average of one piece, it receives the next piece, so that a large bucket uses
 * both directions of a link at the same time. The pieces of a bucket may have different servers, so
 * that a large bucket uses the links of all servers.
 *
 * The plan is a pure function of its arguments. All trainers of a server must use the same plan.
 */

#pragma once

#include "runtime/trainer/ports/hook.h"

G_BEGIN_DECLS

/* The form in which a bucket travels. */
typedef struct
{
  TpsGradientKind travels_as;
  gint64 n_units;      /* elements if it travels dense, otherwise rows */
  gint64 n_wire_bytes; /* of a contribution; an estimate, the same on all trainers */
} TpsPieceBucket;

typedef struct
{
  const TpsPieceBucket *buckets; /* [n_buckets], borrowed for the call */
  guint n_buckets;
  guint n_servers;    /* >= 1 */
  gint only_server;   /* the server of all pieces; -1 = all servers take part */
  gint64 piece_bytes; /* desired size of a piece; 0 = one piece per bucket */
} TpsPiecePlanOptions;

typedef struct TpsPiecePlan TpsPiecePlan;

struct TpsPiecePlan
{
  TpsRoute *routes; /* [n_buckets], for TpsHookContext */
  guint n_pieces;
  TpsPiece *pieces; /* [n_pieces]; the routes point into it */
};

/* Computes the plan, which the caller must free.
 *
 * The param_loc of a piece is its number, in the order of the buckets. Unless `only_server` is set,
 * servers are assigned as follows. With one piece per bucket, buckets are distributed by
 * tps_partition_buckets(). Otherwise each piece goes to the server with the fewest bytes so far, so
 * that neighbours have different servers. Pieces grow with the model so that a step has at most
 * TPS_PIECE_PLAN_MAX pieces more than buckets, because a server limits the number of rounds of a
 * batch. */
TpsPiecePlan *tps_piece_plan_new (const TpsPiecePlanOptions *options);
void tps_piece_plan_free (TpsPiecePlan *plan);

#define TPS_PIECE_PLAN_MAX 512

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPiecePlan, tps_piece_plan_free)

G_END_DECLS
