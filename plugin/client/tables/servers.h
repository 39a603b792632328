/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Clients of several servers, and groups of requests to some of them. A group ends when all its
 * requests have ended. */

#pragma once

#include "plugin/client/client.h"
#include "runtime/base/sync.h"

typedef struct
{
  guint n_servers;
  TpsClient **clients; /* [n_servers] */
  gchar **addresses;   /* [n_servers] as given by the caller, then NULL */

  TpsMutex lock; /* guards the next line */
  guint n_calls; /* calls that have not ended */
  TpsCond idle;  /* signalled when `n_calls` reaches zero */
} TpsServers;

/* A request to one server. All its pointers are borrowed until it has ended. */
typedef struct
{
  guint server;
  gconstpointer arguments;
  /* Takes the result of the method, see TpsRpcDone. NULL = void; its errors become INTERNAL. */
  gboolean (*take) (gpointer result, gpointer user_data, GError **error);
  gpointer user_data;
} TpsServerRequest;

/* Called once, on the I/O thread of a client, when all requests have ended. Must not block. `error`
 * is that of tps_servers_dup_error(), borrowed; NULL = all requests succeeded. The callback may
 * send further requests. */
typedef void (*TpsServersAnswered) (gpointer user_data, const GError *error);

/* Creates a client for each address, with the options of `common` except for the address. Errors:
 * INVALID_ARGUMENT if there is no address or an address cannot be parsed; those of
 * tps_client_new(). On error, there is nothing to clear. */
gboolean tps_servers_init (TpsServers *servers, const gchar *const *addresses, guint n_addresses,
                           const TpsClientOptions *common, GError **error);
/* Ends pending calls with ABORTED. Later calls fail with ABORTED, too. Thread: any. */
void tps_servers_cancel (TpsServers *servers);
/* Cancels all calls, waits until they have ended, and frees the clients. */
void tps_servers_clear (TpsServers *servers);

/* Calls a method of several servers at the same time, with the retries of
 * TPS_RETRY_UNTIL_DEADLINE. A method without a result is a push. `requests` is copied. `done` is
 * called when all requests have ended. Thread: any. */
void tps_servers_call (TpsServers *servers, const TpsRpc *rpc, const TpsServerRequest *requests,
                       guint n_requests, gint64 deadline_ns, TpsServersAnswered done,
                       gpointer user_data);

/* Calls `func` soon on an I/O thread; with ABORTED if the servers are cancelled. Thread: any. */
void tps_servers_defer (TpsServers *servers, TpsClientDelayed func, gpointer user_data);

/* As tps_servers_call(), but waits. Returns TRUE if all requests succeeded. errors [n_requests]
 * must be NULL on entry; the caller owns the errors. Must not be called from a callback. */
gboolean tps_servers_call_sync (TpsServers *servers, const TpsRpc *rpc,
                                const TpsServerRequest *requests, guint n_requests,
                                gint64 deadline_ns, GError **errors);

/* Returns a copy of the first error, whose message names the server; NULL if there is no error. The
 * caller owns it. If `is_push` is TRUE, the message also states the number of servers that applied
 * the push, if any did. */
GError *tps_servers_dup_error (const TpsServers *servers, const TpsServerRequest *requests,
                               guint n_requests, GError *const *errors, gboolean is_push);
