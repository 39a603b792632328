/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Our services as a ThriftProcessor, for a server that we did not write.
 *
 * Works with any transport and protocol of the library, below a ThriftMultiplexedProcessor or alone
 * (then it understands "Service:method" itself), on one connection or many at a time. With
 * TpsHostTransport and TpsHostProtocol tensors are not copied; with any other they are copied once
 * more than the library does.
 *
 * A call that waits for others (average_gradient) keeps the thread that called process(). That
 * needs a server with a thread for each connection. A server that serves one connection at a time,
 * as ThriftSimpleServer, would keep the very clients waiting that the call waits for: there, say
 * so, and such a call fails at once with UNAVAILABLE.
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

GType tps_processor_get_type (void);

/* How the host serves its connections. */
typedef enum
{
  TPS_HOST_THREADED,          /* a thread for each: calls may wait */
  TPS_HOST_SINGLE_CONNECTION, /* one at a time: calls that would have to wait are UNAVAILABLE */
} TpsHostKind;

/* Takes a reference of `dispatcher`. Of `options` (NULL = defaults) only the limits of messages and
 * the pool apply, and only to messages that come through the library's own transports. Thread:
 * process() any. */
ThriftProcessor *tps_processor_new (TpsDispatcher *dispatcher, TpsHostKind kind,
                                    const TpsHostOptions *options);

/* Reads one call as process() does. NULL with an error: the connection cannot be read any
 * further. */
TpsMessage *tps_processor_receive (TpsProcessor *processor, ThriftProtocol *in, GError **error);

/* Runs one call as process() does, without protocols: takes over `message`, whose form the reply
 * has. The reply is finished and the caller's; NULL for a oneway call. Waits as process() does.
 * Thread: any. */
TpsWriter *tps_processor_call (TpsProcessor *processor, TpsMessage *message);

G_END_DECLS
