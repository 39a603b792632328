/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* For any message, the writer's bytes must be those of Apache Thrift's C++ library, and the
 * scanner's result must not depend on the division of the bytes into chunks. */

#include "plugin/frame/scan.h"

#include <gtest/gtest.h>

#include "tests/integration/host/wire_value.h"
#include "tests/plugin/frame/random_value.h"
#include "tests/plugin/frame/wire_bytes.h"

namespace thriftps {
namespace {

struct Wire
{
  TpsProtocolKind protocol;
  bool framed;
};

const Wire wires[] = {
  { TPS_PROTOCOL_BINARY, true },
  { TPS_PROTOCOL_BINARY, false },
  { TPS_PROTOCOL_COMPACT, true },
  { TPS_PROTOCOL_COMPACT, false },
};

Bytes
write_message (const Wire &wire, const Value &arguments, gint32 seqid,
               TpsMessageKind kind = TPS_MESSAGE_CALL)
{
  g_autoptr (TpsWriter) out = tps_writer_new (wire.protocol, wire.framed);
  g_autoptr (GError) error = nullptr;

  tps_writer_message_begin (out, "Service:méthode", kind, seqid);
  write_value (out, arguments);
  EXPECT_TRUE (tps_writer_message_end (out, &error));
  return join_pieces (out);
}

std::string
describe_all (const Scan &scan)
{
  std::string text;

  EXPECT_EQ (scan.error, "");
  EXPECT_TRUE (scan.idle);
  for (const TpsMessage *message : scan.messages)
    text += describe (message) + "\n";
  return text;
}

::wire::Value
to_library (const Value &value)
{
  ::wire::Value result;

  result.type = static_cast<::wire::Type> (value.type);
  result.number = value.number;
  memcpy (&result.real, &value.number, sizeof result.real);
  result.text = value.bytes;
  result.key_type = static_cast<::wire::Type> (value.types[0]);
  result.value_type = static_cast<::wire::Type> (value.types[value.type == TPS_WIRE_MAP]);
  for (gsize i = 0; i < value.values.size (); i++)
    if (value.type == TPS_WIRE_STRUCT)
      result.fields.emplace_back (value.ids[i], to_library (value.values[i]));
    else
      result.items.push_back (to_library (value.values[i]));
  return result;
}

TEST (ScanProperty, bytesAreThoseOfThriftsLibrary)
{
  for (guint seed = 0; seed < 1000; seed++)
    {
      Random random (seed);
      Value arguments = random_arguments (random);
      auto seqid = static_cast<gint32> (random ());
      int kind = 1 + static_cast<int> (seed) % 4;
      ::wire::Message message = { "Service:méthode", static_cast<::wire::Kind> (kind), seqid,
                                  to_library (arguments) };

      for (const Wire &wire : wires)
        {
          std::string expected = ::wire::encode (wire.protocol == TPS_PROTOCOL_BINARY
                                                     ? ::wire::Protocol::Binary
                                                     : ::wire::Protocol::Compact,
                                                 message);
          Bytes bytes = write_message (wire, arguments, seqid, static_cast<TpsMessageKind> (kind));

          ASSERT_TRUE (bytes == (wire.framed ? ::wire::frame (expected) : expected))
              << "seed " << seed;
          Scan scan = scan_bytes (bytes);
          ASSERT_EQ (scan.messages.size (), 1u) << scan.error;
          EXPECT_EQ (scan.messages[0]->kind, kind);
          EXPECT_EQ (scan.messages[0]->seqid, seqid);
        }
    }
}

TEST (ScanProperty, messagesAreReadAsTheyWereWritten)
{
  for (guint seed = 0; seed < 1000; seed++)
    {
      Random random (seed);
      Value arguments = random_arguments (random);

      for (const Wire &wire : wires)
        {
          Scan scan = scan_bytes (write_message (wire, arguments, -7));
          TpsReader in;

          ASSERT_EQ (scan.error, "") << "seed " << seed;
          ASSERT_EQ (scan.messages.size (), 1u) << "seed " << seed;
          EXPECT_EQ (scan.messages[0]->protocol, wire.protocol);
          EXPECT_EQ (scan.messages[0]->framed, wire.framed);
          EXPECT_STREQ (scan.messages[0]->name, "Service:méthode");
          EXPECT_EQ (scan.messages[0]->seqid, -7);
          tps_reader_init (&in, scan.messages[0]);
          ASSERT_TRUE (read_value (&in, TPS_WIRE_STRUCT) == arguments) << "seed " << seed;
          EXPECT_FALSE (in.bad);
          EXPECT_EQ (in.position, scan.messages[0]->head->len);
        }
    }
}

TEST (ScanProperty, canonicalFormDependsNeitherOnProtocolNorOnFramingNorOnChunks)
{
  for (guint seed = 0; seed < 500; seed++)
    {
      Random random (seed);
      std::vector<Value> arguments;
      std::string expected;

      for (guint i = 0; i < 3; i++)
        arguments.push_back (random_arguments (random));
      for (const Wire &wire : wires)
        for (guint max_chunk : { 0u, 1u, 7u, 300u, 9000u })
          {
            ScanOptions options;
            Bytes bytes;

            for (guint i = 0; i < arguments.size (); i++)
              bytes += write_message (wire, arguments[i], static_cast<gint32> (i));
            if (max_chunk > 0)
              options.chunk_size = [&] { return 1 + pick (random, max_chunk); };
            options.use_get_body = [&] { return pick (random, 2) == 0; };
            std::string text = describe_all (scan_bytes (bytes, options));
            if (expected.empty ())
              expected = text;
            ASSERT_EQ (text, expected) << "seed " << seed << " chunks of " << max_chunk;
          }
    }
}

TEST (ScanProperty, skippingAFieldEndsWhereReadingItEnds)
{
  for (guint seed = 0; seed < 1000; seed++)
    {
      Random random (seed);
      Value arguments = random_arguments (random);
      Scan scan = scan_bytes (write_message (wires[seed % 4], arguments, 0));
      TpsReader whole, fields;
      TpsWireType type;
      gint16 id;

      ASSERT_EQ (scan.messages.size (), 1u);
      tps_reader_init (&whole, scan.messages[0]);
      tps_reader_skip (&whole, TPS_WIRE_STRUCT);
      tps_reader_init (&fields, scan.messages[0]);
      while (tps_reader_field (&fields, &id, &type))
        tps_reader_skip (&fields, type);
      EXPECT_FALSE (whole.bad || fields.bad) << "seed " << seed;
      EXPECT_EQ (whole.position, scan.messages[0]->head->len);
      EXPECT_EQ (fields.position, scan.messages[0]->head->len);
      EXPECT_EQ (whole.next_body, scan.messages[0]->n_bodies);
    }
}

/* A message that is cut at any byte is neither complete nor an error, both unframed and framed. */
TEST (ScanProperty, aCutMessageWaits)
{
  for (guint seed = 0; seed < 200; seed++)
    {
      Random random (seed);
      Bytes bytes = write_message (wires[seed % 4], random_arguments (random), 1);
      Scan scan = scan_bytes (
          bytes.substr (0, 1 + pick (random, static_cast<guint> (bytes.size ()) - 1)));

      EXPECT_EQ (scan.error, "");
      EXPECT_TRUE (scan.messages.empty ());
      EXPECT_FALSE (scan.idle);
    }
}

/* A frame that ends before or after its message is refused, for any message. */
TEST (ScanProperty, aFrameOfAnotherLengthThanItsMessageIsRefused)
{
  for (guint seed = 0; seed < 2000; seed++)
    {
      Random random (seed);
      Wire wire = wires[seed % 2 * 2];
      Bytes message = write_message ({ wire.protocol, false }, random_arguments (random), 1);
      gsize length = seed % 3 == 0 ? message.size () + 1
                                   : 1 + pick (random, static_cast<guint> (message.size ()) - 1);
      Bytes frame = { static_cast<char> (length >> 24), static_cast<char> (length >> 16),
                      static_cast<char> (length >> 8), static_cast<char> (length) };
      Scan scan = scan_bytes (frame + message + "more bytes of the next frame");

      EXPECT_NE (scan.error, "") << "seed " << seed;
      EXPECT_TRUE (scan.messages.empty ());
    }
}

} // namespace
} // namespace thriftps
