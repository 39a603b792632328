/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The interface of a trainer to the server that stores its model; the plugin implements it. */

#pragma once

#include "runtime/tensor/optimizer.h"
#include "runtime/tensor/model_version.h"

G_BEGIN_DECLS

typedef struct TpsModelClient TpsModelClient;

/* Receives the reply, exactly once, from any thread; must not block. `model` is borrowed; NULL on
 * error and for replies without a model. */
typedef void (*TpsModelAnswered) (gpointer user_data, TpsModelVersion *model, const GError *error);

/* No function blocks on the network. `done` is called before `deadline_ns` (monotonic) plus a
 * scheduling delay. Errors: those of the wire call of the same name, CONNECTION_LOST. */
typedef struct
{
  /* Sets the initial parameters and the optimizer of the model. Borrowed arguments must not change
   * until `done`, which receives no model. */
  void (*init_model) (TpsModelClient *client, const TpsNamedTensor *parameters, guint n_parameters,
                      const TpsOptimizerSpec *optimizer, gint64 deadline_ns, TpsModelAnswered done,
                      gpointer user_data);

  /* Fetches the newest version of the model. */
  void (*get_model) (TpsModelClient *client, gint64 deadline_ns, TpsModelAnswered done,
                     gpointer user_data);

  /* Sends `gradients` [n], of model `version`, as this trainer's contribution to the next update.
   * They must not change until `done`. After a failure the call may be repeated; it is applied
   * once. */
  void (*update_and_fetch) (TpsModelClient *client, const TpsTensor *gradients, guint n_gradients,
                            gint64 version, gint64 deadline_ns, TpsModelAnswered done,
                            gpointer user_data);

  /* Ends all calls in flight with ABORTED; later calls fail at once. Thread: any. */
  void (*cancel) (TpsModelClient *client);

  /* Cancels, and frees the client. */
  void (*free) (TpsModelClient *client);

  /* Returns host memory of `n_bytes` from which gradients are sent without a copy. Optional;
   * `current`, ownership and NULL as for TpsExchangeOps.get_memory(). */
  TpsBuffer *(*get_memory) (TpsModelClient *client, gsize n_bytes, TpsBuffer *current);
} TpsModelClientOps;

/* Implementations embed this struct as their first member. */
struct TpsModelClient
{
  const TpsModelClientOps *ops;
};

G_END_DECLS
