/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Messages through any ThriftProtocol, without generated code: the types on the wire drive the
 * reads and writes.
 *
 * Values that are read go through the scanner (plugin/frame/scan.h) as if they had been received in
 * binary protocol, so they are checked like all messages. Before that they pass through the host's
 * protocol and transport, with their weaknesses.
 */

#pragma once

#include <thrift/c_glib/protocol/thrift_protocol.h>

#include "plugin/frame/reader.h"
#include "plugin/frame/scan.h"
#include "plugin/frame/writer.h"

G_BEGIN_DECLS

/* Reads a whole message, including the end calls of protocol and transport. NULL with an error:
 * PROTOCOL or RESOURCE_EXHAUSTED as from the scanner, CONNECTION_LOST for failures of the host's
 * protocol. The connection must not be read any further. */
TpsMessage *tps_transcode_read (ThriftProtocol *in, const TpsScannerOptions *limits,
                                GError **error);

/* Converts a finished message to a received one; copies the bytes that `out` has or borrows.
 * Errors: those of the scanner. */
TpsMessage *tps_transcode_message (TpsWriter *out, GError **error);

/* Must be called after a failed read: closes the connection and drops the bytes in the library's
 * framed and buffered transports, so that the next read fails at once. (ThriftMultiplexedProcessor
 * skips the supposed rest of a call, up to 0.23 to any depth.)
 */
void tps_transcode_abandon (ThriftProtocol *in);

/* Writes a finished reply and flushes. `reply` must have been written in binary protocol, unframed.
 * Errors: CONNECTION_LOST. */
gboolean tps_transcode_write (TpsWriter *reply, ThriftProtocol *out, GError **error);

/* The protocol beneath decorators such as ThriftMultiplexedProcessor's; borrowed. */
ThriftProtocol *tps_transcode_undecorate (ThriftProtocol *protocol);

/* A reference of the protocol's transport; NULL = there is none. Decorators have it only as a
 * property, not in their field `transport`. */
ThriftTransport *tps_transcode_dup_transport (ThriftProtocol *protocol);

G_END_DECLS
