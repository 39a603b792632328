/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The interface of a trainer to embedding tables; the plugin implements it, for any number of
 * shards. */

#pragma once

#include <thriftps/tables.h>

#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

typedef struct
{
  /* Sends all queries at once, in one call for each server. Never blocks on the network; `done`
   * comes before `deadline_ns` (monotonic) plus a scheduling delay, with results in the order of
   * the queries. Their memory stays borrowed until `done`; the array is copied. If the client was
   * created for a device, results may lie in its memory; the work that reads one must end before
   * its release. Errors: those of the wire calls, CONNECTION_LOST. */
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
