/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One attempt to connect a socket, with a deadline, that never blocks the loop: names that need a
 * resolver are looked up on a thread of their own.
 */

#pragma once

#include "plugin/net/address.h"
#include "plugin/net/loop.h"

G_BEGIN_DECLS

typedef struct TpsConnector TpsConnector;

/* `fd` is the callee's: connected and non-blocking; -1 with an error (CONNECTION_LOST,
 * INVALID_ARGUMENT for a host that does not exist). Loop thread; the connector may be freed in
 * it. */
typedef void (*TpsConnectorDone) (gpointer user_data, gint fd, const GError *error);

/* Starts at once; `done` comes exactly once, never from within this call. Loop thread. */
TpsConnector *tps_connector_new (TpsLoop *loop, const TpsAddress *address, gint64 timeout_ns,
                                 TpsConnectorDone done, gpointer user_data);

/* Gives up if still connecting: `done` is not called any more. Loop thread. */
void tps_connector_free (TpsConnector *connector);

G_END_DECLS
