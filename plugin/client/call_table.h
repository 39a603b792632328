/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The calls of a client by sequence id: a hash table. The calls themselves are the nodes of its
 * lists, so that an insertion or removal allocates no memory. Sequence ids are consecutive, so the
 * lists have about the same length. Private to the client; not thread-safe. */

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

/* Inserts a call. The call must not be in any table, and no call in `table` may have its seqid. */
void tps_call_table_insert (TpsCallTable *table, TpsClientCall *call);

/* Returns the call with this sequence id; NULL if there is none. */
TpsClientCall *tps_call_table_find (const TpsCallTable *table, gint32 seqid);

/* Removes a call. Does nothing if the call is not in the table. */
void tps_call_table_remove (TpsCallTable *table, TpsClientCall *call);

/* Iterates over all calls in arbitrary order: returns the first call if `call` is NULL, otherwise
 * the call after `call`, and NULL at the end. `call` may be removed once its successor is known. */
TpsClientCall *tps_call_table_get_next (const TpsCallTable *table, const TpsClientCall *call);

G_END_DECLS
