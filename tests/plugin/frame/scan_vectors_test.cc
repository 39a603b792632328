/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Messages written by Apache Thrift's Python library (make_vectors.py) must decode to the same
 * values here, and the writer must produce the same bytes. */

#include "plugin/frame/scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "tests/plugin/frame/golden_vectors.h"
#include "tests/plugin/frame/random_value.h"
#include "tests/plugin/frame/wire_bytes.h"

namespace thriftps {
namespace {

struct Message
{
  TpsMessageKind kind;
  std::string name;
  gint32 seqid;
  Value arguments;
};

Value
number (TpsWireType type, gint64 content)
{
  Value value;

  value.type = type;
  value.number = content;
  return value;
}

Value
floating (gdouble content)
{
  Value value = number (TPS_WIRE_DOUBLE, 0);

  memcpy (&value.number, &content, sizeof content);
  return value;
}

Value
text (const std::string &content)
{
  Value value = number (TPS_WIRE_BINARY, 0);

  value.bytes = content;
  return value;
}

Value
container (TpsWireType type, TpsWireType key, TpsWireType elem, std::vector<Value> values)
{
  Value value = number (type, 0);

  value.types[0] = key;
  value.types[1] = elem;
  value.values = std::move (values);
  return value;
}

Value
list (TpsWireType elem, std::vector<Value> values)
{
  return container (TPS_WIRE_LIST, elem, elem, std::move (values));
}

Value
numbers (TpsWireType kind, TpsWireType elem, std::vector<gint64> contents)
{
  Value value = container (kind, elem, elem, {});

  for (gint64 content : contents)
    value.values.push_back (number (elem, content));
  return value;
}

Value
fields (std::vector<std::pair<gint, Value>> contents)
{
  Value value = number (TPS_WIRE_STRUCT, 0);

  for (auto &field : contents)
    {
      value.ids.push_back (static_cast<gint16> (field.first));
      value.values.push_back (std::move (field.second));
    }
  return value;
}

const auto BOOL = TPS_WIRE_BOOL;
const auto BYTE = TPS_WIRE_BYTE;
const auto I16 = TPS_WIRE_I16;
const auto I32 = TPS_WIRE_I32;
const auto I64 = TPS_WIRE_I64;
const auto DOUBLE = TPS_WIRE_DOUBLE;
const auto STRING = TPS_WIRE_BINARY;
const auto STRUCT = TPS_WIRE_STRUCT;
const auto LIST = TPS_WIRE_LIST;
const auto SET = TPS_WIRE_SET;
const auto MAP = TPS_WIRE_MAP;

Message
primitives ()
{
  return { TPS_MESSAGE_CALL, "Service:method", 7,
           fields ({ { 1, number (BOOL, 1) },
                     { 2, number (BOOL, 0) },
                     { 3, number (BYTE, -5) },
                     { 4, number (I16, -300) },
                     { 5, number (I32, 100000) },
                     { 6, number (I64, -(G_GINT64_CONSTANT (1) << 40)) },
                     { 7, floating (1.25) },
                     { 8, text ("h\xc3\xa9llo") },
                     { 9, text ("") },
                     { 40, number (I32, 1) },
                     { 3000, number (BOOL, 1) },
                     { 3001, fields ({}) } }) };
}

Message
extremes ()
{
  return { TPS_MESSAGE_ONEWAY, "m", G_MAXINT32,
           fields ({ { 1, number (BYTE, -128) },
                     { 2, number (BYTE, 127) },
                     { 3, number (I16, G_MININT16) },
                     { 4, number (I16, G_MAXINT16) },
                     { 5, number (I32, G_MININT32) },
                     { 6, number (I32, G_MAXINT32) },
                     { 7, number (I64, G_MININT64) },
                     { 8, number (I64, G_MAXINT64) },
                     { 9, floating (-INFINITY) },
                     { 32767, floating (std::numeric_limits<double>::denorm_min ()) } }) };
}

Message
containers ()
{
  std::vector<gint64> twenty;

  for (gint64 i = 0; i < 20; i++)
    twenty.push_back (i);
  return { TPS_MESSAGE_CALL, "m", 0,
           fields ({ { 1, numbers (LIST, BOOL, { 1, 0, 1 }) },
                     { 2, numbers (LIST, BYTE, { 1, -1, 0 }) },
                     { 3, numbers (SET, I32, { 5, -6 }) },
                     { 4, container (MAP, STRING, DOUBLE,
                                     { text ("a"), floating (0.5), text ("b"), floating (-2) }) },
                     { 5, container (MAP, I32, STRUCT, {}) },
                     { 6, numbers (LIST, I64, twenty) },
                     { 7, list (LIST, { numbers (LIST, I32, { 1, 2 }), numbers (LIST, I32, {}),
                                        numbers (LIST, I32, { 3 }) }) },
                     { 8, container (MAP, I16, STRUCT,
                                     { number (I16, 1), fields ({ { 1, number (BOOL, 0) } }),
                                       number (I16, 2), fields ({}) }) },
                     { 9, list (STRUCT, {}) },
                     { 10, list (STRING, { text ("x"), text (""), text ("yz") }) },
                     { 11, container (MAP, BYTE, BOOL,
                                      { number (BYTE, 1), number (BOOL, 1), number (BYTE, 2),
                                        number (BOOL, 0) }) },
                     { 12, container (SET, DOUBLE, DOUBLE, { floating (1) }) } }) };
}

Message
reply ()
{
  return { TPS_MESSAGE_REPLY, "method", -1,
           fields ({ { 0, fields ({ { 1, numbers (LIST, I64, { 2, 2 }) },
                                    { 3, text ("\x01\x02\x03") } }) } }) };
}

Message
exception ()
{
  return { TPS_MESSAGE_EXCEPTION, "method", 3,
           fields ({ { 1, text ("unknown method") }, { 2, number (I32, 1) } }) };
}

Message
deep ()
{
  Value inner = fields ({ { 16, fields ({ { 17, number (I32, 1) } }) }, { 17, number (BOOL, 1) } });

  return { TPS_MESSAGE_CALL, "m", 1,
           fields ({ { 1, fields ({ { 1, inner }, { 2, number (I32, 2) } }) },
                     { 20, number (I32, 3) } }) };
}

Bytes
from_hex (const char *hex)
{
  Bytes bytes;

  for (; hex[0] != '\0'; hex += 2)
    bytes += static_cast<char> (g_ascii_xdigit_value (hex[0]) << 4 | g_ascii_xdigit_value (hex[1]));
  return bytes;
}

class ScanVectors : public testing::TestWithParam<GoldenVector>
{
protected:
  const std::map<std::string, Message> messages = {
    { "primitives", primitives () }, { "extremes", extremes () },   { "containers", containers () },
    { "reply", reply () },           { "exception", exception () }, { "deep", deep () }
  };
  const Message &expected = messages.at (GetParam ().name);
  const Bytes bytes = from_hex (GetParam ().hex);
};

TEST_P (ScanVectors, hasTheExpectedValues)
{
  Scan scan = scan_bytes (bytes);
  TpsReader in;

  ASSERT_EQ (scan.error, "");
  ASSERT_EQ (scan.messages.size (), 1u);
  const TpsMessage *message = scan.messages[0];
  EXPECT_EQ (message->kind, expected.kind);
  EXPECT_EQ (message->name, expected.name);
  EXPECT_EQ (message->seqid, expected.seqid);
  EXPECT_EQ (message->protocol == TPS_PROTOCOL_BINARY ? "binary" : "compact",
             std::string (GetParam ().protocol));
  EXPECT_EQ (message->framed != FALSE, GetParam ().framed);
  EXPECT_EQ (scan.framed != 0, GetParam ().framed);
  tps_reader_init (&in, message);
  EXPECT_TRUE (read_value (&in, TPS_WIRE_STRUCT) == expected.arguments);
}

TEST_P (ScanVectors, equalsTheBytesOfOurWriter)
{
  bool binary = std::string (GetParam ().protocol) == "binary";
  g_autoptr (TpsWriter) out = tps_writer_new (binary ? TPS_PROTOCOL_BINARY : TPS_PROTOCOL_COMPACT,
                                              GetParam ().framed);

  tps_writer_message_begin (out, expected.name.c_str (), expected.kind, expected.seqid);
  write_value (out, expected.arguments);
  ASSERT_TRUE (tps_writer_message_end (out, nullptr));
  EXPECT_EQ (join_pieces (out), bytes);
}

std::string
vector_name (const testing::TestParamInfo<GoldenVector> &info)
{
  return std::string (info.param.name) + "_" + info.param.protocol
         + (info.param.framed ? "_framed" : "_unframed");
}

INSTANTIATE_TEST_SUITE_P (Python, ScanVectors, testing::ValuesIn (golden_vectors), vector_name);

} // namespace
} // namespace thriftps
