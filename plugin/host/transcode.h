/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Messages through any ThriftProtocol, without generated code: the wire's own types say what comes
 * next.
 *
 * What is read goes through the scanner (plugin/frame/scan.h) as if it had been received in binary
 * protocol, so it is checked as everything else is; before it arrives there it is in the hands of
 * the host's protocol and transport, and keeps their weaknesses.
 */

#pragma once

#include <thrift/c_glib/protocol/thrift_protocol.h>

#include "plugin/frame/reader.h"
#include "plugin/frame/scan.h"
#include "plugin/frame/writer.h"

G_BEGIN_DECLS

/* Reads a whole message, its end and the transport's included. NULL with an error: PROTOCOL or
 * RESOURCE_EXHAUSTED as from the scanner, CONNECTION_LOST for what the host's protocol failed with;
 * the connection cannot be read any further. */
TpsMessage *tps_transcode_read (ThriftProtocol *in, const TpsScannerOptions *limits,
                                GError **error);

/* A finished message as one that was received; copies the bytes that `out` has or borrows. Errors:
 * those of the scanner. */
TpsMessage *tps_transcode_message (TpsWriter *out, GError **error);

/* After a read that failed: closes the connection and forgets what the library's framed and
 * buffered transports hold of it, so that whatever reads from it next fails at once
 * (ThriftMultiplexedProcessor skips what it takes for the rest of a call, up to 0.23 to any depth).
 */
void tps_transcode_abandon (ThriftProtocol *in);

/* Writes a finished reply and flushes. `reply` must have been written in binary protocol, unframed.
 * Errors: CONNECTION_LOST. */
gboolean tps_transcode_write (TpsWriter *reply, ThriftProtocol *out, GError **error);

/* The protocol beneath decorators such as ThriftMultiplexedProcessor's; borrowed. */
ThriftProtocol *tps_transcode_undecorate (ThriftProtocol *protocol);

/* The protocol's transport, the caller's reference; NULL where there is none. Decorators do not
 * have it in their field `transport`, only as a property. */
ThriftTransport *tps_transcode_dup_transport (ThriftProtocol *protocol);

G_END_DECLS
