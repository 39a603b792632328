/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A call that waits for its reply, for the generated stubs. */

#pragma once

#include "plugin/client/client.h"

G_BEGIN_DECLS

/* Calls the method with the arguments `call->value`, and waits. Writes the result to `result` (NULL
 * = void) on success only; the caller owns it. If `repeats` is TRUE, the call is repeated until the
 * deadline after a lost connection, or if the server is recovering or busy (retry.h). Errors: those
 * of tps_client_call(), and INTERNAL if the reply cannot be decoded. Thread: any except the
 * client's own I/O thread. */
gboolean tps_stub_call (TpsClient *client, const TpsRpcValue *call, gboolean repeats,
                        gint64 deadline_ns, gpointer result, GError **error);

G_END_DECLS
