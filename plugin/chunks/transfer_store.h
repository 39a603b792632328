/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The transfers of a server, by name: how many there may be, of how many bytes, and for how long
 * one may stand still. Time counts from when it was made, got further, or was answered; asking for
 * it, or beginning it again, is not enough, so that nobody keeps others out by announcing much and
 * sending nothing. Has no clock and no lock: times are given (monotonic), and one thread at a time
 * calls. What it forgets it hands out: giving gigabytes back takes long, and needs no lock.
 */

#pragma once

#include "plugin/chunks/transfer.h"

G_BEGIN_DECLS

typedef struct TpsTransferStore TpsTransferStore;

typedef struct
{
  guint max_transfers; /* 0 = 256 */
  /* announced, or kept as answers, of all; 0 = four fifths of what `budget` can hold */
  gsize max_bytes;
  TpsBudget *budget; /* charged for what has been received; a reference is taken; NULL = no limit */
  gint64 idle_ns;    /* 0 = 60 s */
} TpsTransferStoreOptions;

TpsTransferStore *tps_transfer_store_new (const TpsTransferStoreOptions *options);
void tps_transfer_store_free (TpsTransferStore *store);

/* Makes a transfer, or finds the one that was begun with the same numbers; borrowed. Errors:
 * INVALID_ARGUMENT, ALREADY_EXISTS (of other numbers), RESOURCE_EXHAUSTED (with retry_after_ms
 * where there will be room). */
TpsTransfer *tps_transfer_store_begin (TpsTransferStore *store, const gchar *name, gint64 n_bytes,
                                       gint32 n_chunks, gint64 now_ns, GError **error);

/* Borrowed. Errors: NOT_FOUND. */
TpsTransfer *tps_transfer_store_find (TpsTransferStore *store, const gchar *name, GError **error);

/* The error of names that there are not. */
void tps_transfer_store_set_not_found (const TpsTransferStore *store, const gchar *name,
                                       GError **error);

/* It has got further: a chunk came that was missing, or one of the answer was asked for. Errors:
 * NOT_FOUND (forgotten meanwhile). */
gboolean tps_transfer_store_touch (TpsTransferStore *store, const TpsTransfer *transfer,
                                   gint64 now_ns, GError **error);

/* Keeps an answer under a new name; borrowed. Takes over `answer` unless it fails. Errors:
 * RESOURCE_EXHAUSTED. */
TpsTransfer *tps_transfer_store_keep (TpsTransferStore *store, TpsWriter *answer, gint64 now_ns,
                                      GError **error);

/* The answer of a running transfer, of which the caller has a reference; it is taken over. */
void tps_transfer_store_answer (TpsTransferStore *store, TpsTransfer *transfer, TpsWriter *answer,
                                gint64 now_ns);

/* Forgets a transfer, which is then the caller's; one that runs when it has been answered. NULL
 * where there is none to forget now. */
TpsTransfer *tps_transfer_store_end (TpsTransferStore *store, const gchar *name);

/* Forgets what has stood still for too long, but nothing that runs: the transfers, the caller's. */
GPtrArray *tps_transfer_store_expire (TpsTransferStore *store, gint64 now_ns);

/* When to expire next; G_MAXINT64 = there is nothing. */
gint64 tps_transfer_store_get_next_expiry_ns (TpsTransferStore *store);

guint tps_transfer_store_get_n_transfers (TpsTransferStore *store);
gsize tps_transfer_store_get_n_bytes (TpsTransferStore *store);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTransferStore, tps_transfer_store_free)

G_END_DECLS
