/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the parts of the remote tables share. Only for them.
 *
 * The happy path: lookup.c and push.c check a call and find its tables; a plan (lookup_plan.h,
 * push_plan.h) makes one request of it for each server; servers.h sends them, all at once; when the
 * last answer is in, the plan puts the answers together on the I/O thread that brought it, and
 * `done` is called there.
 *
 * A call that fails before anything is sent ends by tps_servers_defer(): `done` never runs inside
 * the call.
 *
 * Freeing cancels all clients, so that everything in flight ends with ABORTED, waits until all
 * calls have ended (what ends on one client may still ask another), and only then frees the
 * clients.
 *
 * Locks: `lock` only, never held while calling anything but the hash table. */

#pragma once

#include "plugin/client/remote_tables.h"
#include "plugin/client/tables/placed_table.h"
#include "plugin/client/tables/servers.h"

G_BEGIN_DECLS

struct TpsRemoteTables
{
  TpsServers servers;
  gchar *client;
  gboolean exact;
  atomic_int_fast64_t n_pushes;

  TpsMutex lock;      /* guards the next line */
  GHashTable *tables; /* TpsPlacedTable by name */
};

/* The tables of all queries, at one moment: an array of references. Checks the queries, their rows
 * too; `stride` is from one query to the next. Errors: NOT_FOUND, INVALID_ARGUMENT, naming
 * "LIST[2].indices[17]". */
GPtrArray *tps_remote_tables_find_all (TpsRemoteTables *tables, const TpsBagQuery *queries,
                                       guint n_queries, gsize stride, const gchar *list,
                                       GError **error);

/* One table, a reference. Errors: NOT_FOUND. */
TpsPlacedTable *tps_remote_tables_find (TpsRemoteTables *tables, const gchar *name, GError **error);

/* INT64 [n], all in the table. Errors: INVALID_ARGUMENT. */
gboolean tps_remote_tables_check_indices (const TpsPlacedTable *table, TpsTensorView indices,
                                          GError **error);

/* Knows the table from now on; takes the reference over. */
void tps_remote_tables_know (TpsRemoteTables *tables, TpsPlacedTable *table);
/* Unless another one of the name is known by now. */
void tps_remote_tables_forget (TpsRemoteTables *tables, const TpsPlacedTable *table);

/* Ends a call that failed before anything was sent; takes the error over. */
void tps_remote_tables_fail_lookup (TpsRemoteTables *tables, TpsTablesLookedUp done,
                                    gpointer user_data, GError *error);
void tps_remote_tables_fail_push (TpsRemoteTables *tables, TpsTablesApplied done,
                                  gpointer user_data, GError *error);

G_END_DECLS
