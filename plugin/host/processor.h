/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Our services as a ThriftProcessor, for servers that are not ours.
 *
 * It works with any transport and protocol of the library, below a ThriftMultiplexedProcessor or
 * alone (then it routes "Service:method" itself), on one connection or many at a time. With
 * TpsHostTransport and TpsHostProtocol tensors are not copied; with others they are copied once
 * more than by the library.
 *
 * A call that waits for others (average_gradient) blocks the thread that called process(). That
 * needs a server with a thread for each connection. A server that serves one connection at a time,
 * such as ThriftSimpleServer, would block the very clients for which the call waits: use
 * TPS_HOST_SINGLE_CONNECTION there, and such a call fails at once with UNAVAILABLE.
 */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>

#include "plugin/host/stream.h"
#include "plugin/service/carrier.h"

G_BEGIN_DECLS

#define TPS_TYPE_PROCESSOR (tps_processor_get_type ())
#define TPS_PROCESSOR(obj) (G_TYPE_CHECK_INSTANCE_CAST ((obj), TPS_TYPE_PROCESSOR, TpsProcessor))
#define TPS_IS_PROCESSOR(obj) (G_TYPE_CHECK_INSTANCE_TYPE ((obj), TPS_TYPE_PROCESSOR))

typedef struct TpsProcessor TpsProcessor;

/* The GType of TpsProcessor. Thread: any. */
GType tps_processor_get_type (void);

/* How the host serves its connections. */
typedef enum
{
  TPS_HOST_THREADED,          /* one thread for each connection: calls may wait */
  TPS_HOST_SINGLE_CONNECTION, /* one connection at a time: calls cannot wait */
} TpsHostKind;

/* Takes a reference of `dispatcher`. Only the limits of messages and the pool of `options` (NULL =
 * defaults) apply, and only to messages that come through the library's own transports. Thread:
 * process() any. */
ThriftProcessor *tps_processor_new (TpsDispatcher *dispatcher, TpsHostKind kind,
                                    const TpsHostOptions *options);

/* Reads one call as process() does. NULL with an error: the connection must not be read any
 * further. */
TpsMessage *tps_processor_receive (TpsProcessor *processor, ThriftProtocol *in, GError **error);

/* Runs one call as process() does, without protocols. Takes over `message`, whose form the reply
 * has. Returns the finished reply, owned by the caller; NULL for a oneway call. May block as
 * process() does. Thread: any. */
TpsWriter *tps_processor_call (TpsProcessor *processor, TpsMessage *message);

G_END_DECLS
