/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads and writes messages through any ThriftProtocol without generated code, according to the
 * types on the wire.
 *
 * Values that are read go through the scanner (plugin/frame/scan.h) as if they had been received in
 * binary protocol, so they are checked like all messages. This does not protect the host's protocol
 * and transport, which process the bytes first.
 */

#pragma once

#include <thrift/c_glib/protocol/thrift_protocol.h>

#include "plugin/frame/message.h"
#include "plugin/frame/scan.h"
#include "plugin/frame/writer.h"

G_BEGIN_DECLS

/* Reads a whole message, including the end calls of protocol and transport. The caller owns it.
 * After an error, the connection must not be read any further. Errors: PROTOCOL and
 * RESOURCE_EXHAUSTED of the scanner, CONNECTION_LOST for failures of the host's protocol. */
TpsMessage *tps_transcode_read (ThriftProtocol *in, const TpsScannerOptions *limits,
                                GError **error);

/* Converts a finished message to a received message, which the caller owns. Copies all bytes of
 * `out`. Errors: those of the scanner. */
TpsMessage *tps_transcode_message (TpsWriter *out, GError **error);

/* Must be called after a failed read: closes the connection and drops the bytes in the library's
 * framed and buffered transports, so that the next read fails at once. Otherwise
 * ThriftMultiplexedProcessor would skip the bytes that it takes for the rest of the call (in
 * versions up to 0.23, to any depth). */
void tps_transcode_abandon (ThriftProtocol *in);

/* Writes a finished reply to `out` and flushes. `reply`, which the caller still owns, must have
 * been written in binary protocol, unframed. Errors: CONNECTION_LOST. */
gboolean tps_transcode_write (TpsWriter *reply, ThriftProtocol *out, GError **error);

/* Returns the protocol inside decorators, such as those of ThriftMultiplexedProcessor; borrowed. */
ThriftProtocol *tps_transcode_undecorate (ThriftProtocol *protocol);

/* Returns the protocol's transport, of which the caller owns a reference; NULL = there is none. The
 * field `transport` of a decorator is not set, so it must not be used instead. */
ThriftTransport *tps_transcode_dup_transport (ThriftProtocol *protocol);

G_END_DECLS
