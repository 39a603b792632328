/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/host/transcode.h"

#include <string.h>
#include <thrift/c_glib/protocol/thrift_protocol_decorator.h>
#include <thrift/c_glib/transport/thrift_buffered_transport.h>
#include <thrift/c_glib/transport/thrift_framed_transport.h>

#include "plugin/host/transcode_private.h"
#include "runtime/base/error.h"

ThriftProtocol *
tps_transcode_undecorate (ThriftProtocol *protocol)
{
  while (THRIFT_IS_PROTOCOL_DECORATOR (protocol)
         && THRIFT_PROTOCOL_DECORATOR (protocol)->concrete_protocol != NULL)
    protocol = THRIFT_PROTOCOL_DECORATOR (protocol)->concrete_protocol;
  return protocol;
}

ThriftTransport *
tps_transcode_dup_transport (ThriftProtocol *protocol)
{
  ThriftTransport *transport = NULL;

  g_object_get (tps_transcode_undecorate (protocol), "transport", &transport, NULL);
  return transport;
}

void
tps_transcode_abandon (ThriftProtocol *in)
{
  g_autoptr (GObject) transport = (GObject *) tps_transcode_dup_transport (in);

  if (transport == NULL)
    return;
  if (thrift_transport_is_open (THRIFT_TRANSPORT (transport)))
    thrift_transport_close (THRIFT_TRANSPORT (transport), NULL);
  if (THRIFT_IS_FRAMED_TRANSPORT (transport))
    g_byte_array_set_size (THRIFT_FRAMED_TRANSPORT (transport)->r_buf, 0);
  else if (THRIFT_IS_BUFFERED_TRANSPORT (transport))
    g_byte_array_set_size (THRIFT_BUFFERED_TRANSPORT (transport)->r_buf, 0);
}

gboolean
tps_transcode_blame (GError *cause, const gchar *what, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "cannot %s: %s", what,
               cause != NULL ? cause->message : "the host's protocol gives no reason");
  g_clear_error (&cause);
  return FALSE;
}

static gboolean
fill_body (TpsScanner *scanner, const guint8 **bytes, gsize *n_bytes, GError **error)
{
  guint8 *dest;
  gsize n_missing;
  gsize n;

  if (!tps_scanner_get_body (scanner, &dest, &n_missing))
    return TRUE;
  n = MIN (n_missing, *n_bytes);
  memcpy (dest, *bytes, n);
  *bytes += n;
  *n_bytes -= n;
  return tps_scanner_body_received (scanner, n, error);
}

gboolean
tps_transcode_feed (TpsScanner *scanner, const guint8 *bytes, gsize n_bytes, GError **error)
{
  while (n_bytes > 0)
    {
      gsize n_before = n_bytes;
      gsize n_consumed = 0;

      if (!tps_scanner_feed (scanner, bytes, n_bytes, &n_consumed, error))
        return FALSE;
      bytes += n_consumed;
      n_bytes -= n_consumed;
      if (n_bytes > 0 && !fill_body (scanner, &bytes, &n_bytes, error))
        return FALSE;
      if (n_bytes == n_before)
        {
          g_set_error_literal (error, TPS_ERROR, TPS_ERROR_PROTOCOL,
                               "bytes follow the end of the call");
          return FALSE;
        }
    }
  return TRUE;
}

TpsMessage *
tps_transcode_message (TpsWriter *out, GError **error)
{
  static const TpsScannerOptions limits = { .max_message_bytes = G_MAXINT32,
                                            .max_head_bytes = G_MAXINT32 };
  g_autoptr (TpsScanner) scanner = tps_scanner_new (&limits);
  guint n_pieces = 0;
  const struct iovec *pieces = tps_writer_get_pieces (out, &n_pieces, NULL);
  TpsMessage *message;

  for (guint i = 0; i < n_pieces; i++)
    if (!tps_transcode_feed (scanner, pieces[i].iov_base, pieces[i].iov_len, error))
      return NULL;
  message = tps_scanner_take (scanner);
  if (message == NULL)
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_PROTOCOL, "the message is incomplete");
  return message;
}
