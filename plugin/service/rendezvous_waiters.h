/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The waiters of a rendezvous store, found by key, by owner and by deadline. A waiter that is taken
 * out moves to a queue, from which it is answered without a lock. Has no lock of its own. Inside
 * plugin/service only.
 */

#pragma once

#include "plugin/service/rendezvous_store.h"

G_BEGIN_DECLS

typedef struct
{
  GHashTable *by_key;   /* key -> GQueue of waiters */
  GHashTable *by_owner; /* owner -> GQueue of waiters; without those that have no owner */
  GTree *by_deadline;   /* waiter -> waiter, the earliest first */
  guint64 last_id;
  guint n_waiters;
  TpsCharge charge; /* of all waiters; with a reference of the budget */
} TpsRendezvousWaiters;

/* Waiters are charged to `budget`, of which a reference is taken. */
void tps_rendezvous_waiters_init (TpsRendezvousWaiters *waiters, TpsBudget *budget);

/* There must be no waiter. */
void tps_rendezvous_waiters_clear (TpsRendezvousWaiters *waiters);

/* Errors: RESOURCE_EXHAUSTED, with retry_after_ms (TPS_RENDEZVOUS_MAX_WAITERS,
 * TPS_RENDEZVOUS_MAX_OWNER_WAITERS, the budget). */
gboolean tps_rendezvous_waiters_add (TpsRendezvousWaiters *waiters, const gchar *key,
                                     const TpsRendezvousWait *wait, GError **error);

/* Move waiters to `ended`: those for a key, with its value; those of an owner; those with deadlines
 * up to `now_ns`; all. Cost: for each waiter that moves, the logarithm of the number of all. */
void tps_rendezvous_waiters_take_key (TpsRendezvousWaiters *waiters, const gchar *key,
                                      GBytes *value, GQueue *ended);
void tps_rendezvous_waiters_take_owner (TpsRendezvousWaiters *waiters, gconstpointer owner,
                                        GQueue *ended);
void tps_rendezvous_waiters_take_late (TpsRendezvousWaiters *waiters, gint64 now_ns, GQueue *ended);
void tps_rendezvous_waiters_take_all (TpsRendezvousWaiters *waiters, GQueue *ended);

/* G_MAXINT64 if there is no waiter. */
gint64 tps_rendezvous_waiters_get_next_deadline_ns (const TpsRendezvousWaiters *waiters);

/* Answers and frees the waiters in `ended`: with their values, or with an error of this code. No
 * lock may be held. */
void tps_rendezvous_waiters_answer (GQueue *ended, TpsErrorCode code);

G_END_DECLS
