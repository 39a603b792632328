/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The EmbeddingTable service on a table store: small calls run on the I/O thread, others on
 * workers. */

#pragma once

#include "plugin/service/call.h"
#include "runtime/server/tables/table_store.h"

G_BEGIN_DECLS

typedef struct TpsEmbeddingTables TpsEmbeddingTables;

/* Creates the object of the service. `store` is borrowed. The caller owns the result. */
TpsEmbeddingTables *tps_embedding_tables_new (TpsTableStore *store);
/* Frees the object. The server must have stopped. */
void tps_embedding_tables_free (TpsEmbeddingTables *tables);

/* Returns the service for a dispatcher. It borrows `tables`. */
TpsService tps_embedding_table_service (TpsEmbeddingTables *tables);

/* TpsNode.get_table_bytes: sets `held` to the bytes of the store, and `max` to their limit. `data`
 * is a TpsEmbeddingTables *. */
void tps_embedding_tables_get_bytes (gpointer data, gint64 *held, gint64 *max);

G_END_DECLS
