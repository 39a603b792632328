/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How a trainer reaches the server that keeps its model: an interface that the plugin implements
 * over Thrift and tests implement in memory.
 */

#pragma once

#include "runtime/tensor/optimizer.h"
#include "runtime/tensor/model_version.h"

G_BEGIN_DECLS

typedef struct TpsModelClient TpsModelClient;

/* Called exactly once, from any thread; must not block. `model` is borrowed for the call (ref keeps
 * it); NULL on error, and where no model is answered. */
typedef void (*TpsModelAnswered) (gpointer user_data, TpsModelVersion *model, const GError *error);

/* All calls: never block on the network; `done` comes before `deadline_ns` plus a scheduling delay.
 * Errors: those of the wire call of the same name, CONNECTION_LOST. */
typedef struct
{
  /* What is borrowed must not change until `done`, which gets no model. */
  void (*init_model) (TpsModelClient *client, const TpsNamedTensor *parameters, guint n_parameters,
                      const TpsOptimizerSpec *optimizer, gint64 deadline_ns, TpsModelAnswered done,
                      gpointer user_data);

  void (*get_model) (TpsModelClient *client, gint64 deadline_ns, TpsModelAnswered done,
                     gpointer user_data);

  /* Sends `gradients` [n], of model `version`, as this trainer's part of the next update. Their
   * elements must not change until `done`. Sent again where that is worth it; applied once. */
  void (*update_and_fetch) (TpsModelClient *client, const TpsTensor *gradients, guint n_gradients,
                            gint64 version, gint64 deadline_ns, TpsModelAnswered done,
                            gpointer user_data);

  /* Ends all outstanding calls with ABORTED; later calls fail at once. Thread: any. */
  void (*cancel) (TpsModelClient *client);

  /* Cancels, then frees. */
  void (*free) (TpsModelClient *client);
} TpsModelClientOps;

/* Implementations embed this as their first member. */
struct TpsModelClient
{
  const TpsModelClientOps *ops;
};

G_END_DECLS
