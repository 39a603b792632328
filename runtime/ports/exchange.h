/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The interface of a communication hook to the parameter servers. The plugin implements it over
 * Thrift, and tests implement it in memory.
 */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/tensor/gradient.h"

G_BEGIN_DECLS

typedef struct TpsExchange TpsExchange;

/* Receives the average of a round. Called exactly once, from any thread. `average` is NULL on
 * error. The callee may keep it by tps_gradient_move(); otherwise it is released after the call. */
typedef void (*TpsExchangeDone) (gpointer user_data, TpsGradient *average, const GError *error);

typedef struct
{
  /* Sends `gradient` as this trainer's contribution to round (batch, param_loc) to server number
   * `server` in [0, n_servers). The elements of `gradient` stay borrowed and must not change until
   * `done`. Tensors must lie in host memory, except as allowed by takes_device. Never blocks on the
   * network; `done` is called before `deadline_ns` plus a scheduling delay. Errors: those of the
   * wire call, CONNECTION_LOST. Thread: one call at a time. */
  void (*average_gradient) (TpsExchange *exchange, guint server, gint64 batch, gint32 param_loc,
                            const TpsGradient *gradient, gint64 deadline_ns, TpsExchangeDone done,
                            gpointer user_data);

  /* Ends all calls in flight with ABORTED; later calls fail at once. Thread: any. */
  void (*cancel) (TpsExchange *exchange);

  /* Cancels, and frees the exchange. */
  void (*free) (TpsExchange *exchange);

  /* Returns TRUE if dense tensors for server number `server` may lie in the memory of `device` (see
   * tps_buffer_get_device()). The tensors must be complete when average_gradient() is called.
   * Averages may then lie in this memory as well, and are complete when they are delivered. Must be
   * called before each average_gradient() with tensors of a device. Must not block. Optional: NULL
   * means that the exchange never accepts device memory. */
  gboolean (*takes_device) (TpsExchange *exchange, guint server, TpsDevice *device);

  /* Returns host memory of `n_bytes` from which dense tensors for server number `server` are sent
   * without a copy. `current` is the result of an earlier call, any other buffer, or NULL. If
   * `current` is still suitable, the result is a new reference to it. The result is owned by the
   * caller and stays valid after the exchange has been freed. Returns NULL if there is no suitable
   * memory now; a later call may succeed. Must not block. Optional: NULL means that there is never
   * suitable memory. */
  TpsBuffer *(*get_memory) (TpsExchange *exchange, guint server, gsize n_bytes, TpsBuffer *current);
} TpsExchangeOps;

/* Implementations embed this struct as their first member. */
struct TpsExchange
{
  const TpsExchangeOps *ops;
  guint n_servers;
};

G_END_DECLS
