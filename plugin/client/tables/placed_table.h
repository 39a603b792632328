/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A table of remote tables: its specification, and the server of each row. */

#pragma once

#include "runtime/embedding/table_spec.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* A table. Reference-counted, and immutable once it is shared. The shards are in the order of their
 * numbers (HASH) or of their rows (RANGE), and each is on a different server. */
typedef struct
{
  TpsTableSpec spec; /* resolved, of the whole table; `bytes` is the sum over all shards */
  TpsShardKind kind;
  guint n_shards;
  guint *servers; /* [n_shards] */
  gint64 *begins; /* RANGE: [n_shards + 1], first rows, then the number of rows; else NULL */
} TpsPlacedTable;

/* Creates a whole table on `server`, owned by the caller. `spec`, resolved, is copied. */
TpsPlacedTable *tps_placed_table_new_whole (const TpsTableSpec *spec, guint server);
/* As tps_placed_table_new_whole(), but creates a table on all servers, or on the first ones if
 * there are fewer rows than servers. */
TpsPlacedTable *tps_placed_table_new_dealt (const TpsTableSpec *spec, TpsShardKind kind,
                                            guint n_servers);
TpsPlacedTable *tps_placed_table_ref (TpsPlacedTable *table);
void tps_placed_table_unref (TpsPlacedTable *table);

/* Initializes `part` to the specification with which the server of `shard` creates its part of the
 * table. The caller must clear `part`. */
void tps_placed_table_init_part (const TpsPlacedTable *table, guint shard, TpsTableSpec *part);

/* Sets shards[i] to the shard that has rows[i]. All rows must lie in the table. */
void tps_placed_table_find_shards (const TpsPlacedTable *table, const gint64 *rows, gsize n_rows,
                                   guint *shards);

/* Returns TRUE if all rows lie in the table. Errors: INVALID_ARGUMENT, "NAME[17]: 300 is not in [0,
 * 300) of table emb". */
gboolean tps_placed_table_check_rows (const TpsPlacedTable *table, const gint64 *rows, gsize n_rows,
                                      const gchar *name, GError **error);

/* Assembles tables from the lists of the servers. lists [n_servers] are the tables of each server;
 * `servers` are the names of the servers in messages. Returns an array of references, in the order
 * of the table names, which the caller owns. Errors: INVALID_ARGUMENT, which names a table whose
 * parts are incomplete. */
GPtrArray *tps_placed_tables_assemble (const TpsTableSpecs *lists, const gchar *const *servers,
                                       guint n_servers, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPlacedTable, tps_placed_table_unref)

G_END_DECLS
