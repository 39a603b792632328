/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The tables that a TpsRemoteTables knows, and the state that its calls share. Each file calls only
 * files below it: remote_tables.c; lookup.c and push.c; this one and the plans.
 *
 * The happy path: lookup.c and push.c check a call and find its tables. A plan (lookup_plan.h,
 * push_plan.h) turns it into one request per server. servers.h sends the requests, all at the same
 * time. When the last reply has arrived, the plan merges the replies on the I/O thread that
 * received it, and `done` is called there.
 *
 * A call that fails before any request is sent ends by tps_servers_defer(), because `done` must not
 * run inside the call.
 *
 * tps_remote_tables_free() first cancels all clients, so that all calls in flight end with ABORTED.
 * It then waits until all calls have ended, because the end of a call on one client may start a
 * request on a different client. Only then does it free the clients.
 *
 * Locks: only `lock`, which must not be held during calls of functions other than those of the hash
 * table. */

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

/* Finds the tables of all queries, with the lock taken once, and checks the queries and their rows.
 * `stride` is the distance between queries in bytes; `list` is the name of the list in messages.
 * Returns an array of references, which the caller owns. Errors: NOT_FOUND; INVALID_ARGUMENT,
 * naming "LIST[2].indices[17]". */
GPtrArray *tps_remote_tables_find_all (TpsRemoteTables *tables, const TpsBagQuery *queries,
                                       guint n_queries, gsize stride, const gchar *list,
                                       GError **error);

/* Returns a reference to the table with this name. Errors: NOT_FOUND. */
TpsPlacedTable *tps_remote_tables_find (TpsRemoteTables *tables, const gchar *name, GError **error);

/* Returns TRUE if `indices` are INT64 [n] and lie in the table. Errors: INVALID_ARGUMENT. */
gboolean tps_remote_tables_check_indices (const TpsPlacedTable *table, TpsTensorView indices,
                                          GError **error);

/* Adds the table to the known tables, and takes ownership of the reference. Replaces a table of the
 * same name. */
void tps_remote_tables_add (TpsRemoteTables *tables, TpsPlacedTable *table);
/* Removes the table from the known tables, unless its name belongs to a different table by now. */
void tps_remote_tables_remove (TpsRemoteTables *tables, const TpsPlacedTable *table);

/* End a call that failed before any request was sent: call `done` with the error later, on an I/O
 * thread. They take ownership of the error. */
void tps_remote_tables_fail_lookup (TpsRemoteTables *tables, TpsTablesLookedUp done,
                                    gpointer user_data, GError *error);
void tps_remote_tables_fail_push (TpsRemoteTables *tables, TpsTablesApplied done,
                                  gpointer user_data, GError *error);

G_END_DECLS
