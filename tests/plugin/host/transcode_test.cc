/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the conversion of messages through the library's own protocols and back, with random and
 * with bad messages. */

#include <gtest/gtest.h>

#include <thrift/c_glib/protocol/thrift_binary_protocol.h>
#include <thrift/c_glib/protocol/thrift_compact_protocol.h>
#include <thrift/c_glib/transport/thrift_memory_buffer.h>

#include <random>
#include <string>

#include "plugin/host/library.h"
#include "plugin/host/transcode.h"
#include "runtime/base/error.h"
#include "tests/integration/host/wire_value.h"

using wire::Protocol;
using wire::Value;

namespace {

class Library
{
public:
  Library (Protocol protocol, const std::string &bytes) : bytes_ (g_byte_array_new ())
  {
    tps_repair_library (); /* otherwise the library's buffers leak */
    g_byte_array_append (bytes_, reinterpret_cast<const guint8 *> (bytes.data ()),
                         static_cast<guint> (bytes.size ()));
    GType type = protocol == Protocol::Binary ? THRIFT_TYPE_BINARY_PROTOCOL
                                              : THRIFT_TYPE_COMPACT_PROTOCOL;
    buffer_ = g_object_new (THRIFT_TYPE_MEMORY_BUFFER, "buf", bytes_, "owner", FALSE, nullptr);
    protocol_ = g_object_new (type, "transport", buffer_, nullptr);
  }

  ~Library ()
  {
    g_object_unref (protocol_);
    g_object_unref (buffer_);
    g_byte_array_unref (bytes_);
  }

  ThriftProtocol *
  protocol ()
  {
    return THRIFT_PROTOCOL (protocol_);
  }

  std::string
  bytes () const
  {
    return std::string (reinterpret_cast<const char *> (bytes_->data), bytes_->len);
  }

private:
  GByteArray *bytes_;
  gpointer buffer_;
  gpointer protocol_;
};

Value
random_value (std::mt19937 &random, wire::Type type, int depth)
{
  auto small = [&random] { return random () % 4; };
  switch (type)
    {
    case wire::Bool:
      return wire::boolean (random () % 2);
    case wire::Byte:
      return wire::byte (static_cast<int8_t> (random ()));
    case wire::I16:
      return wire::i16 (static_cast<int16_t> (random ()));
    case wire::I32:
      return wire::i32 (static_cast<int32_t> (random ()));
    case wire::I64:
      return wire::i64 (static_cast<int64_t> (random ()) << (random () % 32));
    case wire::Double:
      return wire::real (static_cast<double> (random ()) / 7);
    case wire::String:
      /* Some bodies are large enough for their own buffer. */
      return wire::text (
          std::string (random () % 8 == 0 ? 4096 + random () % 5000 : random () % 50, 'a'));
    default:
      break;
    }
  static const wire::Type types[] = { wire::Bool, wire::Byte,   wire::I16,    wire::I32,
                                      wire::I64,  wire::Double, wire::String, wire::Struct,
                                      wire::List, wire::Set,    wire::Map };
  size_t n_types = depth > 0 ? 11 : 7;
  if (type == wire::Struct)
    {
      Value result = wire::structure ({});
      int16_t id = 0;
      for (size_t i = small (); i > 0; i--)
        {
          id = static_cast<int16_t> (id + 1 + random () % 30);
          result.fields.emplace_back (id,
                                      random_value (random, types[random () % n_types], depth - 1));
        }
      return result;
    }
  wire::Type key = types[random () % 7];
  wire::Type element = types[random () % n_types];
  std::vector<Value> items;
  for (size_t i = 1 + small (); i > 0; i--)
    {
      if (type == wire::Map)
        items.push_back (random_value (random, key, 0));
      items.push_back (random_value (random, element, depth - 1));
    }
  if (type == wire::Map)
    return wire::map (key, element, items);
  return type == wire::Set ? wire::set (element, items) : wire::list (element, items);
}

/* Returns a message in the binary protocol, in canonical form, with its bodies inserted. */
std::string
flatten (const TpsMessage *message)
{
  std::string result;
  guint position = 0;
  for (guint i = 0; i < message->n_bodies; i++)
    {
      const TpsBody *body = &message->bodies[i];
      result.append (reinterpret_cast<const char *> (message->head->data) + position,
                     body->head_offset - position);
      result.append (reinterpret_cast<const char *> (tps_buffer_get_data (body->buffer)),
                     body->n_bytes);
      position = static_cast<guint> (body->head_offset);
    }
  result.append (reinterpret_cast<const char *> (message->head->data) + position,
                 message->head->len - position);
  return result;
}

TpsScannerOptions
limits ()
{
  TpsScannerOptions options = {};
  options.max_message_bytes = 1 << 24;
  return options;
}

class Transcode : public testing::TestWithParam<Protocol>
{
protected:
  /* Returns the error message of reading `bytes` as a call, or "". */
  std::string
  error_of (const std::string &bytes, TpsScannerOptions options = limits ())
  {
    Library library (GetParam (), bytes);
    g_autoptr (GError) error = nullptr;
    g_autoptr (TpsMessage) message = tps_transcode_read (library.protocol (), &options, &error);
    EXPECT_EQ (message == nullptr, error != nullptr);
    return error != nullptr ? error->message : "";
  }

  std::string
  call (Value body)
  {
    return wire::encode (GetParam (), { "m", wire::Call, 1, std::move (body) });
  }
};

INSTANTIATE_TEST_SUITE_P (Protocols, Transcode,
                          testing::Values (Protocol::Binary, Protocol::Compact),
                          [] (const auto &protocol) {
                            return protocol.param == Protocol::Binary ? "Binary" : "Compact";
                          });

TEST_P (Transcode, ReadsAndWritesRandomMessagesAsTheyAre)
{
  std::mt19937 random (99);
  TpsScannerOptions options = limits ();
  for (int i = 0; i < 2000; i++)
    {
      wire::Message sent = { "method", wire::Reply, static_cast<int32_t> (random () & 0x7fffffff),
                             random_value (random, wire::Struct, 4) };
      Library in (GetParam (), wire::encode (GetParam (), sent));
      g_autoptr (GError) error = nullptr;
      g_autoptr (TpsMessage) message = tps_transcode_read (in.protocol (), &options, &error);
      ASSERT_NE (message, nullptr) << error->message;
      EXPECT_STREQ (message->name, "method");
      EXPECT_EQ (message->seqid, sent.seqid);
      EXPECT_EQ (static_cast<int> (message->kind), static_cast<int> (sent.kind));
      ASSERT_EQ (flatten (message), wire::encode_value (Protocol::Binary, sent.body));
    }
}

TEST_P (Transcode, WritesRepliesAsTheyAre)
{
  Library out (GetParam (), "");
  g_autoptr (TpsWriter) reply = tps_writer_new (TPS_PROTOCOL_BINARY, FALSE);
  g_autoptr (GError) error = nullptr;
  std::string large (10000, 'x');
  Value expected = wire::structure (
      { { 0, wire::list (wire::String, { wire::text ("a"), wire::text (large) }) },
        { 1, wire::map (wire::I32, wire::Bool, { wire::i32 (5), wire::boolean (true) }) },
        { 2, wire::set (wire::Double, { wire::real (1.5) }) },
        { 3, wire::structure ({ { 1, wire::boolean (false) },
                                { 2, wire::i16 (-3) },
                                { 4, wire::i64 (1LL << 40) } }) } });

  tps_writer_message_begin (reply, "method", TPS_MESSAGE_REPLY, 12);
  tps_writer_struct_begin (reply);
  tps_writer_field (reply, 0, TPS_WIRE_LIST);
  tps_writer_list_begin (reply, TPS_WIRE_BINARY, 2);
  tps_writer_string (reply, "a");
  tps_writer_binary_borrowed (reply, large.data (), large.size ());
  tps_writer_field (reply, 1, TPS_WIRE_MAP);
  tps_writer_map_begin (reply, TPS_WIRE_I32, TPS_WIRE_BOOL, 1);
  tps_writer_i32 (reply, 5);
  tps_writer_bool (reply, TRUE);
  tps_writer_field (reply, 2, TPS_WIRE_SET);
  tps_writer_set_begin (reply, TPS_WIRE_DOUBLE, 1);
  tps_writer_double (reply, 1.5);
  tps_writer_field (reply, 3, TPS_WIRE_STRUCT);
  tps_writer_struct_begin (reply);
  tps_writer_field (reply, 1, TPS_WIRE_BOOL);
  tps_writer_bool (reply, FALSE);
  tps_writer_field (reply, 2, TPS_WIRE_I16);
  tps_writer_i16 (reply, -3);
  tps_writer_field (reply, 4, TPS_WIRE_I64);
  tps_writer_i64 (reply, 1LL << 40);
  tps_writer_struct_end (reply);
  tps_writer_struct_end (reply);
  ASSERT_TRUE (tps_writer_message_end (reply, &error));

  ASSERT_TRUE (tps_transcode_write (reply, out.protocol (), &error)) << error->message;
  EXPECT_EQ (out.bytes (), wire::encode (GetParam (), { "method", wire::Reply, 12, expected }));
}

TEST_P (Transcode, RefusesMoreBytesThanAllowed)
{
  TpsScannerOptions options = limits ();
  options.max_message_bytes = 10000;
  EXPECT_EQ (
      error_of (call (wire::structure ({ { 1, wire::text (std::string (9000, 'x')) } })), options),
      "");
  EXPECT_NE (
      error_of (call (wire::structure ({ { 1, wire::text (std::string (11000, 'x')) } })), options),
      "");
}

TEST_P (Transcode, BodiesThatThePoolRefusesAreDroppedNotTheMessage)
{
  g_autoptr (TpsBudget) budget = tps_budget_new (nullptr, "bodies", 4000);
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new (budget, nullptr, 0);
  TpsScannerOptions options = limits ();
  options.bodies = pool;
  Library in (GetParam (), call (wire::structure ({ { 1, wire::text (std::string (5000, 'x')) },
                                                    { 2, wire::i32 (7) } })));
  g_autoptr (GError) error = nullptr;
  g_autoptr (TpsMessage) message = tps_transcode_read (in.protocol (), &options, &error);
  ASSERT_NE (message, nullptr) << error->message;
  EXPECT_EQ (message->n_bytes_refused, 5000u);
}

} // namespace
