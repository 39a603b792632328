/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The messages of one connection of a host, read and written with blocking calls.
 *
 * A host's server creates two transports for every accepted socket, one to read and one to write.
 * Both use the same stream, because the form of a request (protocol, framing) determines the form
 * of its reply. The stream is attached to the underlying transport of the socket.
 *
 * All bytes go through the scanner (plugin/frame/scan.h), so a message is either well-formed and
 * complete, or an error. A plain ThriftSocket is read and written through its descriptor, with
 * timeouts and without SIGPIPE. Other transports (TLS, pipes, memory) are used through their own
 * read and write functions, without these timeouts and this protection.
 *
 * Not thread-safe: a connection belongs to one thread at a time.
 */

#pragma once

#include <thriftps/plugin.h>

#include "plugin/frame/scan.h"
#include "plugin/frame/writer.h"

G_BEGIN_DECLS

/* Sets `limits` to the limits for a scanner, with defaults. `options` may be NULL. */
void tps_host_options_get_limits (const TpsHostOptions *options, TpsScannerOptions *limits);

/* Returns the limit of elements, or its default. `options` may be NULL. */
guint tps_host_options_get_max_elements (const TpsHostOptions *options);

typedef struct TpsHostStream TpsHostStream;

/* Returns the stream of the connection of `inner`, and creates it with `options` (NULL = defaults)
 * if there is none. The caller owns a reference, and must hold a reference to `inner` at least as
 * long. Thread: the connection's. */
TpsHostStream *tps_host_stream_get (ThriftTransport *inner, const TpsHostOptions *options);
void tps_host_stream_unref (TpsHostStream *stream);

/* Waits for bytes to read, and returns TRUE if there are some. Returns FALSE without an error at
 * the end of the connection, and if the stream has already failed. Errors: DEADLINE_EXCEEDED after
 * the idle timeout, CONNECTION_LOST; those of the transport if it is not a plain socket. */
gboolean tps_host_stream_peek (TpsHostStream *stream, GError **error);

/* Receives the next message, which the caller owns. Blocks. Errors: CONNECTION_LOST at the end of
 * the connection, DEADLINE_EXCEEDED after a timeout, PROTOCOL or RESOURCE_EXHAUSTED from the
 * scanner. After an error, the stream cannot be used any more. */
TpsMessage *tps_host_stream_receive (TpsHostStream *stream, GError **error);

/* Sends a finished writer, which the caller still owns. Blocks. Errors: CONNECTION_LOST,
 * DEADLINE_EXCEEDED. After an error, the stream cannot be used any more. */
gboolean tps_host_stream_send (TpsHostStream *stream, TpsWriter *out, GError **error);

/* Returns the form that the next written message must have, borrowed, without a budget. */
const TpsWriterForm *tps_host_stream_get_form (const TpsHostStream *stream);

/* Returns the limit of TpsHostOptions on the elements of one message. */
guint tps_host_stream_get_max_elements (const TpsHostStream *stream);

G_END_DECLS
