/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The server of the parts that use RPC: thriftps_server with a Unix and a TCP socket. */

#pragma once

#include "bench/served/served.h"

/* The number of transports, and the name of a transport: "unix" or "tcp"; static. */
#define TPS_LOOKUP_N_TRANSPORTS 2
const gchar *tps_lookup_transport_name (guint transport);

/* Starts `program`, a thriftps_server of any version; NULL = ours. The server shares memory of
 * `table_device` with its clients, for results of lookups; NULL = no device. The caller owns the
 * result. Blocks. Errors: those of tps_served_start(). */
TpsServed *tps_lookup_server_start (TpsSupervisor *supervisor, const gchar *program,
                                    const gchar *socket_dir, const gchar *table_device,
                                    GError **error);

/* Connects to the tables of the server, as tps_served_connect() does. */
TpsRemoteTables *tps_lookup_server_connect (const TpsServed *server, guint transport,
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
gboolean tps_lookup_server_make_table (const TpsServed *server, const TpsLookupTable *table,
                                       GError **error);

/* As above, with the values of bench/lookup/bags.h. `optimizer` must be NULL. */
gboolean tps_lookup_server_make_filled_table (const TpsServed *server, const TpsLookupTable *table,
                                              GError **error);

/* -- load -- */

/* The rates of a load. */
typedef struct
{
  gdouble calls_per_s;     /* of all clients together */
  gdouble calls_per_cpu_s; /* for each second of CPU time of the server */
  gint64 n_calls;
} TpsLookupLoad;

/* Runs each client on its own thread for `seconds`, one call at a time. Errors: the first one. */
gboolean tps_lookup_server_load (const TpsServed *server, gpointer const *clients, guint n_clients,
                                 TpsMakeCall call, gdouble seconds, TpsLookupLoad *load,
                                 GError **error);
