/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The calls of a client by sequence id. The calls themselves form the lists of the hash table, so
 * that an insertion or removal allocates no memory. Sequence ids are consecutive, so the lists have
 * about the same length. Private to the client; not thread-safe. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_CALL_TABLE_LISTS 256

typedef struct TpsClientCall TpsClientCall;

/* All zero = an empty table. */
typedef struct
{
  guint n_calls; /* without background calls, which are not limited */
  TpsClientCall *lists[TPS_CALL_TABLE_LISTS];
} TpsCallTable;

/* `call->seqid` must not be in the table, and the call must be in no table. */
void tps_call_table_insert (TpsCallTable *table, TpsClientCall *call);

/* Returns NULL if there is no such call. */
TpsClientCall *tps_call_table_find (const TpsCallTable *table, gint32 seqid);

/* Does nothing if the call is not in the table. */
void tps_call_table_remove (TpsCallTable *table, TpsClientCall *call);

/* Iterates over all calls in arbitrary order: NULL returns the first call, a call returns the next
 * one, and NULL is the end. `call` may be removed once its successor is known. */
TpsClientCall *tps_call_table_get_next (const TpsCallTable *table, const TpsClientCall *call);

G_END_DECLS
