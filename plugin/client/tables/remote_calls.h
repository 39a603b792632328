/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Lookups and pushes of remote tables, and the tables that they know. Private to the folder:
 * remote_tables.c creates the object, manages its tables and waits for calls.
 *
 * The happy path: a call is checked, and its tables are found. A plan (lookup_plan.h,
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

/* Returns a reference to the table with this name. Errors: NOT_FOUND. */
TpsPlacedTable *tps_remote_tables_find (TpsRemoteTables *tables, const gchar *name, GError **error);

/* Adds the table to the known tables, and takes ownership of the reference. Replaces a table of the
 * same name. */
void tps_remote_tables_add (TpsRemoteTables *tables, TpsPlacedTable *table);
/* Removes the table from the known tables, unless its name belongs to a different table by now. */
void tps_remote_tables_remove (TpsRemoteTables *tables, const TpsPlacedTable *table);

G_END_DECLS
