/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The services of this project as a ThriftProcessor, for servers other than TpsServer.
 *
 * The processor works with any transport and protocol of the library, and with one or many
 * connections at a time. It may be registered with a ThriftMultiplexedProcessor or used alone; it
 * then routes "Service:method" itself. With TpsHostTransport and TpsHostProtocol, tensors are not
 * copied; with other transports and protocols, they are copied once in addition to the library's
 * copies.
 *
 * A call that waits for other calls (average_gradient) blocks the thread that called process(), so
 * the server must have a thread for each connection. A server that serves one connection at a time,
 * such as ThriftSimpleServer, would block the clients whose calls are awaited. Such a server must
 * use TPS_HOST_SINGLE_CONNECTION: calls that would wait then fail at once with UNAVAILABLE.
 */

#pragma once

#include <thriftps/plugin.h>

#include "plugin/host/stream.h"
#include "plugin/service/dispatch.h"

#define TPS_TYPE_PROCESSOR (tps_processor_get_type ())
#define TPS_PROCESSOR(obj) (G_TYPE_CHECK_INSTANCE_CAST ((obj), TPS_TYPE_PROCESSOR, TpsProcessor))

typedef struct TpsProcessor TpsProcessor;

GType tps_processor_get_type (void);

/* Creates a processor, which the caller owns, and takes a reference to `dispatcher`. Only the
 * limits of messages and the pool of `options` (NULL = defaults) apply, and only to messages that
 * come through the library's own transports. Thread: any, for process() as well. */
ThriftProcessor *tps_processor_new (TpsDispatcher *dispatcher, TpsHostKind kind,
                                    const TpsHostOptions *options);

/* Reads one call as process() does, and returns its message, which the caller owns. After an error,
 * the connection must not be read any further. Errors: those of the protocol, and of
 * tps_transcode_read(). */
TpsMessage *tps_processor_receive (TpsProcessor *processor, ThriftProtocol *in, GError **error);

/* Runs one call as process() does, without protocols. Takes ownership of `message`, and returns the
 * finished reply in the same form, which the caller owns; NULL for a oneway call. May block as
 * process() does. Thread: any. */
TpsWriter *tps_processor_call (TpsProcessor *processor, TpsMessage *message);
