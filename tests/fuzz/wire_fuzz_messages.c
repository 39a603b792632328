/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/fuzz/wire_fuzz.h"

#include <stdlib.h>

#include "plugin/frame/scan.h"
#include "runtime/base/error.h"

/* A slice in shared memory takes few bytes, but every tensor of a message may name it. When the
 * message is sent again, its tensors are inline, so it may be much larger. */
#define MAX_MESSAGE_BYTES ((gsize) 1 << 30)

void
tps_fuzz_check (gboolean claim)
{
  if (!claim)
    abort ();
}

gboolean
tps_fuzz_judge (gboolean ok, GError *error)
{
  tps_fuzz_check (ok == (error == NULL));
  if (error != NULL)
    {
      tps_fuzz_check (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
      tps_fuzz_check (g_utf8_validate (error->message, -1, NULL));
      g_error_free (error);
    }
  return ok;
}

TpsMessage *
tps_fuzz_scan (const guint8 *bytes, gsize n_bytes)
{
  TpsScannerOptions options = { .max_message_bytes = MAX_MESSAGE_BYTES };
  g_autoptr (TpsScanner) scanner = tps_scanner_new (&options);
  gsize n_consumed = 0;

  for (gsize n_done = 0; n_done < n_bytes; n_done += n_consumed)
    if (!tps_scanner_feed (scanner, bytes + n_done, n_bytes - n_done, &n_consumed, NULL)
        || n_consumed == 0)
      break;
  return tps_scanner_take (scanner);
}

TpsMessage *
tps_fuzz_send (const TpsRpc *rpc, gconstpointer arguments, TpsProtocolKind protocol)
{
  g_autoptr (TpsWriter) out = tps_writer_new (protocol, FALSE);
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  const struct iovec *pieces;
  TpsMessage *message;
  guint n_pieces;
  gsize n_bytes;

  tps_writer_message_begin (out, "m", TPS_MESSAGE_CALL, 1);
  tps_writer_struct_begin (out);
  tps_rpc_write_arguments (rpc, out, arguments);
  tps_writer_struct_end (out);
  tps_fuzz_check (tps_writer_message_end (out, NULL));
  pieces = tps_writer_get_pieces (out, &n_pieces, &n_bytes);
  for (guint i = 0; i < n_pieces; i++)
    g_byte_array_append (bytes, pieces[i].iov_base, (guint) pieces[i].iov_len);
  message = tps_fuzz_scan (bytes->data, bytes->len);
  tps_fuzz_check (message != NULL);
  return message;
}

TpsWireType
tps_fuzz_begin_result (TpsReader *in, const TpsMessage *message)
{
  TpsWireType type;
  gint16 id;

  tps_reader_init (in, message);
  tps_reader_struct_begin (in);
  tps_reader_field (in, &id, &type);
  return type;
}
