/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Messages written by hand, and helpers that check the scanner's result. */

#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugin/frame/scan.h"
#include "runtime/base/error.h"
#include "tests/plugin/frame/wire_bytes.h"

namespace thriftps {

const gsize LIMIT = 1 << 20;

inline Bytes
be (guint64 value, guint n_bytes)
{
  Bytes bytes;

  for (guint i = n_bytes; i > 0; i--)
    bytes += static_cast<char> (value >> (8 * (i - 1)));
  return bytes;
}

inline Bytes
repeat (const Bytes &bytes, gsize n)
{
  Bytes all;

  all.reserve (bytes.size () * n);
  for (gsize i = 0; i < n; i++)
    all += bytes;
  return all;
}

inline Bytes
frame (const Bytes &message)
{
  return be (message.size (), 4) + message;
}

inline Bytes
varint (guint64 value)
{
  Bytes bytes;

  for (; value >= 0x80; value >>= 7)
    bytes += static_cast<char> (value | 0x80);
  return bytes + static_cast<char> (value);
}

/* The following functions write the binary protocol. */
inline Bytes
header (const Bytes &name = "m", guint32 kind = TPS_MESSAGE_CALL)
{
  return be (0x80010000u | kind, 4) + be (name.size (), 4) + name + be (1, 4);
}

inline Bytes
field (TpsWireType type, gint id)
{
  return be (type, 1) + be (static_cast<guint16> (id), 2);
}

const Bytes STOP (1, '\0');

/* The following functions write the compact protocol. */
inline Bytes
compact_header (const Bytes &name = "m")
{
  return Bytes ("\x82\x21\x01", 3) + varint (name.size ()) + name;
}

inline Bytes
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

/* Checks that the scanner refuses the bytes with `code` and `reason`, for any division into
 * chunks. */
inline void
expect_refused (const Bytes &bytes, int code, const std::string &reason)
{
  ScanOptions options;

  options.max_message_bytes = LIMIT;
  Scan whole = scan_bytes (bytes, options);
  EXPECT_EQ (whole.code, code);
  EXPECT_THAT (whole.error, testing::HasSubstr (reason));
  EXPECT_TRUE (whole.messages.empty ());
  if (bytes.size () > 100000)
    return;
  options.chunk_size = [] { return 1; };
  EXPECT_EQ (scan_bytes (bytes, options).error, whole.error);
}

inline void
expect_protocol_error (const Bytes &bytes, const std::string &reason)
{
  expect_refused (bytes, TPS_ERROR_PROTOCOL, reason);
}

/* Checks the same for the arguments of a message, framed and unframed. */
inline void
expect_bad_arguments (const Bytes &message, const std::string &reason)
{
  expect_protocol_error (frame (message), reason);
  expect_protocol_error (message, reason);
}

inline void
expect_accepted (const Bytes &bytes)
{
  ScanOptions options;

  options.max_message_bytes = LIMIT;
  Scan scan = scan_bytes (bytes, options);
  EXPECT_EQ (scan.error, "");
  EXPECT_EQ (scan.messages.size (), 1u);
}

} // namespace thriftps
