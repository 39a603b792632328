/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests messages in chunks: a binary of length -1, with any division of the bytes, and the refusal
 * of such a length elsewhere. */

#include <gtest/gtest.h>

#include "plugin/frame/message.h"
#include "runtime/base/error.h"
#include "tests/plugin/frame/wire_bytes.h"

namespace thriftps {
namespace {

Bytes
long_length (gint64 n_bytes)
{
  Bytes bytes ("\xff\xff\xff\xff", 4);

  for (int shift = 56; shift >= 0; shift -= 8)
    bytes.push_back (static_cast<char> (static_cast<guint64> (n_bytes) >> shift));
  return bytes;
}

/* Returns a call of "m" whose fields 1 and 2 are binaries. `length` holds the bytes of the length
 * of the first. */
Bytes
call (const Bytes &length, const Bytes &first)
{
  Bytes bytes ("\x80\x01\x00\x01\x00\x00\x00\x01m\x00\x00\x00\x07\x0b\x00\x01", 16);

  return bytes + length + first + Bytes ("\x0b\x00\x02\x00\x00\x00\x02ok\x00", 10);
}

Scan
scan_transferred (const Bytes &bytes, gsize chunk_bytes)
{
  ScanOptions options;

  options.transferred = true;
  options.max_message_bytes = bytes.size ();
  options.chunk_size = [chunk_bytes] { return chunk_bytes; };
  return scan_bytes (bytes, options);
}

void
expect_call (const Scan &scan, const Bytes &first)
{
  TpsWireType type;
  TpsReader in;
  gint16 id;

  ASSERT_EQ (scan.error, "");
  ASSERT_EQ (scan.messages.size (), 1u);
  EXPECT_TRUE (scan.messages[0]->transferred);
  tps_reader_init (&in, scan.messages[0]);
  ASSERT_TRUE (tps_reader_field (&in, &id, &type));
  TpsBytesView view = tps_reader_binary (&in);
  EXPECT_EQ (Bytes (reinterpret_cast<const char *> (view.data), view.n_bytes), first);
  ASSERT_TRUE (tps_reader_field (&in, &id, &type));
  view = tps_reader_binary (&in);
  EXPECT_EQ (Bytes (reinterpret_cast<const char *> (view.data), view.n_bytes), "ok");
  EXPECT_FALSE (tps_reader_field (&in, &id, &type));
  EXPECT_FALSE (in.bad);
}

TEST (ScanTransferred, aLongLengthIsReadWhereverTheChunksAreCut)
{
  for (gsize n_bytes : { 0, 5, TPS_MESSAGE_BODY_THRESHOLD, 70000 })
    {
      Bytes first (n_bytes, 'x');
      Bytes bytes = call (long_length (static_cast<gint64> (n_bytes)), first);

      for (gsize chunk_bytes = 1; chunk_bytes < 40; chunk_bytes++)
        expect_call (scan_transferred (bytes, chunk_bytes), first);
      expect_call (scan_transferred (bytes, bytes.size ()), first);
    }
}

TEST (ScanTransferred, usualLengthsStay)
{
  Bytes bytes = call (Bytes ("\0\0\0\3", 4), "abc");

  expect_call (scan_transferred (bytes, bytes.size ()), "abc");
}

TEST (ScanTransferred, lengthsBeyondTheAnnouncedBytesAreRefused)
{
  for (gint64 n_bytes : { G_GINT64_CONSTANT (40), G_MAXINT64, G_GINT64_CONSTANT (-1), G_MININT64 })
    {
      Scan scan = scan_transferred (call (long_length (n_bytes), "abc"), 1000);

      EXPECT_NE (scan.error, "") << n_bytes;
      EXPECT_TRUE (scan.messages.empty ());
    }
}

TEST (ScanTransferred, inAnyOtherMessageTheyAreNegative)
{
  Scan scan = scan_bytes (call (long_length (3), "abc"));

  EXPECT_EQ (scan.code, TPS_ERROR_PROTOCOL);
  EXPECT_NE (scan.error.find ("negative length"), Bytes::npos) << scan.error;
}

TEST (ScanTransferred, aFrameIsNoTransferredMessage)
{
  Bytes bytes = call (Bytes ("\0\0\0\3", 4), "abc");
  Scan scan = scan_transferred (Bytes ("\0\0\0\x2f", 4) + bytes, 1000);

  EXPECT_EQ (scan.code, TPS_ERROR_PROTOCOL);
}

} // namespace
} // namespace thriftps
