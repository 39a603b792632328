/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The waiters of a rendezvous store, found by key, by owner and by deadline. A waiter that is taken
 * out moves to a queue, from which it is answered without a lock. The object has no lock of its
 * own. Inside plugin/service only.
 */

#pragma once

#include "plugin/service/rendezvous_store.h"

G_BEGIN_DECLS

typedef struct
{
  GHashTable *by_key;   /* key -> GQueue of waiters */
  GHashTable *by_owner; /* owner -> GQueue of waiters that have an owner */
  GTree *by_deadline;   /* waiter -> waiter, the earliest first */
  guint64 last_id;
  guint n_waiters;
  TpsCharge charge; /* of all waiters; with a reference to the budget */
} TpsRendezvousWaiters;

/* Makes an empty object. Waiters are charged to `budget`, to which a reference is taken. */
void tps_rendezvous_waiters_init (TpsRendezvousWaiters *waiters, TpsBudget *budget);

/* Releases the memory. There must be no waiter. */
void tps_rendezvous_waiters_clear (TpsRendezvousWaiters *waiters);

/* Adds a waiter with copies of `key` and `wait`. Errors: RESOURCE_EXHAUSTED, with retry_after_ms
 * (TPS_RENDEZVOUS_MAX_WAITERS, TPS_RENDEZVOUS_MAX_OWNER_WAITERS, the budget). */
gboolean tps_rendezvous_waiters_add (TpsRendezvousWaiters *waiters, const gchar *key,
                                     const TpsRendezvousWait *wait, GError **error);

/* Move waiters to `ended`: those for a key, with its value; those of an owner; those with deadlines
 * up to `now_ns`; or all. The cost of each move is logarithmic in the number of all waiters. */
void tps_rendezvous_waiters_take_key (TpsRendezvousWaiters *waiters, const gchar *key,
                                      GBytes *value, GQueue *ended);
void tps_rendezvous_waiters_take_owner (TpsRendezvousWaiters *waiters, gconstpointer owner,
                                        GQueue *ended);
void tps_rendezvous_waiters_take_late (TpsRendezvousWaiters *waiters, gint64 now_ns, GQueue *ended);
void tps_rendezvous_waiters_take_all (TpsRendezvousWaiters *waiters, GQueue *ended);

/* Returns the earliest deadline; G_MAXINT64 if there is no waiter. */
gint64 tps_rendezvous_waiters_get_next_deadline_ns (const TpsRendezvousWaiters *waiters);

/* Answers and frees the waiters in `ended`: with their values, or with an error of `code` if they
 * have none. The caller must not hold a lock. */
void tps_rendezvous_waiters_answer (GQueue *ended, TpsErrorCode code);

G_END_DECLS
