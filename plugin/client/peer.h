/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the server says of itself (Node.describe), asked once a connection. */

#pragma once

#include "plugin/client/client.h"

G_BEGIN_DECLS

typedef struct
{
  gint64 max_frame_bytes;  /* of a message to it; 0 = not said */
  gint64 max_shared_bytes; /* of segments on the connection; 0 = none are offered */
  gboolean shares_device;  /* they may lie in memory of a device */
} TpsPeerFacts;

/* Called exactly once, on the I/O thread. `facts` is NULL with an error, borrowed otherwise; all zero for a peer without
 * Node.describe. Errors: those of tps_client_call(), but for the peer's own. */
typedef void (*TpsPeerKnown) (gpointer user_data, const TpsPeerFacts *facts, const GError *error);

/* Answered from memory while the connection that was asked stands. Thread: any; never blocks. */
void tps_client_ask_peer (TpsClient *client, gint64 deadline_ns, TpsPeerKnown known,
                          gpointer user_data);

G_END_DECLS
