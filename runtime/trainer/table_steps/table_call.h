/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An asynchronous call to embedding tables: the caller continues and waits for the reply later.
 * Thread: one at a time; the reply may arrive on any thread. */

#pragma once

#include "runtime/ports/table_client.h"
#include "runtime/base/sync.h"

typedef struct
{
  TpsTableClient *client; /* borrowed */
  guint n_outputs;
  /* [n_outputs], of lookups; kept until the next lookup of the table unless moved out. */
  TpsTensor *outputs;
  gint64 deadline_ns;
  gint64 start_ns;
  guint first_output; /* of the lookup in flight */

  TpsMutex lock;
  TpsCond changed;
  /* Under the lock while a call is in flight. */
  gboolean is_pending;
  guint n_expected;
  gint64 end_ns;
  GError *error;
} TpsTableCall;

/* Initialises a call in the caller's storage. `client` is borrowed. */
void tps_table_call_init (TpsTableCall *call, TpsTableClient *client, guint n_outputs);
/* Cancels the client if a call is still in flight, waits for the end of this call, and releases the
 * members. */
void tps_table_call_clear (TpsTableCall *call);

/* Each function starts a call; only one may be in flight at a time. The arguments' memory must not
 * change until tps_table_call_wait() returns. A lookup writes outputs[first_output] and the
 * following ones. */
void tps_table_call_lookup (TpsTableCall *call, const TpsBagQuery *queries, guint n_queries,
                            guint first_output, gint64 deadline_ns);
void tps_table_call_apply (TpsTableCall *call, const TpsBagGradient *gradients, guint n_gradients,
                           gint64 deadline_ns);

/* Waits until the call has ended; returns TRUE at once if no call has been started. Errors: those
 * of the client; DEADLINE_EXCEEDED if the client misses its own deadline, in which case it is
 * cancelled. */
gboolean tps_table_call_wait (TpsTableCall *call, GError **error);

/* Returns the duration of the last call that has ended, in milliseconds. */
gdouble tps_table_call_get_ms (const TpsTableCall *call);
