/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The outcome of an operation, for a caller that blocks until another thread has completed it.
 *
 *   tps_outcome_init (&outcome);
 *   ... another thread calls tps_outcome_set (&outcome, error), once ...
 *   ok = tps_outcome_wait (&outcome, &error);
 *
 * A variable of the caller. The other thread does not use it after tps_outcome_wait() has returned.
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

/* Initialises an outcome that is not set, in the caller's storage. */
void tps_outcome_init (TpsOutcome *outcome);

/* `error` is copied; NULL: success. Thread: any. */
void tps_outcome_set (TpsOutcome *outcome, const GError *error);

/* Waits and clears `outcome`. FALSE with the error that was set. */
gboolean tps_outcome_wait (TpsOutcome *outcome, GError **error);

G_END_DECLS
