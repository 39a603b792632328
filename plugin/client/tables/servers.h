/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Several servers, and requests to some of them at a time that end together. */

#pragma once

#include "plugin/client/client.h"
#include "runtime/base/sync.h"

G_BEGIN_DECLS

typedef struct
{
  guint n_servers;
  TpsClient **clients; /* [n_servers] */
  gchar **addresses;   /* [n_servers] as they were given, then NULL */

  TpsMutex lock; /* guards the next line */
  guint n_calls; /* that have not ended */
  TpsCond idle;
} TpsServers;

/* One request; everything that it points to is borrowed until it has ended. */
typedef struct
{
  guint server;
  gconstpointer arguments;
  TpsReadResult read; /* NULL = void. What it refuses is the server's fault: INTERNAL */
  gpointer result;
} TpsServerRequest;

/* errors [n_requests], NULL for those that succeeded; borrowed for the call. On the I/O thread of a
 * client: must not block. May ask again. */
typedef void (*TpsServersAnswered) (gpointer user_data, GError *const *errors);

/* Errors: INVALID_ARGUMENT for no addresses, or one that cannot be understood; then there is
 * nothing to clear. */
gboolean tps_servers_init (TpsServers *servers, const gchar *const *addresses, guint n_addresses,
                           gsize max_message_bytes, TpsTls *tls, const gchar *token,
                           GError **error);
void tps_servers_cancel (TpsServers *servers);
/* Cancels, waits until everything has ended. */
void tps_servers_clear (TpsServers *servers);

/* Calls a method of several servers at a time, with the retries of plugin/client/retry.h.
 * `requests` is copied. `done` comes when all have ended, never before this returns. */
void tps_servers_ask (TpsServers *servers, const TpsRpc *rpc, const TpsServerRequest *requests,
                      guint n_requests, gint64 deadline_ns, TpsServersAnswered done,
                      gpointer user_data);

/* Calls `func` on an I/O thread, soon; with ABORTED after a cancel. */
void tps_servers_defer (TpsServers *servers, TpsClientDelayed func, gpointer user_data);

/* As tps_servers_ask(), waiting. errors [n_requests], NULL before, filled in. Whether all
 * succeeded. */
gboolean tps_servers_ask_sync (TpsServers *servers, const TpsRpc *rpc,
                               const TpsServerRequest *requests, guint n_requests,
                               gint64 deadline_ns, GError **errors);

/* The first of the errors, with the name of its server; NULL where there is none. With `is_push` it
 * says on how many servers the push was applied, where those are any. */
GError *tps_servers_dup_error (const TpsServers *servers, const TpsServerRequest *requests,
                               guint n_requests, GError *const *errors, gboolean is_push);

G_END_DECLS
