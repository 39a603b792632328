/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The key-value store of the Rendezvous service: put, get with a wait, add, remove.
 *
 * It has a lock but no clock: each wait has a deadline, and the owner of the store must call
 * tps_rendezvous_store_expire(). thrift/rendezvous.thrift gives the limits. Thread: any.
 */

#pragma once

#include "runtime/base/error.h"
#include "runtime/server/budgets.h"
#include "runtime/server/push_window.h"

G_BEGIN_DECLS

#define TPS_RENDEZVOUS_MAX_VALUE_BYTES ((gsize) 1 << 20)
#define TPS_RENDEZVOUS_MAX_KEYS 65536
#define TPS_RENDEZVOUS_MAX_BYTES ((gsize) 256 << 20)
#define TPS_RENDEZVOUS_MAX_WAIT_MS 300000 /* longer timeouts are reduced to this */
#define TPS_RENDEZVOUS_MAX_WAITERS 16384
#define TPS_RENDEZVOUS_MAX_OWNER_WAITERS 1024

typedef struct TpsRendezvousStore TpsRendezvousStore;

/* Ends a wait. Called once, never while a lock is held. `value` is borrowed; NULL with an error. */
typedef void (*TpsRendezvousDone) (gpointer user_data, GBytes *value, const GError *error);

/* A pending call. */
typedef struct
{
  gconstpointer owner; /* its connection, for tps_rendezvous_store_drop_owner(); NULL = none */
  gint64 deadline_ns;
  TpsRendezvousDone done;
  gpointer user_data;
  /* Optional: returns FALSE if `owner` has disconnected. tps_rendezvous_store_drop_owner() may then
   * have run already, so the wait fails at once. Called with a lock held; must not block. NULL =
   * the owner is always connected. */
  gboolean (*is_connected) (gpointer user_data);
} TpsRendezvousWait;

/* Returns the deadline of a wait that begins at `now_ns`. */
static inline gint64
tps_rendezvous_deadline_ns (gint64 now_ns, gint32 timeout_ms)
{
  return now_ns + (gint64) MIN (timeout_ms, TPS_RENDEZVOUS_MAX_WAIT_MS) * 1000000;
}

/* The id of a push. `client` NULL = no push id. */
typedef struct
{
  const gchar *client;
  gint64 sequence;
  const gchar *tenant; /* of the caller; NULL = none */
} TpsRendezvousPush;

/* Creates a store, owned by the caller. Keys, values and waiters are charged to the rendezvous
 * budget, push ids to the budget of windows. A value is charged until its last reader has released
 * it. References to the budgets are taken; `budgets` NULL = nothing is charged. */
TpsRendezvousStore *tps_rendezvous_store_new (const TpsBudgets *budgets);
TpsPushWindow *tps_rendezvous_store_get_pushes (TpsRendezvousStore *store);

/* Frees a store, which must have been shut down: no call may be pending. */
void tps_rendezvous_store_free (TpsRendezvousStore *store);

/* Sets a key to a copy of `value`, and wakes the waiters for the key. Errors: INVALID_ARGUMENT
 * (key), RESOURCE_EXHAUSTED (value, number of keys, total bytes, memory), UNAVAILABLE after
 * shut-down. */
gboolean tps_rendezvous_store_put (TpsRendezvousStore *store, const gchar *key, GBytes *value,
                                   GError **error);

/* Returns the value of a key, owned by the caller. Does not wait. Errors (NULL): NOT_FOUND,
 * INVALID_ARGUMENT (key), UNAVAILABLE after shut-down. */
GBytes *tps_rendezvous_store_peek (TpsRendezvousStore *store, const gchar *key, GError **error);

/* Waits for a key and calls `wait->done`, possibly before this function returns. A put wakes only
 * the waiters for its key. Errors: INVALID_ARGUMENT, DEADLINE_EXCEEDED, CONNECTION_LOST,
 * UNAVAILABLE, RESOURCE_EXHAUSTED with retry_after_ms (too many waiters). */
void tps_rendezvous_store_get (TpsRendezvousStore *store, const gchar *key,
                               const TpsRendezvousWait *wait);

/* Ends all waits of an owner with CONNECTION_LOST. */
void tps_rendezvous_store_drop_owner (TpsRendezvousStore *store, gconstpointer owner);

/* Adds `amount` to the decimal value of a key, where a missing key counts as 0, and sets `*sum` to
 * the result. A repeated push is not applied again. Errors: INVALID_ARGUMENT (key or client, the
 * value is not a decimal number, overflow), DUPLICATE, STALE, and those of put. */
gboolean tps_rendezvous_store_add (TpsRendezvousStore *store, const gchar *key, gint64 amount,
                                   const TpsRendezvousPush *push, gint64 *sum, GError **error);

/* Removes all keys that begin with `prefix`, if there are any. Errors: INVALID_ARGUMENT (an empty
 * or bad prefix), UNAVAILABLE. */
gboolean tps_rendezvous_store_remove (TpsRendezvousStore *store, const gchar *prefix,
                                      GError **error);

void tps_rendezvous_store_get_size (TpsRendezvousStore *store, guint *n_keys, guint *n_waiters);

/* Returns the earliest deadline; G_MAXINT64 if no call is pending. */
gint64 tps_rendezvous_store_get_next_deadline_ns (TpsRendezvousStore *store);

/* Ends the waits whose deadlines have passed, with DEADLINE_EXCEEDED. */
void tps_rendezvous_store_expire (TpsRendezvousStore *store, gint64 now_ns);

/* Ends all waits with UNAVAILABLE, and refuses all later calls. */
void tps_rendezvous_store_shut_down (TpsRendezvousStore *store);

G_END_DECLS
