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
  C_I64 = 6,
  C_BINARY = 8,
  C_LIST = 9,
};

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
