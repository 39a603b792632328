/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A call to a model's server that its caller goes on without and waits for later. One thread at a
 * time; the answer may come from any. */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/trainer/ports/model_client.h"

G_BEGIN_DECLS

typedef struct
{
  TpsModelClient *client; /* borrowed */

  TpsMutex lock;
  TpsCond changed;
  /* Under the lock while a call is under way. */
  gboolean is_pending;
  TpsModelVersion *model;
  GError *error;
} TpsModelCall;

/* In the caller's storage. */
void tps_model_call_init (TpsModelCall *call, TpsModelClient *client);
/* Cancels the client where a call is still under way, and waits for its end. */
void tps_model_call_clear (TpsModelCall *call);

/* Each begins a call, of which one may be under way at a time. What is borrowed stays as it is
 * until tps_model_call_wait(). */
void tps_model_call_init_model (TpsModelCall *call, const TpsNamedTensor *parameters,
                                guint n_parameters, const TpsOptimizerSpec *optimizer,
                                gint64 deadline_ns);
void tps_model_call_get_model (TpsModelCall *call, gint64 deadline_ns);
void tps_model_call_update (TpsModelCall *call, const TpsTensor *gradients, guint n_gradients,
                            gint64 version, gint64 deadline_ns);

/* Until the call has ended. `model` (may be NULL): what was answered, a reference; NULL for
 * init_model. Errors: those of the client. */
gboolean tps_model_call_wait (TpsModelCall *call, TpsModelVersion **model, GError **error);

G_END_DECLS
