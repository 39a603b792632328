/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/outcome.h"

void
tps_outcome_init (TpsOutcome *outcome)
{
  *outcome = (TpsOutcome) { .is_set = FALSE };
  tps_mutex_init (&outcome->lock);
  tps_cond_init (&outcome->changed);
}

/* Signals under the lock: the waiter may clear the outcome as soon as it gets the lock. */
void
tps_outcome_set (TpsOutcome *outcome, const GError *error)
{
  TPS_LOCK_SCOPE (&outcome->lock);
  outcome->error = error != NULL ? g_error_copy (error) : NULL;
  outcome->is_set = TRUE;
  tps_cond_signal (&outcome->changed);
}

gboolean
tps_outcome_wait (TpsOutcome *outcome, GError **error)
{
  GError *failure;

  tps_mutex_lock (&outcome->lock);
  while (!outcome->is_set)
    tps_cond_wait (&outcome->changed, &outcome->lock);
  failure = outcome->error;
  tps_mutex_unlock (&outcome->lock);
  tps_cond_clear (&outcome->changed);
  tps_mutex_clear (&outcome->lock);
  if (failure == NULL)
    return TRUE;
  g_propagate_error (error, failure);
  return FALSE;
}
