/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Those who wait for keys of a rendezvous store, found by key, by owner and by deadline. A waiter
 * that is taken out goes to a queue and is answered from there, without a lock. Has no lock of its
 * own. Inside plugin/service only.
 */

#pragma once

#include "plugin/service/rendezvous_store.h"

G_BEGIN_DECLS

typedef struct
{
  GHashTable *by_key;   /* key -> GQueue of waiters */
  GHashTable *by_owner; /* owner -> GQueue of waiters; those without an owner are not in it */
  GTree *by_deadline;   /* waiter -> waiter, the earliest first */
  guint64 last_id;
  guint n_waiters;
  TpsCharge charge; /* of all; with a reference of the budget */
} TpsRendezvousWaiters;

/* `budget` is what waiters are charged to; a reference is taken. */
void tps_rendezvous_waiters_init (TpsRendezvousWaiters *waiters, TpsBudget *budget);

/* Nobody waits any more. */
void tps_rendezvous_waiters_clear (TpsRendezvousWaiters *waiters);

/* Errors: RESOURCE_EXHAUSTED, with retry_after_ms (TPS_RENDEZVOUS_MAX_WAITERS,
 * TPS_RENDEZVOUS_MAX_OWNER_WAITERS, the budget). */
gboolean tps_rendezvous_waiters_add (TpsRendezvousWaiters *waiters, const gchar *key,
                                     const TpsRendezvousWait *wait, GError **error);

/* Move waiters to `ended`: those for a key, with its value; those of an owner; those whose deadline
 * is not after `now_ns`; all. Cost: constant for each that moves, times the logarithm of the number
 * of all. */
void tps_rendezvous_waiters_take_key (TpsRendezvousWaiters *waiters, const gchar *key,
                                      GBytes *value, GQueue *ended);
void tps_rendezvous_waiters_take_owner (TpsRendezvousWaiters *waiters, gconstpointer owner,
                                        GQueue *ended);
void tps_rendezvous_waiters_take_late (TpsRendezvousWaiters *waiters, gint64 now_ns, GQueue *ended);
void tps_rendezvous_waiters_take_all (TpsRendezvousWaiters *waiters, GQueue *ended);

/* G_MAXINT64 when nobody waits. */
gint64 tps_rendezvous_waiters_get_next_deadline_ns (const TpsRendezvousWaiters *waiters);

/* Answers and frees those in `ended`: with their values, or an error of this code. No lock may be
 * held. */
void tps_rendezvous_waiters_answer (GQueue *ended, TpsErrorCode code);

G_END_DECLS
