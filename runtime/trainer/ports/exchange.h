/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How a communication hook reaches parameter servers: an interface that the plugin implements over
 * Thrift and tests implement in memory.
 */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/tensor/gradient.h"

G_BEGIN_DECLS

typedef struct TpsExchange TpsExchange;

/* Called exactly once, from any thread. `average` is the caller's to keep: move it out with
 * tps_gradient_move(); what is left in it is released after the call. NULL on error. */
typedef void (*TpsExchangeDone) (gpointer user_data, TpsGradient *average, const GError *error);

typedef struct
{
  /* Sends `gradient` as this trainer's contribution to round (batch, param_loc) to server number
   * `server` in [0, n_servers). Its elements stay borrowed and must not change until `done`. Never
   * blocks on the network; `done` comes before `deadline_ns` plus a scheduling delay. Errors: those
   * of the wire call, CONNECTION_LOST. Tensors lie in host memory, but see takes_device. Calls come
   * one at a time. */
  void (*average_gradient) (TpsExchange *exchange, guint server, gint64 batch, gint32 param_loc,
                            const TpsGradient *gradient, gint64 deadline_ns, TpsExchangeDone done,
                            gpointer user_data);

  /* Ends all outstanding calls with ABORTED; later calls fail at once. Thread: any. */
  void (*cancel) (TpsExchange *exchange);

  /* Cancels, then frees. */
  void (*free) (TpsExchange *exchange);

  /* Optional: NULL means never. TRUE: average_gradient to this server may be given dense tensors in
   * the memory of `device` (tps_buffer_get_device() says so), complete when it is called, and may
   * deliver averages that lie there, complete as well. Asked before each such call; must not
   * block. */
  gboolean (*takes_device) (TpsExchange *exchange, guint server, TpsDevice *device);
} TpsExchangeOps;

/* Implementations embed this as their first member. */
struct TpsExchange
{
  const TpsExchangeOps *ops;
  guint n_servers;
};

G_END_DECLS
