/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A table as a client knows it: its specification, and the server of each row. */

#pragma once

#include "runtime/embedding/table_spec.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* Reference-counted, and immutable once it is shared. Shards are in the order of their numbers
 * (HASH) or of their rows (RANGE), each on a server of its own. */
typedef struct
{
  TpsTableSpec spec; /* resolved, of the whole table; `bytes` over all shards */
  TpsShardKind kind;
  guint n_shards;
  guint *servers; /* [n_shards] */
  gint64 *begins; /* RANGE: [n_shards + 1], the first rows, then the number of rows; else NULL */
} TpsPlacedTable;

/* Creates a table whose `servers` and `begins` are zero; the caller must fill them in. `spec` must
 * be resolved. */
TpsPlacedTable *tps_placed_table_new (const TpsTableSpec *spec, TpsShardKind kind, guint n_shards);
TpsPlacedTable *tps_placed_table_new_whole (const TpsTableSpec *spec, guint server);
/* Creates a table on servers 0, 1, …: all of them, or as many as there are rows. */
TpsPlacedTable *tps_placed_table_new_dealt (const TpsTableSpec *spec, TpsShardKind kind,
                                            guint n_servers);
TpsPlacedTable *tps_placed_table_ref (TpsPlacedTable *table);
void tps_placed_table_unref (TpsPlacedTable *table);

/* Initializes the specification of one part, as its server creates it; the caller must clear it. */
void tps_placed_table_init_part (const TpsPlacedTable *table, guint shard, TpsTableSpec *part);

/* Sets shards[i] to the shard that has rows[i]. All rows must lie in the table. */
void tps_placed_table_find_shards (const TpsPlacedTable *table, const gint64 *rows, gsize n_rows,
                                   guint *shards);

/* Returns whether all rows lie in the table. Errors: TPS_ERROR_INVALID_ARGUMENT "NAME[17]: 300 is
 * not in [0, 300) of table emb". */
gboolean tps_placed_table_check_rows (const TpsPlacedTable *table, const gint64 *rows, gsize n_rows,
                                      const gchar *name, GError **error);

/* Assembles tables from the lists of the servers: lists [n_servers]; `servers` are their names in
 * messages. Returns an array of references in the order of the names, which the caller owns.
 * Errors: INVALID_ARGUMENT, which names a table whose parts are incomplete. */
GPtrArray *tps_placed_tables_assemble (const TpsTableSpecs *lists, const gchar *const *servers,
                                       guint n_servers, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPlacedTable, tps_placed_table_unref)

G_END_DECLS
