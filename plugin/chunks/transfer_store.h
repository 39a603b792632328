/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The transfers of a server, by name, with limits on their number, their bytes and their time
 * without progress. The time runs from the creation, the last progress (tps_transfer_store_touch())
 * or the reply. Finding a transfer, or beginning it again, does not extend it, so that no client
 * can keep others out with announcements alone.
 *
 * It has no clock and no lock: times are arguments (monotonic), and callers must serialise calls.
 * It returns the transfers that it removes, because freeing gigabytes takes long and needs no lock.
 */

#pragma once

#include "plugin/chunks/transfer.h"

G_BEGIN_DECLS

typedef struct TpsTransferStore TpsTransferStore;

typedef struct
{
  guint max_transfers; /* 0 = 256 */
  /* The limit of bytes of all transfers, announced or kept as replies; 0 = four fifths of
   * `budget`. */
  gsize max_bytes;
  TpsBudget *budget; /* charged for received bytes; a reference is taken; NULL = no limit */
  gint64 idle_ns;    /* 0 = 60 s */
} TpsTransferStoreOptions;

/* Copies `options`. The caller owns the store. */
TpsTransferStore *tps_transfer_store_new (const TpsTransferStoreOptions *options);
void tps_transfer_store_free (TpsTransferStore *store);

/* Creates a transfer, or finds the one that was begun with the same numbers; borrowed. Errors:
 * INVALID_ARGUMENT, ALREADY_EXISTS (with other numbers), RESOURCE_EXHAUSTED (with retry_after_ms if
 * there will be room). */
TpsTransfer *tps_transfer_store_begin (TpsTransferStore *store, const gchar *name, gint64 n_bytes,
                                       gint32 n_chunks, gint64 now_ns, GError **error);

/* Borrowed. Errors: NOT_FOUND. */
TpsTransfer *tps_transfer_store_find (TpsTransferStore *store, const gchar *name, GError **error);

/* Sets the error for an unknown name. */
void tps_transfer_store_set_not_found (const TpsTransferStore *store, const gchar *name,
                                       GError **error);

/* Records progress: a missing chunk came, or a chunk of the reply was requested. Errors: NOT_FOUND
 * (removed meanwhile). */
gboolean tps_transfer_store_touch (TpsTransferStore *store, const TpsTransfer *transfer,
                                   gint64 now_ns, GError **error);

/* Keeps a reply under a new name; borrowed. Takes over `answer` unless it fails. Errors:
 * RESOURCE_EXHAUSTED. */
TpsTransfer *tps_transfer_store_keep (TpsTransferStore *store, TpsWriter *answer, gint64 now_ns,
                                      GError **error);

/* Takes over the reply of a running transfer, to which the caller has a reference. */
void tps_transfer_store_answer (TpsTransferStore *store, TpsTransfer *transfer, TpsWriter *answer,
                                gint64 now_ns);

/* Removes a transfer, which the caller then owns; a running one is removed after its reply. NULL:
 * there is none to remove now. */
TpsTransfer *tps_transfer_store_end (TpsTransferStore *store, const gchar *name);

/* Removes the transfers without progress, except running ones. The caller owns them. */
GPtrArray *tps_transfer_store_expire (TpsTransferStore *store, gint64 now_ns);

/* The time of the next expiry; G_MAXINT64 = there is none. */
gint64 tps_transfer_store_get_next_expiry_ns (TpsTransferStore *store);

/* The number of transfers, and the bytes that count against `max_bytes`. */
guint tps_transfer_store_get_n_transfers (TpsTransferStore *store);
gsize tps_transfer_store_get_n_bytes (TpsTransferStore *store);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTransferStore, tps_transfer_store_free)

G_END_DECLS
