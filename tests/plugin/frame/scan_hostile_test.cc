/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests all known kinds of hostile messages. Each is refused for its own reason, both whole and
 * byte by byte. For messages that claim too much memory see scan_limits_test. */

#include "plugin/frame/scan.h"

#include "tests/plugin/frame/hostile_bytes.h"

namespace thriftps {
namespace {

/* ---- the header ----------------------------------------------------------------------------- */

TEST (ScanHostile, aMessageWithoutVersion)
{
  expect_protocol_error (frame (be (4, 4) + "ping" + be (1, 1) + be (0, 4) + STOP),
                         "begins with 0x00");
  expect_protocol_error (frame ("hello"), "begins with 0x68");
}

TEST (ScanHostile, anUnknownVersion)
{
  expect_protocol_error (frame (be (0x80020001, 4)), "version 0x80020001");
  expect_protocol_error (frame (be (0x80010101, 4)), "version 0x80010101");
  expect_protocol_error (frame ("\x82\x22"), "the compact protocol has version 2, expected 1");
}

TEST (ScanHostile, anUnknownMessageType)
{
  expect_protocol_error (be (0x80010000, 4), "unknown message type 0");
  expect_protocol_error (be (0x80010005, 4), "unknown message type 5");
  expect_protocol_error (Bytes ("\x82\x01", 2), "unknown message type 0");
  expect_protocol_error ("\x82\xa1", "unknown message type 5");
}

TEST (ScanHostile, aMethodNameOfAnImpossibleLength)
{
  expect_bad_arguments (be (0x80010001, 4) + be (0xffffffff, 4), "a method name of -1 bytes");
  expect_bad_arguments (be (0x80010001, 4) + be (513, 4), "a method name of 513 bytes");
  expect_bad_arguments (be (0x80010001, 4) + be (0, 4), "a method name of 0 bytes");
  expect_bad_arguments (Bytes ("\x82\x21\x01", 3) + varint (0xffffffff),
                        "a method name of -1 bytes");
  expect_protocol_error (frame (be (0x80010001, 4) + be (20, 4) + "short"),
                         "the method name needs 20 bytes");
  expect_accepted (header (Bytes (512, 'x')) + STOP);
}

TEST (ScanHostile, aMethodNameThatIsNoText)
{
  expect_bad_arguments (header ("a\xff") + STOP, "not UTF-8 without NUL");
  expect_bad_arguments (header (Bytes ("a\0b", 3)) + STOP, "not UTF-8 without NUL");
  expect_bad_arguments (compact_header ("\xed\xa0\x80") + STOP, "not UTF-8 without NUL");
}

/* The scanner does not check whether names and types are known. */
TEST (ScanHostile, unknownNamesAndUnexpectedTypesAreAccepted)
{
  expect_accepted (header ("nobody:nothing") + STOP);
  expect_accepted (header ("ParameterServer") + STOP);
  expect_accepted (header ("average_gradient") + field (TPS_WIRE_DOUBLE, 1) + be (0, 8) + STOP);
}

/* ---- strings -------------------------------------------------------------------------------- */

TEST (ScanHostile, aNegativeStringLength)
{
  expect_bad_arguments (header () + field (TPS_WIRE_BINARY, 1) + be (0xffffffff, 4),
                        "the negative length -1");
  expect_bad_arguments (header () + field (TPS_WIRE_BINARY, 1) + be (0x80000000, 4),
                        "the negative length -2147483648");
  expect_bad_arguments (compact_header () + compact_field (C_BINARY) + varint (0xffffffff),
                        "the negative length -1");
}

TEST (ScanHostile, aStringThatClaims2GiB)
{
  for (const Bytes &message :
       { header () + field (TPS_WIRE_BINARY, 1) + be (0x7fffffff, 4),
         compact_header () + compact_field (C_BINARY) + varint (0x7fffffff) })
    {
      expect_protocol_error (frame (message),
                             "a string needs 2147483647 bytes, 0 are left in the frame");
      expect_refused (message, TPS_ERROR_RESOURCE_EXHAUSTED,
                      "a string needs 2147483647 bytes, the limit of 1048576");
    }
}

/* ---- lists, sets, maps ---------------------------------------------------------------------- */

TEST (ScanHostile, aListOfANegativeNumberOfElements)
{
  expect_bad_arguments (header () + field (TPS_WIRE_LIST, 1) + be (TPS_WIRE_I32, 1)
                            + be (0x80000000, 4),
                        "a list has the negative size -2147483648");
  expect_bad_arguments (header () + field (TPS_WIRE_SET, 1) + be (TPS_WIRE_BYTE, 1)
                            + be (0xffffffff, 4),
                        "a list has the negative size -1");
  expect_bad_arguments (compact_header () + compact_field (C_LIST) + be (0xf0 | C_I32, 1)
                            + varint (0x80000000),
                        "a list has the negative size");
  expect_bad_arguments (header () + field (TPS_WIRE_MAP, 1) + be (TPS_WIRE_I32, 1)
                            + be (TPS_WIRE_I32, 1) + be (0xfffffffe, 4),
                        "a map has the negative size -2");
  expect_bad_arguments (compact_header () + compact_field (C_MAP) + varint (0xffffffff)
                            + be (C_I32 << 4 | C_I32, 1),
                        "a map has the negative size -1");
}

TEST (ScanHostile, aListThatClaims2GiOfElements)
{
  expect_protocol_error (frame (header () + field (TPS_WIRE_LIST, 1) + be (TPS_WIRE_BOOL, 1)
                                + be (0x7fffffff, 4) + "x"),
                         "a list needs 2147483647 bytes, 1 are left in the frame");
  expect_protocol_error (
      frame (header () + field (TPS_WIRE_LIST, 1) + be (TPS_WIRE_MAP, 1) + be (0x7fffffff, 4)),
      "a list needs 12884901882 bytes");
  expect_protocol_error (frame (compact_header () + compact_field (C_LIST) + be (0xf0 | C_STRUCT, 1)
                                + varint (0x7fffffff)),
                         "a list needs 2147483647 bytes");
  expect_protocol_error (frame (compact_header () + compact_field (C_MAP) + varint (0x7fffffff)
                                + be (C_I32 << 4 | C_I32, 1)),
                         "a map needs 4294967294 bytes");
}

TEST (ScanHostile, aListOfOneElementMoreThanThereCanBe)
{
  Bytes start = header () + field (TPS_WIRE_LIST, 1) + be (TPS_WIRE_STRUCT, 1);

  expect_accepted (frame (start + be (3, 4) + repeat (STOP, 3) + STOP));
  expect_protocol_error (frame (start + be (5, 4) + repeat (STOP, 3) + STOP),
                         "a list needs 5 bytes, 4 are left");
}

TEST (ScanHostile, elementsOfUnknownTypes)
{
  expect_bad_arguments (header () + field (TPS_WIRE_LIST, 1) + be (99, 1) + be (1, 4) + "x",
                        "unknown type 99");
  expect_bad_arguments (header () + field (TPS_WIRE_LIST, 1) + be (0, 1) + be (1, 4) + "x",
                        "unknown type 0");
  expect_bad_arguments (header () + field (TPS_WIRE_SET, 1) + be (16, 1) + be (0, 4),
                        "unknown type 16");
  expect_bad_arguments (header () + field (TPS_WIRE_MAP, 1) + be (TPS_WIRE_I32, 1) + be (7, 1)
                            + be (1, 4) + "x",
                        "unknown type 7");
  expect_bad_arguments (header () + field (TPS_WIRE_MAP, 1) + be (1, 1) + be (TPS_WIRE_I32, 1)
                            + be (0, 4),
                        "unknown type 1");
  expect_bad_arguments (compact_header () + compact_field (C_LIST) + be (0x1d, 1) + "x",
                        "unknown type 13");
  expect_bad_arguments (compact_header () + compact_field (C_LIST) + be (0x10, 1) + "x",
                        "unknown type 0");
  expect_bad_arguments (compact_header () + compact_field (C_MAP) + varint (1) + be (0xe5, 1) + "x",
                        "unknown type 14");
}

TEST (ScanHostile, fieldsOfUnknownTypes)
{
  for (guint type : { 1, 5, 7, 9, 16, 99, 255 })
    expect_bad_arguments (header () + be (type, 1) + be (1, 2), "a field has the unknown type");
  for (guint type : { 13, 14, 15 })
    expect_bad_arguments (compact_header () + compact_field (type), "a field has the unknown type");
  expect_bad_arguments (compact_header () + compact_field (0, 3), "a field has the unknown type 0");
}

/* In the compact protocol an empty map is a single byte, without types. */
TEST (ScanHostile, emptyMapsHaveOneForm)
{
  Scan compact = scan_bytes (compact_header () + compact_field (C_MAP) + STOP + STOP);
  Scan binary = scan_bytes (header () + field (TPS_WIRE_MAP, 1) + be (TPS_WIRE_I32, 1)
                            + be (TPS_WIRE_LIST, 1) + be (0, 4) + STOP);

  ASSERT_EQ (compact.error + binary.error, "");
  EXPECT_EQ (describe (compact.messages.at (0)), describe (binary.messages.at (0)));
}

TEST (ScanHostile, aMebibyteOfUnknownBytesIsOnePiece)
{
  Bytes elements (1 << 20, 'x');
  ScanOptions options;

  options.max_message_bytes = 2 << 20;
  options.chunk_size = [] { return 4096; };
  Scan scan = scan_bytes (frame (header () + field (TPS_WIRE_LIST, 99) + be (TPS_WIRE_BYTE, 1)
                                 + be (elements.size (), 4) + elements + STOP),
                          options);
  ASSERT_EQ (scan.error, "");
  EXPECT_EQ (scan.messages.at (0)->head->len, 3 + 5 + elements.size () + 1);
}

/* ---- nesting -------------------------------------------------------------------------------- */

TEST (ScanHostile, nestingUpToTheLimitIsAllowed)
{
  guint n_inner = TPS_MESSAGE_MAX_DEPTH - 1; /* the arguments are also a struct */
  Bytes list = be (TPS_WIRE_LIST, 1) + be (1, 4);

  expect_accepted (header () + repeat (field (TPS_WIRE_STRUCT, 1), n_inner)
                   + repeat (STOP, n_inner + 1));
  expect_bad_arguments (header () + repeat (field (TPS_WIRE_STRUCT, 1), n_inner + 1)
                            + repeat (STOP, n_inner + 2),
                        "nested more than 32 deep");
  expect_accepted (header () + field (TPS_WIRE_LIST, 1) + repeat (list, n_inner - 1)
                   + be (TPS_WIRE_I32, 1) + be (0, 4) + STOP);
  expect_bad_arguments (header () + field (TPS_WIRE_LIST, 1) + repeat (list, n_inner)
                            + be (TPS_WIRE_I32, 1) + be (0, 4) + STOP,
                        "nested more than 32 deep");
}

TEST (ScanHostile, aHundredThousandNestedStructs)
{
  expect_bad_arguments (header () + repeat (field (TPS_WIRE_STRUCT, 1), 100000),
                        "nested more than 32 deep");
  expect_bad_arguments (compact_header () + repeat (compact_field (C_STRUCT), 100000),
                        "nested more than 32 deep");
}

TEST (ScanHostile, aMillionNestedLists)
{
  Bytes list = be (TPS_WIRE_LIST, 1) + be (1, 4);

  expect_bad_arguments (header () + field (TPS_WIRE_LIST, 1) + repeat (list, 200000),
                        "nested more than 32 deep");
  expect_bad_arguments (compact_header () + compact_field (C_LIST)
                            + repeat (be (0x10 | C_LIST, 1), 1000000),
                        "nested more than 32 deep");
  expect_bad_arguments (
      header () + field (TPS_WIRE_MAP, 1)
          + repeat (be (TPS_WIRE_MAP, 1) + be (TPS_WIRE_MAP, 1) + be (1, 4), 100000),
      "nested more than 32 deep");
}

/* ---- field ids ------------------------------------------------------------------------------ */

TEST (ScanHostile, aBinaryFieldTwice)
{
  Bytes data = field (TPS_WIRE_BINARY, 1) + be (3, 4) + "abc";

  expect_bad_arguments (header () + data + data + STOP, "field 1 occurs twice in one struct");
}

TEST (ScanHostile, aFieldTwiceWithOthersBetween)
{
  Bytes first = field (TPS_WIRE_BOOL, 200) + be (1, 1);

  expect_bad_arguments (header () + first + field (TPS_WIRE_BYTE, 7) + be (1, 1) + first + STOP,
                        "field 200 occurs twice");
  expect_bad_arguments (header () + first + field (TPS_WIRE_I32, 200) + be (1, 4) + STOP,
                        "field 200 occurs twice");
  expect_bad_arguments (compact_header () + compact_field (C_TRUE) + compact_field (C_TRUE, 2)
                            + compact_field (C_TRUE, 0) + varint (2) + STOP,
                        "field 1 occurs twice");
}

TEST (ScanHostile, aFieldTwiceBeyondAByteOrBelowZero)
{
  for (gint id : { -1, 256, 32767, -32768 })
    {
      Bytes value = field (TPS_WIRE_BYTE, id) + be (1, 1);

      expect_bad_arguments (header () + value + value + STOP,
                            "field " + std::to_string (id) + " occurs twice");
    }
}

TEST (ScanHostile, theSameFieldOfTwoStructsIsNotTwice)
{
  Bytes inner = field (TPS_WIRE_BYTE, 1) + be (1, 1) + STOP;

  expect_accepted (header () + field (TPS_WIRE_STRUCT, 1) + inner + field (TPS_WIRE_LIST, 2)
                   + be (TPS_WIRE_STRUCT, 1) + be (2, 4) + inner + inner + STOP);
}

TEST (ScanHostile, manyFieldIdsBeyondAByte)
{
  Bytes fields;

  for (gint id = 1000; id < 1016; id++)
    fields += field (TPS_WIRE_BYTE, id) + be (1, 1);
  expect_accepted (header () + fields + STOP);
  expect_bad_arguments (header () + fields + field (TPS_WIRE_BYTE, 2000) + be (1, 1) + STOP,
                        "more than 16 field ids outside [0, 255]");
}

TEST (ScanHostile, aFieldIdBeyond16Bits)
{
  Bytes last = compact_field (C_TRUE, 0) + varint (2 * 32767);

  expect_accepted (compact_header () + last + STOP);
  expect_bad_arguments (compact_header () + last + compact_field (C_TRUE, 1) + STOP,
                        "field id 32768 is outside 16 bits");
  expect_bad_arguments (compact_header () + compact_field (C_TRUE, 0) + varint (2 * 40000),
                        "field id 40000");
  expect_bad_arguments (compact_header () + compact_field (C_TRUE, 0) + varint (0xffffffff),
                        "field id -2147483648");
}

/* ---- varints -------------------------------------------------------------------------------- */

TEST (ScanHostile, varintsThatAreTooLong)
{
  expect_bad_arguments (compact_header () + compact_field (C_I32) + Bytes (5, '\xff') + "\x01",
                        "a varint is longer than 32 bits");
  expect_bad_arguments (compact_header () + compact_field (C_I32) + Bytes (4, '\xff') + "\x10",
                        "a varint is longer than 32 bits");
  expect_bad_arguments (compact_header () + compact_field (C_I64) + Bytes (10, '\xff') + "\x01",
                        "a varint is longer than 64 bits");
  expect_bad_arguments (compact_header () + compact_field (C_I64) + Bytes (9, '\xff') + "\x02",
                        "a varint is longer than 64 bits");
  expect_bad_arguments (compact_header () + compact_field (C_BINARY) + Bytes (6, '\x80'),
                        "a varint is longer than 32 bits");
  expect_bad_arguments (Bytes ("\x82\x21", 2) + Bytes (5, '\xff'),
                        "a varint is longer than 32 bits");
}

TEST (ScanHostile, theLongestVarintsAreNotHostile)
{
  Scan scan = scan_bytes (compact_header () + compact_field (C_I32) + Bytes (4, '\xff') + "\x0f"
                          + compact_field (C_I64) + Bytes (9, '\xff') + "\x01" + STOP);

  ASSERT_EQ (scan.error, "");
  EXPECT_EQ (Bytes (reinterpret_cast<char *> (scan.messages.at (0)->head->data),
                    scan.messages[0]->head->len),
             field (TPS_WIRE_I32, 1) + be (0x80000000, 4) + field (TPS_WIRE_I64, 2)
                 + be (G_GUINT64_CONSTANT (1) << 63, 8) + STOP);
}

TEST (ScanHostile, anI16Beyond16Bits)
{
  expect_bad_arguments (compact_header () + compact_field (C_I16) + varint (2 * 32768),
                        "an i16 has the value 32768");
}

TEST (ScanHostile, aBooleanThatIsNeitherTrueNorFalse)
{
  expect_bad_arguments (compact_header () + compact_field (C_LIST) + be (0x10 | C_TRUE, 1) + "\x03"
                            + STOP,
                        "a boolean is 3");
}

} // namespace
} // namespace thriftps
