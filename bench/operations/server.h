/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A process of thriftps_server, with its defaults or with everything that operators may enable. */

#pragma once

#include "bench/process/child.h"
#include "plugin/client/remote_tables.h"

G_BEGIN_DECLS

/* The options of a server; borrowed. */
typedef struct
{
  const gchar *name;      /* the name of the process and of its files */
  const gchar *folder;    /* the folder of its socket and files */
  gint n_io_threads;      /* 1 to 256 */
  const gchar *collector; /* the URL of the collector; NULL = the defaults */
  gdouble sampling;       /* fraction of the calls whose spans go to the collector */
} TpsOperationsServerOptions;

typedef struct TpsOperationsServer TpsOperationsServer;

/* Starts a server and waits until it listens. The supervisor terminates the process. The caller
 * owns the result. Errors (NULL): UNAVAILABLE, ABORTED, and those of files. */
TpsOperationsServer *tps_operations_server_start (TpsSupervisor *supervisor,
                                                  const TpsOperationsServerOptions *options,
                                                  GError **error);
/* Closes the pipes to the process, and frees the server. */
void tps_operations_server_free (TpsOperationsServer *server);

/* Returns the CPU time of the server in seconds; NAN if the server has exited. */
gdouble tps_operations_server_get_cpu (const TpsOperationsServer *server);

/* Return the HTTP address of the server, and the token for clients. Borrowed; NULL with the
 * defaults. */
const gchar *tps_operations_server_get_http (const TpsOperationsServer *server);
const gchar *tps_operations_server_get_token (const TpsOperationsServer *server);

/* Connects a client, which has its own connection and knows all tables. The caller owns the result.
 * Errors: those of tps_remote_tables_discover(). */
TpsRemoteTables *tps_operations_server_connect (const TpsOperationsServer *server, GError **error);

/* Creates `n` tables of zeros, from "table0" on, and looks up one row of each table. Errors: those
 * of the calls. */
gboolean tps_operations_server_make_tables (const TpsOperationsServer *server, guint n,
                                            GError **error);

/* Looks up one row of "table0" and checks it. `id` is below TPS_OPERATIONS_ROWS. Errors: those of
 * the call; INTERNAL (another value than 0). */
gboolean tps_operations_look_up (TpsRemoteTables *tables, gint64 id, GError **error);

#define TPS_OPERATIONS_ROWS 100000 /* rows of "table0"; other tables have one row */

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsOperationsServer, tps_operations_server_free)

G_END_DECLS
