/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The outcome of an operation, for a caller that blocks until another thread has completed it. An
 * outcome is a variable of the caller, which the other thread does not use after tps_outcome_wait()
 * has returned. */

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

/* Sets the outcome, once: success if `error`, which is copied, is NULL. Thread: any. */
void tps_outcome_set (TpsOutcome *outcome, const GError *error);

/* Waits until `outcome` is set, and clears it. FALSE: it was an error. */
gboolean tps_outcome_wait (TpsOutcome *outcome, GError **error);

G_END_DECLS
