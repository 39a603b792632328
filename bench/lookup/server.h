/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The server of the parts that use RPC: a process of thriftps_server with a Unix socket and a TCP
 * socket. */

#pragma once

#include "bench/process/supervisor.h"
#include "plugin/client/client.h"
#include "plugin/client/remote_tables.h"

G_BEGIN_DECLS

/* timeout of every call, which no call reaches */
#define TPS_LOOKUP_CALL_NS G_GINT64_CONSTANT (60000000000)
#define TPS_LOOKUP_ROWS_AT_ONCE 65536 /* rows of a call that fills or reads a table */

/* The number of transports, and the name of a transport: "unix" or "tcp"; static. */
#define TPS_LOOKUP_N_TRANSPORTS 2
const gchar *tps_lookup_transport_name (guint transport);

typedef struct TpsLookupServer TpsLookupServer;

/* Starts `program`, the path of a thriftps_server of any version; NULL = ours. The server shares
 * memory of `table_device` with its clients, for results of lookups; NULL = no device. The caller
 * owns the result. Blocks. Errors (NULL): UNAVAILABLE, ABORTED. */
TpsLookupServer *tps_lookup_server_start (TpsSupervisor *supervisor, const gchar *program,
                                          const gchar *socket_dir, const gchar *table_device,
                                          GError **error);
/* Closes the pipes to the process, and frees the server. */
void tps_lookup_server_free (TpsLookupServer *server);

/* Connects to the tables of the server. `lookup_device` is that of TpsRemoteTablesOptions. The
 * caller owns the result. Blocks. Errors: those of the first call. */
TpsRemoteTables *tps_lookup_server_connect (const TpsLookupServer *server, guint transport,
                                            TpsDevice *lookup_device, GError **error);

/* Creates a client for calls to any service. The caller owns the result. Errors: those of
 * tps_client_new(). */
TpsClient *tps_lookup_server_connect_client (const TpsLookupServer *server, guint transport,
                                             GError **error);

/* A table of the server; borrowed. */
typedef struct
{
  const gchar *name;
  gsize n_rows, dim;
  TpsDType dtype; /* 0 = FLOAT32 */
  const TpsTablePlace *place;
  const TpsOptimizerSpec *optimizer; /* NULL = SGD with the learning rate 1 */
} TpsLookupTable;

/* Creates a whole table of zeros. Blocks. Errors: those of the calls. */
gboolean tps_lookup_server_make_table (const TpsLookupServer *server, const TpsLookupTable *table,
                                       GError **error);

/* As above, with the values of bench/lookup/bags.h. `optimizer` must be NULL. */
gboolean tps_lookup_server_make_filled_table (const TpsLookupServer *server,
                                              const TpsLookupTable *table, GError **error);

/* Return views of ids [n] and of rows [n, dim], for arguments of calls. The data are borrowed. */
TpsTensorView tps_lookup_view_ids (const gint64 *ids, gsize n);
TpsTensorView tps_lookup_view_rows (const gfloat *rows, gsize n, gsize dim);

/* -- load -- */

/* Makes one call of a client. Thread: the client's own thread. */
typedef gboolean (*TpsLookupCall) (gpointer client, GError **error);

/* The rates of a load. */
typedef struct
{
  gdouble calls_per_s;     /* of all clients together */
  gdouble calls_per_cpu_s; /* for each second of CPU time of the server */
  gint64 n_calls;
} TpsLookupLoad;

/* Runs each client on its own thread, with one call after another, for `seconds`. Blocks. Errors:
 * the first error of a call. */
gboolean tps_lookup_server_load (const TpsLookupServer *server, gpointer const *clients,
                                 guint n_clients, TpsLookupCall call, gdouble seconds,
                                 TpsLookupLoad *load, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupServer, tps_lookup_server_free)

G_END_DECLS
