/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/host/stream.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <thrift/c_glib/transport/thrift_socket.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/sized.h"

#define CHUNK_BYTES 16384
#define MAX_PIECES_AT_ONCE 64 /* in one sendmsg(); must not exceed IOV_MAX */

#define DEFAULT_MAX_MESSAGE_BYTES ((gsize) 256 << 20)
#define DEFAULT_MAX_HEAD_BYTES ((gsize) 16 << 20)
#define DEFAULT_MAX_ELEMENTS (1u << 20)
#define DEFAULT_STALL_TIMEOUT_MS 30000
#define DEFAULT_MESSAGE_TIMEOUT_MS 300000

#define NS_PER_MS 1000000

struct TpsHostStream
{
  guint n_references;     /* used only on the thread of the connection */
  ThriftTransport *inner; /* borrowed, see tps_host_stream_get() */
  TpsHostOptions options;
  TpsScanner *scanner;
  gboolean broken; /* after an error; the stream then refuses reads and writes */

  TpsWriterForm form; /* of the next written message; without a budget */

  /* The bytes [begin, end) of `chunk` have been read, but not yet scanned. */
  gsize begin;
  gsize end;

  /* The position in the current frame. Used for transports that block until they have all requested
   * bytes. */
  guint n_prefix_bytes;
  guint8 prefix[4];
  gsize n_frame_bytes_missing;

  guint8 chunk[CHUNK_BYTES];
};

static GQuark
stream_quark (void)
{
  return g_quark_from_static_string ("tps-host-stream");
}

static void
fill_defaults (TpsHostOptions *options)
{
  if (options->max_message_bytes == 0)
    options->max_message_bytes = DEFAULT_MAX_MESSAGE_BYTES;
  if (options->max_head_bytes == 0)
    options->max_head_bytes = MIN (DEFAULT_MAX_HEAD_BYTES, options->max_message_bytes);
  if (options->max_elements == 0)
    options->max_elements = DEFAULT_MAX_ELEMENTS;
  if (options->stall_timeout_ms == 0)
    options->stall_timeout_ms = DEFAULT_STALL_TIMEOUT_MS;
  if (options->message_timeout_ms == 0)
    options->message_timeout_ms = DEFAULT_MESSAGE_TIMEOUT_MS;
  if (options->idle_timeout_ms == 0)
    options->idle_timeout_ms = G_MAXUINT;
  if (options->protocol == 0)
    options->protocol = TPS_PROTOCOL_BINARY;
}

void
tps_host_options_get_limits (const TpsHostOptions *options, TpsScannerOptions *limits)
{
  TpsHostOptions filled = { 0 };

  if (options != NULL)
    TPS_SIZED_COPY (filled, options);
  fill_defaults (&filled);
  *limits = (TpsScannerOptions) {
    .max_message_bytes = filled.max_message_bytes,
    .max_head_bytes = filled.max_head_bytes,
  };
}

guint
tps_host_options_get_max_elements (const TpsHostOptions *options)
{
  return options != NULL && options->max_elements > 0 ? options->max_elements
                                                      : DEFAULT_MAX_ELEMENTS;
}

static TpsHostStream *
stream_new (ThriftTransport *inner, const TpsHostOptions *options)
{
  TpsHostStream *stream = g_new0 (TpsHostStream, 1);
  TpsScannerOptions limits;

  if (options != NULL)
    TPS_SIZED_COPY (stream->options, options);
  fill_defaults (&stream->options);
  tps_host_options_get_limits (&stream->options, &limits);
  stream->n_references = 1;
  stream->inner = inner;
  stream->scanner = tps_scanner_new (&limits);
  stream->form.protocol = stream->options.protocol;
  stream->form.framed = !stream->options.unframed;
  return stream;
}

TpsHostStream *
tps_host_stream_get (ThriftTransport *inner, const TpsHostOptions *options)
{
  TpsHostStream *stream = g_object_get_qdata (G_OBJECT (inner), stream_quark ());

  if (stream != NULL)
    {
      stream->n_references++;
      return stream;
    }
  stream = stream_new (inner, options);
  /* A destroy function would be useless: sockets of C GLib do not run GObject's finalizer, which
   * calls it. */
  g_object_set_qdata (G_OBJECT (inner), stream_quark (), stream);
  return stream;
}

void
tps_host_stream_unref (TpsHostStream *stream)
{
  if (--stream->n_references > 0)
    return;
  g_object_set_qdata (G_OBJECT (stream->inner), stream_quark (), NULL);
  tps_scanner_free (stream->scanner);
  g_free (stream);
}

const TpsWriterForm *
tps_host_stream_get_form (const TpsHostStream *stream)
{
  return &stream->form;
}

guint
tps_host_stream_get_max_elements (const TpsHostStream *stream)
{
  return stream->options.max_elements;
}

/* ---- plain socket --------------------------------------------------------------------------- */

/* Returns the descriptor of a plain ThriftSocket, or -1 for any other transport. ThriftSSLSocket is
 * a subclass of ThriftSocket, but the bytes on its descriptor are encrypted. */
static gint
get_descriptor (TpsHostStream *stream)
{
  ThriftTransportClass *klass = THRIFT_TRANSPORT_GET_CLASS (stream->inner);
  ThriftTransportClass *plain;

  if (!THRIFT_IS_SOCKET (stream->inner))
    return -1;
  plain = g_type_class_peek (THRIFT_TYPE_SOCKET);
  if (klass->read != plain->read || klass->write != plain->write)
    return -1;
  return THRIFT_SOCKET (stream->inner)->sd;
}

/* Returns the deadline; -1 = none. */
static gint64
deadline_after_ms (guint timeout_ms)
{
  return timeout_ms == G_MAXUINT ? -1 : tps_clock_now_ns () + (gint64) timeout_ms * NS_PER_MS;
}

/* Returns the earlier deadline. -1 means no deadline. */
static gint64
earlier (gint64 a_ns, gint64 b_ns)
{
  if (a_ns < 0 || b_ns < 0)
    return MAX (a_ns, b_ns);
  return MIN (a_ns, b_ns);
}

static gboolean
fail (TpsHostStream *stream, GError **error, gint code, const gchar *what, gint errnum)
{
  stream->broken = TRUE;
  if (errnum != 0)
    return tps_fail (error, code, "%s: %s", what, g_strerror (errnum));
  return tps_fail (error, code, "%s", what);
}

static gboolean
wait_ready (TpsHostStream *stream, gint fd, gshort events, gint64 deadline_ns, const gchar *late,
            GError **error)
{
  struct pollfd ready = { .fd = fd, .events = events };

  for (;;)
    {
      gint timeout_ms = -1;
      gint n;

      if (deadline_ns >= 0)
        timeout_ms = (gint) CLAMP ((deadline_ns - tps_clock_now_ns () + NS_PER_MS - 1) / NS_PER_MS,
                                   0, G_MAXINT);
      n = poll (&ready, 1, timeout_ms);
      if (n > 0)
        return TRUE;
      if (n == 0)
        return fail (stream, error, TPS_ERROR_DEADLINE_EXCEEDED, late, 0);
      if (errno != EINTR)
        return fail (stream, error, TPS_ERROR_CONNECTION_LOST, "cannot wait for the connection",
                     errno);
    }
}

/* Reads at most `n_bytes` from the socket. Returns the number of bytes, 0 at the end of the
 * connection, or -1 with an error. */
static gssize
socket_read (TpsHostStream *stream, gint fd, guint8 *dest, gsize n_bytes, gint64 deadline_ns,
             const gchar *late, GError **error)
{
  for (;;)
    {
      gssize n = recv (fd, dest, n_bytes, MSG_DONTWAIT);

      if (n >= 0)
        return n;
      if (errno == EINTR)
        continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK)
        {
          fail (stream, error, TPS_ERROR_CONNECTION_LOST, "cannot read from the connection", errno);
          return -1;
        }
      if (!wait_ready (stream, fd, POLLIN, deadline_ns, late, error))
        return -1;
    }
}

/* ---- any other transport -------------------------------------------------------------------- */

/* Returns a number of bytes that the peer must still send: the rest of a body, of a frame or of its
 * length, otherwise one byte. A request for more could block, because the read() of a transport may
 * wait for all requested bytes. */
static gsize
n_bytes_safe_to_ask (const TpsHostStream *stream, gboolean is_body, gsize n_bytes)
{
  if (is_body)
    return n_bytes;
  if (stream->n_frame_bytes_missing > 0)
    return MIN (n_bytes, stream->n_frame_bytes_missing);
  if (tps_scanner_get_framed (stream->scanner) == 1)
    return MIN (n_bytes, 4 - stream->n_prefix_bytes);
  return 1;
}

/* Follows the frames in the bytes that were read. Skips the bytes of an unframed message, whose
 * first byte is 0x80 or more. */
static void
count_frame_bytes (TpsHostStream *stream, const guint8 *bytes, gsize n_bytes)
{
  while (n_bytes > 0)
    {
      gsize n = MIN (n_bytes, stream->n_frame_bytes_missing);

      if (n == 0)
        {
          n = 1;
          stream->prefix[stream->n_prefix_bytes++] = bytes[0];
          if (stream->prefix[0] >= 0x80)
            stream->n_prefix_bytes = 0; /* not framed */
          else if (stream->n_prefix_bytes == 4)
            {
              guint32 length;

              memcpy (&length, stream->prefix, sizeof length);
              stream->n_frame_bytes_missing = GUINT32_FROM_BE (length);
              stream->n_prefix_bytes = 0;
            }
        }
      else
        stream->n_frame_bytes_missing -= n;
      bytes += n;
      n_bytes -= n;
    }
}

static gssize
transport_read (TpsHostStream *stream, guint8 *dest, gsize n_bytes, GError **error)
{
  g_autoptr (GError) cause = NULL;
  gsize n_safe = n_bytes_safe_to_ask (stream, dest != stream->chunk, n_bytes);
  gsize n_asked = MIN (n_safe, (gsize) G_MAXINT32);
  gint32 n = thrift_transport_read (stream->inner, dest, (guint32) n_asked, &cause);

  if (n < 0 || cause != NULL)
    {
      stream->broken = TRUE;
      g_set_error (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST,
                   "cannot read from the connection: %s",
                   cause != NULL ? cause->message : "the transport gives no reason");
      return -1;
    }
  n = MIN (n, (gint32) n_asked);
  if (tps_scanner_get_framed (stream->scanner) != 0)
    count_frame_bytes (stream, dest, (gsize) n);
  return n;
}

/* ---- receiving ------------------------------------------------------------------------------ */

static gboolean
is_between_messages (const TpsHostStream *stream)
{
  return stream->begin == stream->end && tps_scanner_is_idle (stream->scanner);
}

static gssize
read_some (TpsHostStream *stream, guint8 *dest, gsize n_bytes, gint64 deadline_ns, GError **error)
{
  gint fd = get_descriptor (stream);
  gboolean between = is_between_messages (stream);
  guint timeout_ms = between ? stream->options.idle_timeout_ms : stream->options.stall_timeout_ms;
  gssize n;

  if (fd < 0)
    n = transport_read (stream, dest, n_bytes, error);
  else
    n = socket_read (stream, fd, dest, n_bytes,
                     earlier (deadline_after_ms (timeout_ms), deadline_ns),
                     between ? "no request came within the idle timeout"
                             : "the rest of a message did not arrive in time",
                     error);
  if (n == 0)
    {
      fail (stream, error, TPS_ERROR_CONNECTION_LOST,
            between ? "the peer has closed the connection"
                    : "the connection ended inside a message",
            0);
      return -1;
    }
  return n;
}

static gboolean
feed (TpsHostStream *stream, GError **error)
{
  gsize n_consumed = 0;

  if (!tps_scanner_feed (stream->scanner, stream->chunk + stream->begin,
                         stream->end - stream->begin, &n_consumed, error))
    {
      stream->broken = TRUE;
      return FALSE;
    }
  stream->begin += n_consumed;
  return TRUE;
}

static gboolean
read_more (TpsHostStream *stream, gint64 deadline_ns, GError **error)
{
  guint8 *dest;
  gsize n_missing;
  gssize n;

  if (tps_scanner_get_body (stream->scanner, &dest, &n_missing))
    {
      n = read_some (stream, dest, n_missing, deadline_ns, error);
      if (n < 0)
        return FALSE;
      stream->broken = !tps_scanner_body_received (stream->scanner, (gsize) n, error);
      return !stream->broken;
    }
  n = read_some (stream, stream->chunk, sizeof stream->chunk, deadline_ns, error);
  if (n < 0)
    return FALSE;
  stream->begin = 0;
  stream->end = (gsize) n;
  return TRUE;
}

static gboolean
check_usable (TpsHostStream *stream, GError **error)
{
  if (!stream->broken)
    return TRUE;
  return tps_fail (error, TPS_ERROR_CONNECTION_LOST,
                   "the connection failed before and cannot be used again");
}

gboolean
tps_host_stream_peek (TpsHostStream *stream, GError **error)
{
  gssize n;

  if (stream->broken)
    return FALSE;
  if (!is_between_messages (stream))
    return TRUE;
  if (get_descriptor (stream) < 0)
    return thrift_transport_peek (stream->inner, error);
  n = socket_read (stream, get_descriptor (stream), stream->chunk, sizeof stream->chunk,
                   deadline_after_ms (stream->options.idle_timeout_ms),
                   "no request came within the idle timeout", error);
  if (n <= 0)
    {
      stream->broken = TRUE;
      return FALSE;
    }
  stream->begin = 0;
  stream->end = (gsize) n;
  return TRUE;
}

TpsMessage *
tps_host_stream_receive (TpsHostStream *stream, GError **error)
{
  gint64 deadline_ns = -1;
  TpsMessage *message;

  if (!check_usable (stream, error))
    return NULL;
  while ((message = tps_scanner_take (stream->scanner)) == NULL)
    {
      if (deadline_ns < 0 && !is_between_messages (stream))
        deadline_ns = deadline_after_ms (stream->options.message_timeout_ms);
      if (stream->begin < stream->end ? !feed (stream, error)
                                      : !read_more (stream, deadline_ns, error))
        return NULL;
    }
  stream->form = (TpsWriterForm) { .protocol = message->protocol,
                                   .framed = message->framed,
                                   .has_header = message->has_header,
                                   .header_seqid = message->header_seqid };
  return message;
}

/* ---- sending -------------------------------------------------------------------------------- */

static gboolean
send_on_transport (TpsHostStream *stream, const struct iovec *pieces, guint n_pieces,
                   GError **error)
{
  g_autoptr (GError) cause = NULL;

  for (guint i = 0; i < n_pieces && cause == NULL; i++)
    {
      guint8 *base = pieces[i].iov_base;

      for (gsize done = 0; done < pieces[i].iov_len && cause == NULL;)
        {
          guint32 n = (guint32) MIN (pieces[i].iov_len - done, (gsize) G_MAXINT32);

          if (!thrift_transport_write (stream->inner, base + done, n, &cause) && cause == NULL)
            return fail (stream, error, TPS_ERROR_CONNECTION_LOST, "cannot write to the connection",
                         0);
          done += n;
        }
    }
  if (cause == NULL)
    thrift_transport_flush (stream->inner, &cause);
  if (cause == NULL)
    return TRUE;
  stream->broken = TRUE;
  return tps_fail (error, TPS_ERROR_CONNECTION_LOST, "cannot write to the connection: %s",
                   cause->message);
}

/* Skips `n_sent` bytes of the pieces. `rest` is the unsent part of the first piece. */
static void
advance (const struct iovec **pieces, guint *n_pieces, struct iovec *rest, gsize n_sent)
{
  while (*n_pieces > 0 && n_sent >= rest->iov_len)
    {
      n_sent -= rest->iov_len;
      (*pieces)++;
      if (--*n_pieces > 0)
        *rest = **pieces;
    }
  if (*n_pieces > 0)
    {
      rest->iov_base = (guint8 *) rest->iov_base + n_sent;
      rest->iov_len -= n_sent;
    }
}

static gboolean
send_on_socket (TpsHostStream *stream, gint fd, const struct iovec *pieces, guint n_pieces,
                GError **error)
{
  gint64 deadline_ns = deadline_after_ms (stream->options.message_timeout_ms);
  struct iovec batch[MAX_PIECES_AT_ONCE];
  struct iovec rest;

  if (n_pieces > 0)
    rest = pieces[0];
  while (n_pieces > 0)
    {
      struct msghdr header = { .msg_iov = batch, .msg_iovlen = MIN (n_pieces, MAX_PIECES_AT_ONCE) };
      gssize n;

      memcpy (batch, pieces, header.msg_iovlen * sizeof batch[0]);
      batch[0] = rest;
      n = sendmsg (fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n >= 0)
        advance (&pieces, &n_pieces, &rest, (gsize) n);
      else if (errno == EAGAIN || errno == EWOULDBLOCK)
        {
          gint64 stalled_ns = deadline_after_ms (stream->options.stall_timeout_ms);

          if (!wait_ready (stream, fd, POLLOUT, earlier (stalled_ns, deadline_ns),
                           "the peer does not read", error))
            return FALSE;
        }
      else if (errno != EINTR)
        return fail (stream, error, TPS_ERROR_CONNECTION_LOST, "cannot write to the connection",
                     errno);
    }
  return TRUE;
}

gboolean
tps_host_stream_send (TpsHostStream *stream, TpsWriter *out, GError **error)
{
  const struct iovec *pieces;
  guint n_pieces = 0;
  gsize n_bytes = 0;
  gint fd;

  if (!check_usable (stream, error))
    return FALSE;
  pieces = tps_writer_get_pieces (out, &n_pieces, &n_bytes);
  fd = get_descriptor (stream);
  if (fd >= 0)
    return send_on_socket (stream, fd, pieces, n_pieces, error);
  if (THRIFT_IS_SOCKET (stream->inner)
      && THRIFT_SOCKET (stream->inner)->sd == THRIFT_INVALID_SOCKET)
    return fail (stream, error, TPS_ERROR_CONNECTION_LOST, "the connection is closed", 0);
  return send_on_transport (stream, pieces, n_pieces, error);
}
