/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The messages of one connection of a host, read and written with blocking calls.
 *
 * A host's server makes two transports for every socket it accepts, one to read and one to write.
 * Both are views of one stream: what a request looked like (protocol, framing) decides what its
 * reply looks like. The stream of a transport is found through the transport beneath it.
 *
 * Reading goes through the scanner (plugin/frame/scan.h), so a message is either well-formed and
 * complete, or an error. A plain ThriftSocket is read and written through its descriptor, with
 * timeouts and without SIGPIPE; any other transport (TLS, pipes, memory) through its own read and
 * write, which have neither.
 *
 * Not thread-safe: a connection belongs to one thread at a time.
 */

#pragma once

#include <thrift/c_glib/transport/thrift_transport.h>

#include "plugin/frame/scan.h"
#include "plugin/frame/writer.h"

G_BEGIN_DECLS

/* Zero everywhere gives the defaults, which are said in brackets. */
typedef struct
{
  /* Limits of a message that is received: all of it [256 MiB]; without its large binaries [16 MiB];
   * strings, structs and containers that stand inside containers [1,048,576], of each of which
   * generated code makes an object of a few hundred bytes. */
  gsize max_message_bytes;
  gsize max_head_bytes;
  guint max_elements;

  /* How long to wait: for the next byte inside a message, either way [30,000]; for all of a message
   * [300,000]; for the next message [G_MAXUINT: for ever]. */
  guint stall_timeout_ms;
  guint message_timeout_ms;
  guint idle_timeout_ms;

  /* How to write before anything was read, as a client does [binary, framed]. */
  TpsProtocolKind protocol;
  gboolean unframed;

  /* For large binaries; borrowed here, kept by what is made with them [the default pool]. */
  TpsBufferPool *bodies;
} TpsHostOptions;

/* The limits that apply to a scanner, defaults filled in; `options` may be NULL. `bodies` stays
 * borrowed. */
void tps_host_options_get_limits (const TpsHostOptions *options, TpsScannerOptions *limits);

/* The limit of elements, default filled in. */
guint tps_host_options_get_max_elements (const TpsHostOptions *options);

typedef struct TpsHostStream TpsHostStream;

/* The stream of the connection beneath, made with `options` (NULL = defaults) where there is none
 * yet. The caller holds a reference of `inner` at least as long as of the stream. Thread: the
 * connection's. */
TpsHostStream *tps_host_stream_get (ThriftTransport *inner, const TpsHostOptions *options);
TpsHostStream *tps_host_stream_ref (TpsHostStream *stream);
void tps_host_stream_unref (TpsHostStream *stream);

/* Waits until there is something to read: TRUE, or FALSE at the end of the connection (no error) or
 * after the idle timeout (DEADLINE_EXCEEDED). */
gboolean tps_host_stream_peek (TpsHostStream *stream, GError **error);

/* The next message, the caller's; NULL with an error, which is final: CONNECTION_LOST at the end of
 * the connection, DEADLINE_EXCEEDED after a timeout, PROTOCOL or RESOURCE_EXHAUSTED from the
 * scanner. */
TpsMessage *tps_host_stream_receive (TpsHostStream *stream, GError **error);

/* Sends a finished writer, which stays the caller's. Errors, final: CONNECTION_LOST,
 * DEADLINE_EXCEEDED. */
gboolean tps_host_stream_send (TpsHostStream *stream, TpsWriter *out, GError **error);

/* What the next message that is written should look like; borrowed, without a budget. */
const TpsWriterForm *tps_host_stream_get_form (const TpsHostStream *stream);

guint tps_host_stream_get_max_elements (const TpsHostStream *stream);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsHostStream, tps_host_stream_unref)

G_END_DECLS
