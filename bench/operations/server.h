/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A thriftps_server as a process of its own: with its defaults, or with everything that operators
 * may turn on. */

#pragma once

#include "bench/process/child.h"
#include "plugin/client/remote_tables.h"

G_BEGIN_DECLS

typedef struct
{
  const gchar *name;   /* of the process and its files */
  const gchar *folder; /* for its socket and files */
  gint n_io_threads;
  const gchar *collector; /* URL; NULL = everything is off */
  gdouble sampling;       /* part of the calls whose spans go to the collector */
} TpsOperationsServerOptions;

typedef struct TpsOperationsServer TpsOperationsServer;

/* Starts it and waits until it listens. Errors: TPS_ERROR_UNAVAILABLE, TPS_ERROR_ABORTED, and those
 * of files. The supervisor ends the process. */
TpsOperationsServer *tps_operations_server_start (TpsSupervisor *supervisor,
                                                  const TpsOperationsServerOptions *options,
                                                  GError **error);
void tps_operations_server_free (TpsOperationsServer *server);

/* Seconds of CPU so far. */
gdouble tps_operations_server_get_cpu (const TpsOperationsServer *server);

/* Its HTTP address, and the token of its clients; borrowed; NULL if everything is off. */
const gchar *tps_operations_server_get_http (const TpsOperationsServer *server);
const gchar *tps_operations_server_get_token (const TpsOperationsServer *server);

/* A client with a connection of its own, which knows all tables. Owned by the caller. */
TpsRemoteTables *tps_operations_server_connect (const TpsOperationsServer *server, GError **error);

/* Creates `n` tables of zeros, "table0" first, and looks one row of each up. */
gboolean tps_operations_server_make_tables (const TpsOperationsServer *server, guint n,
                                            GError **error);

/* Looks one row of "table0" up, and checks it. */
gboolean tps_operations_look_up (TpsRemoteTables *tables, gint64 id, GError **error);

#define TPS_OPERATIONS_ROWS 100000 /* of a table */

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsOperationsServer, tps_operations_server_free)

G_END_DECLS
