/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests THeader frames: their pairs with any division of the bytes, and headers that are
 * refused. */

#include "plugin/frame/scan.h"

#include "tests/plugin/frame/hostile_bytes.h"

namespace thriftps {
namespace {

const guint BINARY = 0;
const guint COMPACT = 2;

Bytes
text (const Bytes &bytes)
{
  return varint (bytes.size ()) + bytes;
}

Bytes
pair (const Bytes &key, const Bytes &value)
{
  return text (key) + text (value);
}

/* Returns a block with `n` pairs. */
Bytes
block (guint n, const Bytes &pairs)
{
  return varint (1) + varint (n) + pairs;
}

Bytes
raw_header (const Bytes &info, guint n_words, guint magic = 0x0fff)
{
  return be (magic, 2) + be (0, 2) + be (77, 4) + be (n_words, 2) + info;
}

/* Returns the header of a frame, padded and without transforms. */
Bytes
theader (guint protocol, const Bytes &blocks)
{
  Bytes info = varint (protocol) + varint (0) + blocks;

  info.resize ((info.size () + 3) / 4 * 4);
  return raw_header (info, static_cast<guint> (info.size () / 4));
}

const Bytes TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const Bytes PAIRS = block (2, pair ("traceparent", TRACE) + pair ("empty", ""));

/* Returns a call with a number and a body. */
Bytes
binary_call ()
{
  return header () + field (TPS_WIRE_I32, 1) + be (5, 4) + field (TPS_WIRE_BINARY, 2)
         + be (TPS_MESSAGE_BODY_THRESHOLD, 4) + Bytes (TPS_MESSAGE_BODY_THRESHOLD, 'x') + STOP;
}

Bytes
compact_call ()
{
  return compact_header () + compact_field (C_BINARY) + varint (TPS_MESSAGE_BODY_THRESHOLD)
         + Bytes (TPS_MESSAGE_BODY_THRESHOLD, 'x') + STOP;
}

std::string
get (const TpsMessage *message, const char *name)
{
  const gchar *value = tps_message_get_header (message, name);

  return value != nullptr ? value : "(none)";
}

void
expect_call (const Scan &scan, TpsProtocolKind protocol)
{
  ASSERT_EQ (scan.error, "");
  ASSERT_EQ (scan.messages.size (), 1u);
  const TpsMessage *message = scan.messages[0];
  EXPECT_TRUE (message->has_header);
  EXPECT_TRUE (message->framed);
  EXPECT_EQ (message->protocol, protocol);
  EXPECT_EQ (message->header_seqid, 77);
  EXPECT_EQ (message->seqid, 1);
  EXPECT_STREQ (message->name, "m");
  EXPECT_EQ (message->n_bodies, 1u);
  EXPECT_EQ (get (message, "traceparent"), TRACE);
  EXPECT_EQ (get (message, "empty"), "");
  EXPECT_EQ (get (message, "Traceparent"), "(none)");
  EXPECT_EQ (get (message, ""), "(none)");
}

TEST (ScanHeader, aMessageIsTheSameWhereverItsBytesAreCut)
{
  const struct
  {
    Bytes bytes;
    TpsProtocolKind protocol;
  } calls[] = { { frame (theader (BINARY, PAIRS) + binary_call ()), TPS_PROTOCOL_BINARY },
                { frame (theader (COMPACT, PAIRS) + compact_call ()), TPS_PROTOCOL_COMPACT } };

  for (const auto &call : calls)
    {
      std::string whole = describe (scan_bytes (call.bytes).messages.at (0), true);

      expect_call (scan_bytes (call.bytes), call.protocol);
      for (gsize n_first = 1; n_first < 250; n_first++)
        for (bool use_get_body : { false, true })
          {
            ScanOptions options;
            gsize next = n_first;

            options.chunk_size = [&next] { return std::exchange (next, gsize { 1 } << 20); };
            options.use_get_body = [use_get_body] { return use_get_body; };
            Scan scan = scan_bytes (call.bytes, options);
            expect_call (scan, call.protocol);
            EXPECT_EQ (describe (scan.messages.at (0), true), whole);
          }
      for (gsize n_chunk = 1; n_chunk < 40; n_chunk++)
        {
          ScanOptions options;

          options.chunk_size = [n_chunk] { return n_chunk; };
          expect_call (scan_bytes (call.bytes, options), call.protocol);
        }
    }
}

TEST (ScanHeader, severalBlocksAndUnknownOnes)
{
  Bytes blocks = block (1, pair ("a", "1")) + block (1, pair ("b", "2")) + varint (9) + "whatever";
  Scan scan = scan_bytes (frame (theader (BINARY, blocks) + header () + STOP));

  ASSERT_EQ (scan.error, "");
  EXPECT_EQ (get (scan.messages.at (0), "a"), "1");
  EXPECT_EQ (get (scan.messages.at (0), "b"), "2");
}

TEST (ScanHeader, asManyAndAsLongPairsAsAreAllowed)
{
  Bytes pairs;

  for (int i = 0; i < TPS_MESSAGE_MAX_HEADERS; i++)
    pairs += pair ("key" + std::to_string (i), std::string (200, static_cast<char> ('a' + i % 26)));
  Scan scan = scan_bytes (
      frame (theader (BINARY, block (TPS_MESSAGE_MAX_HEADERS, pairs)) + header () + STOP));
  ASSERT_EQ (scan.error, "");
  EXPECT_EQ (get (scan.messages.at (0), "key63"), std::string (200, 'l'));
  expect_accepted (
      frame (theader (BINARY, block (1, pair ("k", Bytes (TPS_MESSAGE_MAX_HEADER_BYTES - 9, 'v'))))
             + header () + STOP));
}

TEST (ScanHeader, headersOfAWriterAreRead)
{
  const Bytes body (5000, 'x');

  for (TpsProtocolKind protocol : { TPS_PROTOCOL_BINARY, TPS_PROTOCOL_COMPACT })
    for (gsize n_value = 0; n_value < 9; n_value++)
      {
        g_autoptr (TpsWriter) out = tps_writer_new (protocol, TRUE);

        tps_writer_set_header (out, -5);
        tps_writer_add_header (out, "traceparent", TRACE.c_str ());
        tps_writer_add_header (out, "value", std::string (n_value, 'v').c_str ());
        tps_writer_message_begin (out, "m", TPS_MESSAGE_REPLY, 3);
        tps_writer_struct_begin (out);
        tps_writer_field (out, 1, TPS_WIRE_BINARY);
        tps_writer_binary_borrowed (out, body.data (), body.size ());
        tps_writer_struct_end (out);
        ASSERT_TRUE (tps_writer_message_end (out, nullptr));
        Scan scan = scan_bytes (join_pieces (out));
        ASSERT_EQ (scan.error, "");
        const TpsMessage *message = scan.messages.at (0);
        EXPECT_EQ (message->header_seqid, -5);
        EXPECT_EQ (message->protocol, protocol);
        EXPECT_EQ (get (message, "traceparent"), TRACE);
        EXPECT_EQ (get (message, "value"), std::string (n_value, 'v'));
        EXPECT_EQ (message->n_bodies, 1u);

        ASSERT_TRUE (tps_writer_message_end_transferred (out, nullptr));
        ScanOptions transferred;
        transferred.transferred = true;
        Scan again = scan_bytes (join_pieces (out), transferred);
        EXPECT_EQ (again.error, "");
        EXPECT_FALSE (again.messages.at (0)->has_header);
      }
}

TEST (ScanHeader, aCopyOfItsFormHasThePairsToo)
{
  Scan scan = scan_bytes (frame (theader (BINARY, PAIRS) + binary_call ()));
  g_autoptr (TpsMessage) copy = tps_message_new_like (scan.messages.at (0));

  EXPECT_EQ (get (copy, "traceparent"), TRACE);
  EXPECT_EQ (copy->header_seqid, 77);
  EXPECT_TRUE (copy->has_header);
  EXPECT_EQ (copy->n_bodies, 0u);
}

TEST (ScanHeader, aMessageThatFindsNoMemoryIsReadToItsEnd)
{
  g_autoptr (TpsBudget) budget = tps_budget_new (nullptr, "bodies", TPS_MESSAGE_BYTES + 600);
  TpsBufferPool *pool = tps_buffer_pool_new (budget, nullptr, 0);
  Bytes large = frame (theader (BINARY, block (1, pair ("k", Bytes (1000, 'v')))) + header ()
                       + STOP);

  for (gsize n_chunk : { 1, 3, 5000 })
    {
      ScanOptions options;

      options.pool = pool;
      options.chunk_size = [n_chunk] { return n_chunk; };
      Scan scan = scan_bytes (large + frame (header () + STOP), options);
      ASSERT_EQ (scan.error, "");
      ASSERT_EQ (scan.messages.size (), 2u);
      EXPECT_GT (scan.messages[0]->n_bytes_refused, 0u);
      EXPECT_STREQ (scan.messages[0]->name, "m");
      EXPECT_EQ (get (scan.messages[0], "k"), "(none)");
    }
  EXPECT_EQ (tps_budget_get_free (budget), tps_budget_get_max (budget));
  tps_buffer_pool_unref (pool);
}

/* Unframed messages and messages in chunks have no frame, so they have no header. */
TEST (ScanHeader, onlyAFrameHasOne)
{
  ScanOptions transferred;

  transferred.transferred = true;
  EXPECT_EQ (scan_bytes (theader (BINARY, PAIRS) + binary_call (), transferred).code,
             TPS_ERROR_PROTOCOL);
  EXPECT_NE (scan_bytes (theader (BINARY, PAIRS) + binary_call ()).error, "");
}

} // namespace
} // namespace thriftps
