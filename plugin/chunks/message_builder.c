/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/chunks/message_builder.h"

#include "runtime/base/error.h"

void
tps_message_builder_init (TpsMessageBuilder *builder, gsize max_bytes, TpsBufferPool *bodies)
{
  TpsScannerOptions options = { .max_message_bytes = max_bytes,
                                .bodies = bodies,
                                .transferred = TRUE };

  builder->scanner = tps_scanner_new (&options);
  builder->message = NULL;
}

void
tps_message_builder_clear (TpsMessageBuilder *builder)
{
  g_clear_pointer (&builder->scanner, tps_scanner_free);
  g_clear_pointer (&builder->message, tps_message_free);
}

static gboolean
refuse (GError **error, const gchar *what)
{
  g_set_error_literal (error, TPS_ERROR, TPS_ERROR_PROTOCOL, what);
  return FALSE;
}

gboolean
tps_message_builder_feed (TpsMessageBuilder *builder, GBytes *bytes, gboolean is_last,
                          GError **error)
{
  gsize n_left, n_consumed;
  const guint8 *next = g_bytes_get_data (bytes, &n_left);

  for (; n_left > 0; next += n_consumed, n_left -= n_consumed)
    {
      if (builder->message != NULL)
        return refuse (error, "bytes follow the end of the message");
      if (!tps_scanner_feed (builder->scanner, next, n_left, &n_consumed, error))
        return FALSE;
      builder->message = tps_scanner_take (builder->scanner);
    }
  if (is_last && builder->message == NULL)
    return refuse (error, "the message is incomplete after the last chunk");
  return TRUE;
}
