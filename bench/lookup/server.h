/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The server of the RPC parts: a thriftps_server process with a Unix socket and a TCP socket. */

#pragma once

#include "bench/process/supervisor.h"
#include "plugin/client/client.h"
#include "plugin/client/remote_tables.h"

G_BEGIN_DECLS

#define TPS_LOOKUP_CALL_NS G_GINT64_CONSTANT (60000000000) /* an upper bound for any call */
#define TPS_LOOKUP_ROWS_AT_ONCE 65536 /* in a call that fills or reads a table */

/* Returns "unix" or "tcp"; static. */
#define TPS_LOOKUP_N_TRANSPORTS 2
const gchar *tps_lookup_transport_name (guint transport);

typedef struct TpsLookupServer TpsLookupServer;

/* Starts `program`, the path of a thriftps_server of any version; NULL = ours. The server shares
 * memory of `table_device` with its clients, for results of lookups; NULL = it shares memory of no
 * device. Owned by the caller. Errors (NULL): TPS_ERROR_UNAVAILABLE. */
TpsLookupServer *tps_lookup_server_start (TpsSupervisor *supervisor, const gchar *program,
                                          const gchar *socket_dir, const gchar *table_device,
                                          GError **error);
void tps_lookup_server_free (TpsLookupServer *server);

/* Creates a client with access to the server's tables; owned by the caller. `lookup_device` as in
 * TpsRemoteTablesOptions. Errors: those of the first call. Blocks. */
TpsRemoteTables *tps_lookup_server_connect (const TpsLookupServer *server, guint transport,
                                            TpsDevice *lookup_device, GError **error);

/* Creates a client for calls to any service; owned by the caller. Errors: those of
 * tps_client_new(). */
TpsClient *tps_lookup_server_connect_client (const TpsLookupServer *server, guint transport,
                                             GError **error);

typedef struct
{
  const gchar *name;
  gsize n_rows, dim;
  TpsDType dtype; /* 0: FLOAT32 */
  const TpsTablePlace *place;
  const TpsOptimizerSpec *optimizer; /* NULL = SGD with learning rate 1 */
} TpsLookupTable;

/* Creates a whole table of zeros. `table` is borrowed for the call. Errors: those of the calls to
 * the server. Blocks. */
gboolean tps_lookup_server_make_table (const TpsLookupServer *server, const TpsLookupTable *table,
                                       GError **error);

/* As above, with the values of bench/lookup/bags.h; `optimizer` must be NULL. */
gboolean tps_lookup_server_make_filled_table (const TpsLookupServer *server,
                                              const TpsLookupTable *table, GError **error);

/* Views of ids [n] and of values or rows [n, dim], as arguments of calls. */
TpsTensorView tps_lookup_view_ids (const gint64 *ids, gsize n);
TpsTensorView tps_lookup_view_rows (const gfloat *rows, gsize n, gsize dim);

/* -- load -- */

/* Makes one call of a client. */
typedef gboolean (*TpsLookupCall) (gpointer client, GError **error);

typedef struct
{
  gdouble calls_per_s;     /* total of all clients */
  gdouble calls_per_cpu_s; /* per second of the server's CPU time */
  gint64 n_calls;
} TpsLookupLoad;

/* Runs each client on a thread of its own, with one call after the other, for `seconds`. Errors:
 * the first error of a call. Blocks. */
gboolean tps_lookup_server_load (const TpsLookupServer *server, gpointer const *clients,
                                 guint n_clients, TpsLookupCall call, gdouble seconds,
                                 TpsLookupLoad *load, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupServer, tps_lookup_server_free)

G_END_DECLS
