/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An asynchronous call to a model's server: the caller continues and waits for the reply later.
 * Thread: one at a time; the reply may arrive on any thread. */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/ports/model_client.h"

G_BEGIN_DECLS

typedef struct
{
  TpsModelClient *client; /* borrowed */

  TpsMutex lock;
  TpsCond changed;
  /* Under the lock while a call is in flight. */
  gboolean is_pending;
  TpsModelVersion *model;
  GError *error;
} TpsModelCall;

/* Initialises a call in the caller's storage. `client` is borrowed. */
void tps_model_call_init (TpsModelCall *call, TpsModelClient *client);
/* Cancels the client if a call is still in flight, waits for the end of this call, and releases the
 * members. */
void tps_model_call_clear (TpsModelCall *call);

/* Each function starts a call; only one may be in flight at a time. Borrowed arguments must not
 * change until tps_model_call_wait() returns. */
void tps_model_call_init_model (TpsModelCall *call, const TpsNamedTensor *parameters,
                                guint n_parameters, const TpsOptimizerSpec *optimizer,
                                gint64 deadline_ns);
void tps_model_call_get_model (TpsModelCall *call, gint64 deadline_ns);
void tps_model_call_update (TpsModelCall *call, const TpsTensor *gradients, guint n_gradients,
                            gint64 version, gint64 deadline_ns);

/* Waits until the call has ended. `model`, an output that may be NULL, receives a reference to the
 * model in the reply, or NULL for init_model, whose reply contains no model. Errors: those of the
 * client. */
gboolean tps_model_call_wait (TpsModelCall *call, TpsModelVersion **model, GError **error);

G_END_DECLS
