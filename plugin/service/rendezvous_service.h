/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The Rendezvous service: the store of rendezvous_store.h with a clock. */

#pragma once

#include "plugin/service/call.h"
#include "plugin/service/rendezvous_store.h"
#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

typedef struct TpsRendezvous TpsRendezvous;

/* `workers` (borrowed, outlives the object) runs the timers of waiting calls. `budgets` as for
 * tps_rendezvous_store_new(). */
TpsRendezvous *tps_rendezvous_new (TpsWorkerPool *workers, const TpsBudgets *budgets);

/* Ends what waits with UNAVAILABLE. */
void tps_rendezvous_free (TpsRendezvous *rendezvous);

/* How many keys there are, and how many calls wait for one. Thread: any. */
void tps_rendezvous_get_size (TpsRendezvous *rendezvous, guint *n_keys, guint *n_waiters);

TpsService tps_rendezvous_service (TpsRendezvous *rendezvous);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsRendezvous, tps_rendezvous_free)

G_END_DECLS
