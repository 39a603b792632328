/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One attempt to connect a socket, with a deadline. It never blocks the loop: a name that needs a
 * resolver is looked up on a separate thread.
 */

#pragma once

#include "plugin/net/address.h"
#include "plugin/net/loop.h"

G_BEGIN_DECLS

typedef struct TpsConnector TpsConnector;

/* Called with the connected, non-blocking `fd`, which the callee then owns, or with -1 and an
 * error, which is borrowed (CONNECTION_LOST; INVALID_ARGUMENT if the host does not exist). The
 * callee may free the connector. Thread: the loop's. */
typedef void (*TpsConnectorDone) (gpointer user_data, gint fd, const GError *error);

/* Starts an attempt to connect. The caller owns the result. `done` is called at most once, never
 * from within this function. Thread: the loop's. */
TpsConnector *tps_connector_new (TpsLoop *loop, const TpsAddress *address, gint64 timeout_ns,
                                 TpsConnectorDone done, gpointer user_data);

/* Frees the connector. If the attempt is still running, it is cancelled, and `done` is not called.
 * Thread: the loop's. */
void tps_connector_free (TpsConnector *connector);

G_END_DECLS
