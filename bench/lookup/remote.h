/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Lookups of rows by RPC: one server process with a Unix and a TCP socket, and clients in this one. */

#pragma once

#include "bench/process/supervisor.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

typedef struct
{
  gsize n_rows, dim; /* of the table */
  gsize n_ids;       /* of a lookup */
  guint n_calls;     /* one after the other */
  guint n_clients;   /* under load */
  gdouble seconds;   /* of load */
  TpsTablePlace place;
} TpsLookupRemoteShape;

typedef struct TpsLookupRemote TpsLookupRemote;

typedef struct
{
  GArray *ms;                /* of gdouble: each call of a client alone */
  gdouble lookups_per_s;     /* of all clients together */
  gdouble lookups_per_cpu_s; /* of the server */
} TpsLookupRemoteTimes;

void tps_lookup_remote_times_clear (TpsLookupRemoteTimes *times);

/* Starts the server (this program with --serve=FOLDER), makes and fills its table. */
TpsLookupRemote *tps_lookup_remote_new (TpsSupervisor *supervisor, const gchar *socket_dir,
                                        const TpsLookupRemoteShape *shape, GError **error);
void tps_lookup_remote_free (TpsLookupRemote *remote);

/* "unix", "tcp"; static. */
#define TPS_LOOKUP_N_TRANSPORTS 2
const gchar *tps_lookup_transport_name (guint transport);

/* Answers are checked. Waits. */
gboolean tps_lookup_remote_run (TpsLookupRemote *remote, guint transport,
                                TpsLookupRemoteTimes *times, GError **error);

/* The server process: ends with its standard input; the exit status. */
gint tps_lookup_serve (const gchar *socket_dir);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupRemote, tps_lookup_remote_free)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLookupRemoteTimes, tps_lookup_remote_times_clear)

G_END_DECLS
