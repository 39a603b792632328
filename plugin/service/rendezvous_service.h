/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The Rendezvous service: the store of rendezvous_store.h and its clock. */

#pragma once

#include "plugin/service/call.h"
#include "plugin/service/rendezvous_store.h"
#include "runtime/base/metrics.h"
#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

typedef struct TpsRendezvous TpsRendezvous;

/* `workers` (borrowed, must outlive the object) runs the timers of pending calls. `budgets` as for
 * tps_rendezvous_store_new(). */
TpsRendezvous *tps_rendezvous_new (TpsWorkerPool *workers, const TpsBudgets *budgets);

/* Replaces the monotonic clock, by which the deadlines of waits are set and compared. Their timers
 * still run by the monotonic clock. For tests; must be called before the first request. */
void tps_rendezvous_set_clock (TpsRendezvous *rendezvous, TpsClockFunc clock, gpointer user_data);

/* Ends pending calls with UNAVAILABLE. */
void tps_rendezvous_free (TpsRendezvous *rendezvous);

/* The numbers of keys and of pending calls. Thread: any. */
void tps_rendezvous_get_size (TpsRendezvous *rendezvous, guint *n_keys, guint *n_waiters);

/* Returns the service for a dispatcher. It borrows `rendezvous`. */
TpsService tps_rendezvous_service (TpsRendezvous *rendezvous);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsRendezvous, tps_rendezvous_free)

G_END_DECLS
