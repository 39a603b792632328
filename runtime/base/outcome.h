/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How something ended, for a caller that blocks until another thread has ended it.
 *
 *   tps_outcome_init (&outcome);
 *   ... another thread calls tps_outcome_set (&outcome, error), once ...
 *   ok = tps_outcome_wait (&outcome, &error);
 *
 * A caller's variable; the other thread no longer touches it when tps_outcome_wait() has returned.
 */

#pragma once

#include "runtime/base/sync.h"

G_BEGIN_DECLS

typedef struct
{
  TpsMutex lock;
  TpsCond changed;
  gboolean is_set;
  GError *error;
} TpsOutcome;

void tps_outcome_init (TpsOutcome *outcome);

/* `error` is copied; NULL: it ended well. Thread: any. */
void tps_outcome_set (TpsOutcome *outcome, const GError *error);

/* Waits for it and clears `outcome`. FALSE with the error that was set. */
gboolean tps_outcome_wait (TpsOutcome *outcome, GError **error);

G_END_DECLS
