/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One connection of the server with its outstanding calls: the carrier that passes messages to the
 * services and sends their replies in an order that the peer accepts. Inside plugin/server only.
 */

#pragma once

#include "plugin/net/connection.h"
#include "plugin/server/connection_info.h"
#include "plugin/server/core.h"

typedef struct TpsSession TpsSession;

/* One loop and the sessions on it. */
typedef struct
{
  TpsServerCore *core;
  TpsLoop *loop;
  GQueue sessions; /* of TpsSession; the loop's thread only */
} TpsIoThread;

/* Takes over `fd` and starts a session on the loop. The session is freed when its connection has
 * closed and all its calls have been answered. The caller must have counted the connection in
 * core->n_connections. `peer` names the peer in the log. The connection owns `channel` (TLS or
 * plain) and uses it from the first byte. Thread: any. */
void tps_session_begin (TpsIoThread *io, gint fd, const gchar *peer, TpsNetChannel *channel);
TpsSession *tps_session_ref (TpsSession *session);
void tps_session_unref (TpsSession *session);

/* Sets `info`. The caller owns its `peer` and the reference in its `principal`. Thread: any. */
void tps_session_describe (TpsSession *session, gint64 now_ns, TpsConnectionInfo *info);

/* Returns the connection of a session in io->sessions, borrowed. Thread: the loop's. */
TpsConnection *tps_session_get_connection (TpsSession *session);
