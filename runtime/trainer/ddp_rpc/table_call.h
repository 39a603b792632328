/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A call to embedding tables that its caller goes on without and waits for later. One thread at a
 * time; the answer may come from any. */

#pragma once

#include "runtime/trainer/ports/table_client.h"
#include "runtime/base/sync.h"

G_BEGIN_DECLS

typedef struct
{
  TpsTableClient *client; /* borrowed */
  guint n_outputs;
  TpsTensor *
      outputs; /* [n_outputs], of lookups; kept until the next lookup of that table, or moved out */
  gint64 deadline_ns;
  gint64 start_ns;
  guint first_output; /* of the lookup that is under way */

  TpsMutex lock;
  TpsCond changed;
  /* Under the lock while a call is under way. */
  gboolean is_pending;
  guint n_expected;
  gint64 end_ns;
  GError *error;
} TpsTableCall;

/* In the caller's storage. */
void tps_table_call_init (TpsTableCall *call, TpsTableClient *client, guint n_outputs);
/* Cancels the client where a call is still under way, and waits for its end. */
void tps_table_call_clear (TpsTableCall *call);

/* Each begins a call, of which one may be under way at a time. What the arguments point to stays as
 * it is until tps_table_call_wait(). Outputs of the lookup go to outputs[first_output] and the
 * following. */
void tps_table_call_lookup (TpsTableCall *call, const TpsBagQuery *queries, guint n_queries,
                            guint first_output, gint64 deadline_ns);
void tps_table_call_apply (TpsTableCall *call, const TpsBagGradient *gradients, guint n_gradients,
                           gint64 deadline_ns);

/* Until the call has ended; TRUE at once where none is under way. Errors: those of the client;
 * DEADLINE_EXCEEDED where it did not keep its own deadline: it is cancelled then. */
gboolean tps_table_call_wait (TpsTableCall *call, GError **error);

/* How long the last call took that has ended. */
gdouble tps_table_call_get_ms (const TpsTableCall *call);

G_END_DECLS
