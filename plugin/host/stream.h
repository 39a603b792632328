/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The messages of one connection of a host, read and written with blocking calls.
 *
 * A host's server creates two transports for every accepted socket, one to read and one to write.
 * Both are views of one stream, because the form of a request (protocol, framing) decides on the
 * form of its reply. The stream of a transport is found through the transport beneath it.
 *
 * All bytes go through the scanner (plugin/frame/scan.h), so a message is either well-formed and
 * complete, or an error. A plain ThriftSocket is read and written through its descriptor, with
 * timeouts and without SIGPIPE. Other transports (TLS, pipes, memory) are used through their own
 * read and write, which have neither.
 *
 * Not thread-safe: a connection belongs to one thread at a time.
 */

#pragma once

#include <thrift/c_glib/transport/thrift_transport.h>

#include "plugin/frame/scan.h"
#include "plugin/frame/writer.h"

G_BEGIN_DECLS

/* All fields zero = the defaults, which are given in brackets. */
typedef struct
{
  /* Limits of a received message: all of it [256 MiB]; without its large binaries [16 MiB];
   * strings, structs and containers inside containers [1,048,576], for each of which generated code
   * creates an object of some hundred bytes. */
  gsize max_message_bytes;
  gsize max_head_bytes;
  guint max_elements;

  /* Timeouts: for the next byte inside a message, in both directions [30,000]; for a whole message
   * [300,000]; for the next message [G_MAXUINT: none]. */
  guint stall_timeout_ms;
  guint message_timeout_ms;
  guint idle_timeout_ms;

  /* The form of messages written before the first one was read, as by a client [binary, framed]. */
  TpsProtocolKind protocol;
  gboolean unframed;

  /* For large binaries; borrowed here, referenced by the objects that use it [the default pool]. */
  TpsBufferPool *bodies;
} TpsHostOptions;

/* The limits for a scanner, with defaults; `options` may be NULL. `bodies` is borrowed. */
void tps_host_options_get_limits (const TpsHostOptions *options, TpsScannerOptions *limits);

/* The limit of elements, or its default. */
guint tps_host_options_get_max_elements (const TpsHostOptions *options);

typedef struct TpsHostStream TpsHostStream;

/* The stream of the connection beneath; created with `options` (NULL = defaults) if there is none
 * yet. The caller must have a reference of `inner` at least as long as of the stream. Thread: the
 * connection's. */
TpsHostStream *tps_host_stream_get (ThriftTransport *inner, const TpsHostOptions *options);
TpsHostStream *tps_host_stream_ref (TpsHostStream *stream);
void tps_host_stream_unref (TpsHostStream *stream);

/* Waits for bytes to read: TRUE, or FALSE at the end of the connection (no error) or after the idle
 * timeout (DEADLINE_EXCEEDED). */
gboolean tps_host_stream_peek (TpsHostStream *stream, GError **error);

/* The next message, owned by the caller. NULL with a final error: CONNECTION_LOST at the end of the
 * connection, DEADLINE_EXCEEDED after a timeout, PROTOCOL or RESOURCE_EXHAUSTED from the
 * scanner. */
TpsMessage *tps_host_stream_receive (TpsHostStream *stream, GError **error);

/* Sends a finished writer, which still belongs to the caller. Final errors: CONNECTION_LOST,
 * DEADLINE_EXCEEDED. */
gboolean tps_host_stream_send (TpsHostStream *stream, TpsWriter *out, GError **error);

/* The form of the next message that is written; borrowed, without a budget. */
const TpsWriterForm *tps_host_stream_get_form (const TpsHostStream *stream);

/* Returns the limit of TpsHostOptions on the elements of one message. */
guint tps_host_stream_get_max_elements (const TpsHostStream *stream);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsHostStream, tps_host_stream_unref)

G_END_DECLS
