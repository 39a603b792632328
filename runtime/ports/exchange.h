/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The interface of a communication hook to the parameter servers; the plugin implements it. */

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
  /* Sends `gradient` as this trainer's contribution to round (batch, param_loc) to server `server`
   * in [0, n_servers). Its elements must not change until `done`, and lie in host memory, except as
   * allowed by takes_device. Never blocks on the network; `done` comes before `deadline_ns` plus a
   * scheduling delay. Errors: those of the wire call, CONNECTION_LOST. Thread: one call at a
   * time. */
  void (*average_gradient) (TpsExchange *exchange, guint server, gint64 batch, gint32 param_loc,
                            const TpsGradient *gradient, gint64 deadline_ns, TpsExchangeDone done,
                            gpointer user_data);

  /* Ends all calls in flight with ABORTED; later calls fail at once. Thread: any. */
  void (*cancel) (TpsExchange *exchange);

  /* Cancels, and frees the exchange. */
  void (*free) (TpsExchange *exchange);

  /* Returns TRUE if dense tensors for `server` may lie in the memory of `device`; must be asked
   * before each such average_gradient(), whose tensors must be complete. Averages may then lie
   * there as well. Must not block. Optional: NULL means never. */
  gboolean (*takes_device) (TpsExchange *exchange, guint server, TpsDevice *device);

  /* Returns host memory of `n_bytes` from which dense tensors for `server` are sent without a copy:
   * a new reference to `current` (may be NULL) if that is suitable. Owned by the caller; stays
   * valid after the exchange was freed. NULL: none now. Must not block. Optional: NULL means
   * never. */
  TpsBuffer *(*get_memory) (TpsExchange *exchange, guint server, gsize n_bytes, TpsBuffer *current);
} TpsExchangeOps;

/* Implementations embed this struct as their first member. */
struct TpsExchange
{
  const TpsExchangeOps *ops;
  guint n_servers;
};

G_END_DECLS
