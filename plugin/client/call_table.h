/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The calls of a client by their sequence ids: lists that the calls themselves form, so that
 * entering and leaving take no memory. Ids follow each other, so the lists are of one length. Only
 * for the client; not thread-safe. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_CALL_TABLE_LISTS 256

typedef struct TpsClientCall TpsClientCall;

/* All zero = empty. */
typedef struct
{
  guint n_calls; /* without background calls, which no limit is for */
  TpsClientCall *lists[TPS_CALL_TABLE_LISTS];
} TpsCallTable;

/* `call->seqid` is not in the table; the call is in no table. */
void tps_call_table_insert (TpsCallTable *table, TpsClientCall *call);

/* NULL: there is none. */
TpsClientCall *tps_call_table_find (const TpsCallTable *table, gint32 seqid);

/* Nothing happens where it is not in the table. */
void tps_call_table_remove (TpsCallTable *table, TpsClientCall *call);

/* All calls, in no order that counts: NULL gives the first one, each the next; NULL = that was the
 * last. `call` may be removed when the next one is known. */
TpsClientCall *tps_call_table_get_next (const TpsCallTable *table, const TpsClientCall *call);

G_END_DECLS
