/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One connection of the server and its outstanding calls: the carrier that gives messages to the
 * services and sends the answers in an order the peer can bear. Inside plugin/server only.
 */

#pragma once

#include "plugin/net/connection.h"
#include "plugin/server/connection_info.h"
#include "plugin/server/core.h"

G_BEGIN_DECLS

typedef struct TpsSession TpsSession;

/* One loop and the sessions on it. */
typedef struct
{
  TpsServerCore *core;
  TpsLoop *loop;
  GQueue sessions; /* of TpsSession; the loop's thread only */
} TpsIoThread;

/* Takes over `fd` and has the session started on the loop. It is freed when the connection has gone
 * and all its calls have been answered. Counts in core->n_connections (the caller has added it).
 * `peer` says in the log who it is. The connection begins with `channel`. Thread: any. */
void tps_session_begin (TpsIoThread *io, gint fd, const gchar *peer, TpsNetChannel *channel);

/* Thread: any. */
TpsSession *tps_session_ref (TpsSession *session);
void tps_session_unref (TpsSession *session);

/* Fills in `info`, whose text is the caller's. Thread: any. */
void tps_session_describe (TpsSession *session, gint64 now_ns, TpsConnectionInfo *info);

/* For everything in io->sessions; loop thread. */
void tps_session_check_progress (TpsSession *session, gint64 now_ns);
void tps_session_close_when_sent (TpsSession *session);
void tps_session_close (TpsSession *session);

G_END_DECLS
