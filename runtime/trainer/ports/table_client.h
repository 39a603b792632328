/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How a trainer reaches embedding tables, wherever they lie: an interface that the plugin
 * implements over Thrift (for any number of shards) and tests implement in memory.
 */

#pragma once

#include "runtime/embedding/bag_query.h"

G_BEGIN_DECLS

typedef struct TpsTableClient TpsTableClient;

/* Called exactly once, from any thread; must not block. `outputs` [n_queries] are the caller's to
 * keep: move them out with tps_tensor_move(); what is left is released after the call. NULL on
 * error. */
typedef void (*TpsTablesLookedUp) (gpointer user_data, TpsTensor *outputs, const GError *error);
typedef void (*TpsTablesApplied) (gpointer user_data, const GError *error);

typedef struct
{
  /* All queries are in flight together, one call a server; `done` gets the answers in the order of
   * the queries. Nothing blocks on the network; `done` comes before `deadline_ns` (monotonic) plus
   * a scheduling delay. What the queries point to stays borrowed until `done`; the array itself is
   * copied. Errors: those of the wire calls, CONNECTION_LOST. */
  void (*lookup_bags) (TpsTableClient *client, const TpsBagQuery *queries, guint n_queries,
                       gint64 deadline_ns, TpsTablesLookedUp done, gpointer user_data);

  /* One step for each table that is named. Applied once, also when an answer was lost and the call
   * is sent again. */
  void (*apply_bags) (TpsTableClient *client, const TpsBagGradient *gradients, guint n_gradients,
                      gint64 deadline_ns, TpsTablesApplied done, gpointer user_data);

  /* Ends all outstanding calls with ABORTED; later calls fail at once. Thread: any. */
  void (*cancel) (TpsTableClient *client);

  /* Cancels, then frees. */
  void (*free) (TpsTableClient *client);
} TpsTableClientOps;

/* Implementations embed this as their first member. */
struct TpsTableClient
{
  const TpsTableClientOps *ops;
};

G_END_DECLS
