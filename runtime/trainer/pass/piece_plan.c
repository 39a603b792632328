/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/pass/piece_plan.h"

#include "runtime/trainer/pass/partition.h"

/* Dense pieces begin at multiples of this number of elements, so copies of them are aligned. */
#define ELEMS_STEP 16

static gint64
get_step (const TpsPieceBucket *bucket)
{
  return bucket->travels_as == TPS_GRADIENT_DENSE ? ELEMS_STEP : 1;
}

static gint64
get_piece_bytes (const TpsPiecePlanOptions *options)
{
  gint64 total = 0;

  for (guint b = 0; b < options->n_buckets; b++)
    total += options->buckets[b].n_wire_bytes;
  return MAX (options->piece_bytes, total / TPS_PIECE_PLAN_MAX + 1);
}

static guint
count_pieces (const TpsPieceBucket *bucket, gint64 piece_bytes)
{
  gint64 n_pieces = (bucket->n_wire_bytes - 1) / piece_bytes + 1; /* a sum may overflow */

  return (guint) CLAMP (n_pieces, 1, MAX (bucket->n_units / get_step (bucket), 1));
}

/* Returns the first unit of piece `i` of `n`. */
static gint64
get_start (const TpsPieceBucket *bucket, guint i, guint n)
{
  gint64 step = get_step (bucket);
  gint64 n_steps = (bucket->n_units + step - 1) / step;

  return MIN (n_steps * i / n * step, bucket->n_units);
}

static void
fill_routes (TpsPiecePlan *plan, const TpsPiecePlanOptions *options)
{
  gint64 piece_bytes = get_piece_bytes (options);

  for (guint b = 0; b < options->n_buckets; b++)
    {
      plan->routes[b].n_pieces = options->piece_bytes == 0
                                     ? 1
                                     : count_pieces (&options->buckets[b], piece_bytes);
      plan->n_pieces += plan->routes[b].n_pieces;
    }
}

static void
fill_pieces (TpsPiecePlan *plan, const TpsPiecePlanOptions *options)
{
  TpsPiece *piece = plan->pieces = g_new0 (TpsPiece, plan->n_pieces);

  for (guint b = 0; b < options->n_buckets; b++)
    {
      const TpsPieceBucket *bucket = &options->buckets[b];
      guint n = plan->routes[b].n_pieces;

      plan->routes[b].pieces = piece;
      for (guint i = 0; i < n; i++, piece++)
        {
          piece->param_loc = (gint32) (piece - plan->pieces);
          piece->first_unit = get_start (bucket, i, n);
          piece->n_units = get_start (bucket, i + 1, n) - piece->first_unit;
        }
    }
}

/* Assigns whole buckets. Their sizes may differ widely, so the largest bucket is assigned first. */
static void
assign_buckets (TpsPiecePlan *plan, const TpsPiecePlanOptions *options)
{
  g_autofree gint64 *n_bytes = g_new (gint64, options->n_buckets);
  g_autofree guint *owners = g_new (guint, options->n_buckets);

  for (guint b = 0; b < options->n_buckets; b++)
    n_bytes[b] = options->buckets[b].n_wire_bytes;
  tps_partition_buckets (n_bytes, options->n_buckets, options->n_servers, owners);
  for (guint b = 0; b < options->n_buckets; b++)
    plan->pieces[b].server = owners[b];
}

static guint
find_least_loaded (const gint64 *totals, guint n_servers)
{
  guint least = 0;

  for (guint i = 1; i < n_servers; i++)
    if (totals[i] < totals[least])
      least = i;
  return least;
}

/* Assigns pieces in the order in which they are sent, so all servers are busy from the first bucket
 * on. */
static void
assign_pieces (TpsPiecePlan *plan, const TpsPiecePlanOptions *options)
{
  g_autofree gint64 *totals = g_new0 (gint64, options->n_servers);
  TpsPiece *piece = plan->pieces;

  for (guint b = 0; b < options->n_buckets; b++)
    for (guint i = 0; i < plan->routes[b].n_pieces; i++, piece++)
      {
        piece->server = find_least_loaded (totals, options->n_servers);
        totals[piece->server] += options->buckets[b].n_wire_bytes / plan->routes[b].n_pieces;
      }
}

TpsPiecePlan *
tps_piece_plan_new (const TpsPiecePlanOptions *options)
{
  TpsPiecePlan *plan = g_new0 (TpsPiecePlan, 1);

  plan->routes = g_new0 (TpsRoute, options->n_buckets);
  fill_routes (plan, options);
  fill_pieces (plan, options);
  if (options->only_server >= 0)
    for (guint i = 0; i < plan->n_pieces; i++)
      plan->pieces[i].server = (guint) options->only_server;
  else if (options->piece_bytes == 0)
    assign_buckets (plan, options);
  else
    assign_pieces (plan, options);
  return plan;
}

void
tps_piece_plan_free (TpsPiecePlan *plan)
{
  if (plan == NULL)
    return;
  g_free (plan->routes);
  g_free (plan->pieces);
  g_free (plan);
}
