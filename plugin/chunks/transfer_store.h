/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The transfers of a server, by name, with limits on their number, their bytes and their time
 * without progress. The time runs from the creation, the last progress (tps_transfer_store_touch())
 * or the reply. Finding a transfer, or beginning it again, does not extend the time.
 *
 * A transfer counts with the memory that it takes for the bytes that have arrived, not with the
 * bytes that were announced. If there is no room, transfers that are not running give way, in this
 * order:
 *
 *   1. requests without progress for TPS_TRANSFER_PATIENCE_NS, the longest time first, unless their
 *      tenant holds less than the tenant that needs the room
 *   2. transfers of the tenant that holds most, if it holds more than the tenant that needs the
 *      room will hold; again, the longest time without progress first; not requests that are
 *      complete, because their clients are about to run them
 *
 * They give way only if there is enough room without them.
 *
 * So a tenant can use all room while others need none, and n tenants can get an n-th of it each.
 * The client of a transfer that gave way learns of it (NOT_FOUND), and may begin the transfer
 * again.
 *
 * The store has no clock and no lock: times are arguments (monotonic), and callers must serialise
 * calls. The store returns the transfers that it removes, because freeing gigabytes takes long, and
 * should not happen under the caller's lock.
 */

#pragma once

#include "plugin/chunks/transfer.h"

G_BEGIN_DECLS

#define TPS_TRANSFER_PATIENCE_NS ((gint64) 5 * 1000000000)

typedef struct TpsTransferStore TpsTransferStore;

typedef struct
{
  guint max_transfers; /* 0 = 256 */
  /* The limit of the bytes of all transfers, received or kept as replies, and of each one; 0 = four
   * fifths of `budget`. */
  gsize max_bytes;
  TpsBudget *budget; /* charged for received bytes; a reference is taken; NULL = no limit */
  gint64 idle_ns;    /* 0 = 60 s */
} TpsTransferStoreOptions;

/* Creates an empty store, and copies `options`. The caller owns the store. */
TpsTransferStore *tps_transfer_store_new (const TpsTransferStoreOptions *options);
void tps_transfer_store_free (TpsTransferStore *store);

/* The circumstances of a call that needs room. */
typedef struct
{
  gconstpointer tenant; /* compared, not used; NULL = the tenant of all callers without a tenant */
  gint64 now_ns;
  GPtrArray *dropped; /* references to the transfers that gave way are added to it */
} TpsTransferNeed;

/* Creates a transfer, or finds the one of this name and numbers; borrowed. Errors: INVALID_ARGUMENT
 * (impossible numbers); ALREADY_EXISTS (different numbers, or it is ending); RESOURCE_EXHAUSTED,
 * with retry_after_ms if there may be room later. */
TpsTransfer *tps_transfer_store_begin (TpsTransferStore *store, const gchar *name, gint64 n_bytes,
                                       gint32 n_chunks, const TpsTransferNeed *need,
                                       GError **error);

/* Counts the `n_bytes` of a chunk of `transfer` that is about to be fed. The tenant is that of the
 * transfer. Errors: NOT_FOUND if the transfer has been removed; RESOURCE_EXHAUSTED, with
 * retry_after_ms. */
gboolean tps_transfer_store_reserve (TpsTransferStore *store, const TpsTransfer *transfer,
                                     gsize n_bytes, const TpsTransferNeed *need, GError **error);

/* Returns the transfer with this name; borrowed. Errors: NOT_FOUND. */
TpsTransfer *tps_transfer_store_find (TpsTransferStore *store, const gchar *name, GError **error);

void tps_transfer_store_set_not_found (const TpsTransferStore *store, const gchar *name,
                                       GError **error);

/* Records progress: a missing chunk has come, or a chunk of the reply was requested. Errors:
 * NOT_FOUND if the transfer has been removed meanwhile. */
gboolean tps_transfer_store_touch (TpsTransferStore *store, const TpsTransfer *transfer,
                                   gint64 now_ns, GError **error);

/* Creates a transfer with a new name for a reply; borrowed. Takes ownership of `answer` on success.
 * Errors: RESOURCE_EXHAUSTED, with retry_after_ms if there may be room later. */
TpsTransfer *tps_transfer_store_keep (TpsTransferStore *store, TpsWriter *answer,
                                      const TpsTransferNeed *need, GError **error);

/* Takes ownership of the reply of a running transfer, of which the caller has a reference. */
void tps_transfer_store_answer (TpsTransferStore *store, TpsTransfer *transfer, TpsWriter *answer,
                                gint64 now_ns);

/* Removes a transfer, and returns the store's reference, which the caller owns. A running transfer
 * is removed after its reply. NULL: there is no transfer to remove now. */
TpsTransfer *tps_transfer_store_end (TpsTransferStore *store, const gchar *name);

/* Removes all transfers whose time without progress has run out, except running ones. Returns an
 * array of references, which the caller owns. */
GPtrArray *tps_transfer_store_expire (TpsTransferStore *store, gint64 now_ns);

/* Returns the time of the next expiry; G_MAXINT64 = there is none. */
gint64 tps_transfer_store_get_next_expiry_ns (TpsTransferStore *store);

/* Return the number of transfers, and the bytes that count against `max_bytes`. */
guint tps_transfer_store_get_n_transfers (TpsTransferStore *store);
gsize tps_transfer_store_get_n_bytes (TpsTransferStore *store);

G_END_DECLS
