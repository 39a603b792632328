/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The interface of a trainer to embedding tables. The plugin implements it over Thrift (for any
 * number of shards), and tests implement it in memory.
 */

#pragma once

#include "runtime/embedding/bag_query.h"

G_BEGIN_DECLS

typedef struct TpsTableClient TpsTableClient;

/* Receive the result of a call. Called exactly once, from any thread; must not block. The callee
 * may keep any of `outputs` [n_queries] by tps_tensor_move(); the others are released after the
 * call. `outputs` is NULL on error. */
typedef void (*TpsTablesLookedUp) (gpointer user_data, TpsTensor *outputs, const GError *error);
typedef void (*TpsTablesApplied) (gpointer user_data, const GError *error);

typedef struct
{
  /* Sends all queries at once, in one call for each server. `done` receives the results in the
   * order of the queries. Never blocks on the network; `done` is called before `deadline_ns`
   * (monotonic) plus a scheduling delay. The memory behind the queries stays borrowed until `done`;
   * the array itself is copied. A client that was created for a device may return any of the
   * results in memory of that device. The work that reads such a result must have ended before the
   * result is released. Errors: those of the wire calls, CONNECTION_LOST. */
  void (*lookup_bags) (TpsTableClient *client, const TpsBagQuery *queries, guint n_queries,
                       gint64 deadline_ns, TpsTablesLookedUp done, gpointer user_data);

  /* Applies one step to each named table. The step is applied once, even if a reply is lost and the
   * call is sent again. */
  void (*apply_bags) (TpsTableClient *client, const TpsBagGradient *gradients, guint n_gradients,
                      gint64 deadline_ns, TpsTablesApplied done, gpointer user_data);

  /* Ends all calls in flight with ABORTED; later calls fail at once. Thread: any. */
  void (*cancel) (TpsTableClient *client);

  /* Cancels, and frees the client. */
  void (*free) (TpsTableClient *client);
} TpsTableClientOps;

/* Implementations embed this struct as their first member. */
struct TpsTableClient
{
  const TpsTableClientOps *ops;
};

G_END_DECLS
