/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Every hostile message that we know: each is refused for its reason, whole and byte by byte, before memory is taken for
 * what it claims. */

#include "plugin/frame/scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/plugin/frame/wire_bytes.h"

namespace thriftps {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const gsize LIMIT = 1 << 20;

Bytes
be (guint64 value, guint n_bytes)
{
  Bytes bytes;

  for (guint i = n_bytes; i > 0; i--)
    bytes += static_cast<char> (value >> (8 * (i - 1)));
  return bytes;
}

Bytes
repeat (const Bytes &bytes, gsize n)
{
  Bytes all;

  all.reserve (bytes.size () * n);
  for (gsize i = 0; i < n; i++)
    all += bytes;
  return all;
}

Bytes
frame (const Bytes &message)
{
  return be (message.size (), 4) + message;
}

Bytes
varint (guint64 value)
{
  Bytes bytes;

  for (; value >= 0x80; value >>= 7)
    bytes += static_cast<char> (value | 0x80);
  return bytes + static_cast<char> (value);
}

/* Binary protocol. */
Bytes
header (const Bytes &name = "m", guint32 kind = TPS_MESSAGE_CALL)
{
  return be (0x80010000u | kind, 4) + be (name.size (), 4) + name + be (1, 4);
}

Bytes
field (TpsWireType type, gint id)
{
  return be (type, 1) + be (static_cast<guint16> (id), 2);
}

const Bytes STOP (1, '\0');

/* Compact protocol. */
Bytes
compact_header (const Bytes &name = "m")
{
  return Bytes ("\x82\x21\x01", 3) + varint (name.size ()) + name;
}

Bytes
compact_field (guint type, guint delta = 1)
{
  return be (delta << 4 | type, 1);
}

enum
{
  C_TRUE = 1,
  C_I16 = 4,
  C_I32 = 5,
  C_I64 = 6,
  C_BINARY = 8,
  C_LIST = 9,
  C_MAP = 11,
  C_STRUCT = 12,
};

/* Refused with `code`, and for the same reason however the bytes come. */
void
expect_refused (const Bytes &bytes, int code, const std::string &reason)
{
  ScanOptions options;

  options.max_message_bytes = LIMIT;
  Scan whole = scan_bytes (bytes, options);
  EXPECT_EQ (whole.code, code);
  EXPECT_THAT (whole.error, HasSubstr (reason));
  EXPECT_TRUE (whole.messages.empty ());
  if (bytes.size () > 100000)
    return;
  options.chunk_size = [] { return 1; };
  EXPECT_EQ (scan_bytes (bytes, options).error, whole.error);
}

void
expect_protocol_error (const Bytes &bytes, const std::string &reason)
{
  expect_refused (bytes, TPS_ERROR_PROTOCOL, reason);
}

/* The same for the arguments of a message, framed and unframed. */
void
expect_bad_arguments (const Bytes &message, const std::string &reason)
{
  expect_protocol_error (frame (message), reason);
  expect_protocol_error (message, reason);
}

void
expect_accepted (const Bytes &bytes)
{
  ScanOptions options;

  options.max_message_bytes = LIMIT;
  Scan scan = scan_bytes (bytes, options);
  EXPECT_EQ (scan.error, "");
  EXPECT_EQ (scan.messages.size (), 1u);
}

/* ---- frames --------------------------------------------------------------------------------- */

TEST (ScanHostile, aFrameOfNoBytes)
{
  expect_protocol_error (be (0, 4), "a frame of no bytes");
  EXPECT_EQ (scan_bytes (frame (header () + STOP) + be (0, 4)).error, "a frame of no bytes");
}

TEST (ScanHostile, aNegativeFrameLength)
{
  expect_protocol_error (be (0xffffffff, 4), "negative length 0xffffffff");
  expect_protocol_error (be (0x80000000, 4), "negative length 0x80000000");
  expect_protocol_error (be (0x80050000, 4), "negative length 0x80050000");
}

TEST (ScanHostile, aFrameBeyondTheLimit)
{
  expect_refused (be (0x7fffffff, 4), TPS_ERROR_RESOURCE_EXHAUSTED,
                  "a frame of 2147483647 bytes, the limit is 1048576");
  expect_refused (be (LIMIT + 1, 4), TPS_ERROR_RESOURCE_EXHAUSTED, "a frame of 1048577 bytes");
  expect_refused ("GET / HTTP/1.1\r\n\r\n", TPS_ERROR_RESOURCE_EXHAUSTED,
                  "a frame of 1195725856 bytes");
}

TEST (ScanHostile, aFrameAtTheLimitIsNotHostile)
{
  Bytes start = header () + field (TPS_WIRE_BINARY, 1);
  gsize n_bytes = LIMIT - start.size () - 4 - STOP.size ();

  expect_accepted (frame (start + be (n_bytes, 4) + Bytes (n_bytes, 'x') + STOP));
  expect_accepted (start + be (n_bytes, 4) + Bytes (n_bytes, 'x') + STOP);
}

TEST (ScanHostile, anUnframedMessageBeyondTheLimit)
{
  Bytes start = header () + field (TPS_WIRE_BINARY, 1);
  gsize n_bytes = LIMIT - start.size () - 4;

  expect_refused (start + be (n_bytes, 4) + Bytes (n_bytes, 'x') + STOP,
                  TPS_ERROR_RESOURCE_EXHAUSTED, "the limit of 1048576 bytes for a message");
  expect_refused (start + be (n_bytes + 1, 4), TPS_ERROR_RESOURCE_EXHAUSTED, "a string needs");
  expect_refused (header ()
                      + repeat (field (TPS_WIRE_STRUCT, 1) + field (TPS_WIRE_LIST, 1)
                                    + be (TPS_WIRE_STRUCT, 1) + be (2 * LIMIT, 4),
                                1),
                  TPS_ERROR_RESOURCE_EXHAUSTED, "a list needs 2097152 bytes");
}

TEST (ScanHostile, aFrameThatEndsInsideItsMessage)
{
  expect_protocol_error (frame (header ()), "the frame ends inside the message");
  expect_protocol_error (frame (header () + field (TPS_WIRE_I64, 1) + "1234"),
                         "the frame ends inside the message");
  expect_protocol_error (frame (compact_header () + compact_field (C_I64) + "\xff\xff"),
                         "the frame ends inside the message");
  expect_protocol_error (frame ("\x80"), "the frame ends inside the message");
}

TEST (ScanHostile, aFieldSplitOverTwoFrames)
{
  Bytes message = header () + field (TPS_WIRE_BINARY, 1) + be (8, 4) + "abcdefgh" + STOP;

  expect_protocol_error (frame (message.substr (0, 24)) + frame (message.substr (24)),
                         "a string needs 8 bytes");
  expect_protocol_error (frame (message.substr (0, 17)) + frame (message.substr (17)),
                         "the frame ends inside the message");
}

TEST (ScanHostile, bytesAfterTheMessageInItsFrame)
{
  expect_protocol_error (frame (header () + STOP + "more"),
                         "the message ends 4 bytes before its frame");
  expect_protocol_error (frame (compact_header () + STOP + STOP),
                         "the message ends 1 bytes before its frame");
}

TEST (ScanHostile, aClaimThatStallsHoldsNoMemory)
{
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new (0, 0);
  ScanOptions options;

  options.pool = pool;
  options.max_message_bytes = 256 << 20;
  Scan scan = scan_bytes (be (16 << 20, 4) + header () + field (TPS_WIRE_LIST, 1)
                              + be (TPS_WIRE_I64, 1) + be (1 << 20, 4),
                          options);
  EXPECT_EQ (scan.error, "");
  EXPECT_FALSE (scan.idle);
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (pool), 0u);
}

TEST (ScanHostile, aMessageThatIsCutByTheEndOfTheConnectionIsNotIdle)
{
  EXPECT_FALSE (scan_bytes (frame (header () + STOP).substr (0, 3)).idle);
  EXPECT_FALSE (scan_bytes (frame (header () + STOP).substr (0, 15)).idle);
  EXPECT_FALSE (scan_bytes ("\x80").idle);
  EXPECT_TRUE (scan_bytes ("").idle);
  EXPECT_TRUE (scan_bytes (frame (header () + STOP)).idle);
}

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
  expect_protocol_error (frame ("\x82\x22"), "version 2 of the compact protocol");
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

/* Their meaning is not the scanner's business. */
TEST (ScanHostile, whatOnlyNamesOrTypesWrongIsLetThrough)
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

/* In compact protocol an empty map is one byte, with no types. */
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
  guint n_inner = TPS_MESSAGE_MAX_DEPTH - 1; /* the arguments are a struct too */
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

  expect_bad_arguments (header () + data + data + STOP, "field 1 stands twice in one struct");
}

TEST (ScanHostile, aFieldTwiceWithOthersBetween)
{
  Bytes first = field (TPS_WIRE_BOOL, 200) + be (1, 1);

  expect_bad_arguments (header () + first + field (TPS_WIRE_BYTE, 7) + be (1, 1) + first + STOP,
                        "field 200 stands twice");
  expect_bad_arguments (header () + first + field (TPS_WIRE_I32, 200) + be (1, 4) + STOP,
                        "field 200 stands twice");
  expect_bad_arguments (compact_header () + compact_field (C_TRUE) + compact_field (C_TRUE, 2)
                            + compact_field (C_TRUE, 0) + varint (2) + STOP,
                        "field 1 stands twice");
}

TEST (ScanHostile, aFieldTwiceBeyondAByteOrBelowZero)
{
  for (gint id : { -1, 256, 32767, -32768 })
    {
      Bytes value = field (TPS_WIRE_BYTE, id) + be (1, 1);

      expect_bad_arguments (header () + value + value + STOP,
                            "field " + std::to_string (id) + " stands twice");
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
                        "an i16 is 32768");
}

TEST (ScanHostile, aBooleanThatIsNeitherTrueNorFalse)
{
  expect_bad_arguments (compact_header () + compact_field (C_LIST) + be (0x10 | C_TRUE, 1) + "\x03"
                            + STOP,
                        "a boolean is 3");
}

/* ---- limits on memory ----------------------------------------------------------------------- */

/* A byte of compact protocol may be eight of the head. */
TEST (ScanHostile, aHeadThatGrowsBeyondItsLimit)
{
  ScanOptions options;
  Bytes message = compact_header () + compact_field (C_LIST) + be (0xf0 | C_I64, 1)
                  + varint (100000) + Bytes (100000, '\0') + STOP;

  options.max_head_bytes = 800008;
  EXPECT_THAT (scan_bytes (message, options).error, HasSubstr ("beyond the limit of 800008 bytes"));
  EXPECT_EQ (scan_bytes (message, options).code, TPS_ERROR_RESOURCE_EXHAUSTED);
  options.max_head_bytes = 800009;
  EXPECT_EQ (scan_bytes (message, options).error, "");
}

/* Else unknown fields would fill the memory beside all bounds. */
TEST (ScanHostile, aLargeHeadCountsAgainstThePoolsLimit)
{
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new (64 << 10, 0);
  ScanOptions options;
  auto message = [] (gsize n_bytes) {
    return frame (header () + field (TPS_WIRE_LIST, 99) + be (TPS_WIRE_BYTE, 1) + be (n_bytes, 4)
                  + Bytes (n_bytes, 'x') + STOP);
  };

  options.pool = pool;
  {
    Scan scan = scan_bytes (message (3000) + message (20000), options);

    EXPECT_EQ (scan.error, "");
    EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (pool), 32u << 10);
    EXPECT_THAT (scan_bytes (message (40000), options).error,
                 HasSubstr ("no memory is left for a head of 65536 bytes"));
    EXPECT_EQ (scan_bytes (message (40000), options).code, TPS_ERROR_RESOURCE_EXHAUSTED);
  }
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (pool), 0u);
}

Bytes
two_bodies (gsize n_first, gsize n_second)
{
  return header () + field (TPS_WIRE_BINARY, 1) + be (n_first, 4) + Bytes (n_first, 'a')
         + field (TPS_WIRE_BINARY, 2) + be (n_second, 4) + Bytes (n_second, 'b') + STOP;
}

TEST (ScanHostile, bodiesThatThePoolRefusesAreReadAndDropped)
{
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new (64 << 10, 0);
  ScanOptions options;

  options.pool = pool;
  for (bool use_get_body : { false, true })
    {
      options.use_get_body = [use_get_body] { return use_get_body; };
      Scan scan = scan_bytes (
          frame (two_bodies (8 << 10, 200 << 10)) + frame (two_bodies (5000, 6000)), options);

      ASSERT_EQ (scan.error, "");
      ASSERT_EQ (scan.messages.size (), 2u);
      EXPECT_EQ (scan.messages[0]->n_bytes_refused, gsize (200 << 10));
      EXPECT_EQ (scan.messages[0]->bodies->len, 2u);
      EXPECT_EQ (g_array_index (scan.messages[0]->bodies, TpsBody, 0).buffer, nullptr)
          << "is kept for nothing";
      EXPECT_EQ (g_array_index (scan.messages[0]->bodies, TpsBody, 1).buffer, nullptr);
      EXPECT_EQ (scan.messages[1]->n_bytes_refused, 0u);
      EXPECT_NE (g_array_index (scan.messages[1]->bodies, TpsBody, 1).buffer, nullptr);
    }
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (pool), 0u);
}

TEST (ScanHostile, afterARefusedBodyTheOthersOfItsMessageTakeNoMemory)
{
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new (64 << 10, 0);
  ScanOptions options;

  options.pool = pool;
  Scan scan = scan_bytes (frame (two_bodies (200 << 10, 5000)), options);
  ASSERT_EQ (scan.messages.size (), 1u);
  EXPECT_EQ (scan.messages[0]->n_bytes_refused, (200u << 10) + 5000);
}

TEST (ScanHostile, anErrorGivesTheBodiesBack)
{
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new (0, 0);
  TpsScannerOptions options = { .max_message_bytes = LIMIT, .max_head_bytes = 0, .bodies = pool };
  g_autoptr (TpsScanner) scanner = tps_scanner_new (&options);
  g_autoptr (GError) error = nullptr;
  Bytes bytes = two_bodies (5000, 5000);
  gsize position = 0, n_consumed;

  bytes.back () = 99;
  bytes += "id";
  for (bool ok = true; ok && position < bytes.size (); position += n_consumed)
    {
      EXPECT_EQ (error, nullptr);
      ok = tps_scanner_feed (scanner, reinterpret_cast<const guint8 *> (bytes.data ()) + position,
                             bytes.size () - position, &n_consumed, &error);
    }
  ASSERT_NE (error, nullptr);
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (pool), 0u);
}

TEST (ScanHostile, afterAnErrorTheScannerStaysBad)
{
  TpsScannerOptions options = { .max_message_bytes = LIMIT,
                                .max_head_bytes = 0,
                                .bodies = nullptr };
  g_autoptr (TpsScanner) scanner = tps_scanner_new (&options);
  Bytes good = frame (header () + STOP);
  Bytes bad = be (0, 4);
  guint8 *dest;
  gsize n;

  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (GError) error = nullptr;
      const Bytes &bytes = i == 0 ? bad : good;

      EXPECT_FALSE (tps_scanner_feed (scanner, reinterpret_cast<const guint8 *> (bytes.data ()),
                                      bytes.size (), &n, &error));
      EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_PROTOCOL));
      EXPECT_STREQ (error->message, "a frame of no bytes");
      EXPECT_EQ (tps_scanner_take (scanner), nullptr);
      EXPECT_FALSE (tps_scanner_get_body (scanner, &dest, &n));
      EXPECT_FALSE (tps_scanner_is_idle (scanner));
    }
}

TEST (ScanHostile, anErrorSaysWhere)
{
  EXPECT_THAT (scan_bytes (frame (header () + be (99, 1) + be (1, 2))).error,
               StartsWith ("byte 13 of a message: "));
}

/* A connection frames or it does not; it cannot change. */
TEST (ScanHostile, framingThatChanges)
{
  Bytes message = header () + STOP;
  Scan framed_first = scan_bytes (frame (message) + message);
  Scan unframed_first = scan_bytes (message + frame (message));

  EXPECT_EQ (framed_first.messages.size (), 1u);
  EXPECT_THAT (framed_first.error, HasSubstr ("negative length 0x80010001"));
  EXPECT_EQ (unframed_first.messages.size (), 1u);
  EXPECT_THAT (unframed_first.error, HasSubstr ("begins with 0x00"));
}

} // namespace
} // namespace thriftps
