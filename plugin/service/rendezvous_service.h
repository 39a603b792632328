/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The Rendezvous service: the store of rendezvous_store.h and its clock. */

#pragma once

#include "plugin/service/call.h"
#include "plugin/service/rendezvous_store.h"
#include "runtime/base/metrics.h"
#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

typedef struct TpsRendezvous TpsRendezvous;

/* Creates the service's object, owned by the caller. `workers`, which runs the timers of pending
 * calls, is borrowed and must outlive the object. `budgets` are as in
 * tps_rendezvous_store_new(). */
TpsRendezvous *tps_rendezvous_new (TpsWorkerPool *workers, const TpsBudgets *budgets);

/* Ends pending calls with UNAVAILABLE, and frees the object. */
void tps_rendezvous_free (TpsRendezvous *rendezvous);

void tps_rendezvous_get_size (TpsRendezvous *rendezvous, guint *n_keys, guint *n_waiters);
TpsPushWindow *tps_rendezvous_get_pushes (TpsRendezvous *rendezvous);

/* Returns the service for a dispatcher. It borrows `rendezvous`. */
TpsService tps_rendezvous_service (TpsRendezvous *rendezvous);

G_END_DECLS
