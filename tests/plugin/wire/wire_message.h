/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Converts a write function to the canonical message that the peer of a call reads. */

#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "plugin/frame/message.h"
#include "plugin/frame/writer.h"
#include "plugin/wire/descriptor.h"
#include "tests/plugin/frame/wire_bytes.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace thriftps {

using Write = std::function<void (TpsWriter *)>;

class WireMessage
{
public:
  /* `write` writes the fields of the arguments struct, or those of a result. */
  explicit WireMessage (const Write &write, TpsProtocolKind protocol = TPS_PROTOCOL_BINARY)
  {
    g_autoptr (TpsWriter) out = tps_writer_new (protocol, TRUE);

    tps_writer_message_begin (out, "m", TPS_MESSAGE_CALL, 1);
    tps_writer_struct_begin (out);
    write (out);
    tps_writer_struct_end (out);
    EXPECT_TRUE (tps_writer_message_end (out, nullptr));
    scan = scan_bytes (join_pieces (out));
    EXPECT_EQ (scan.error, "");
  }

  /* Returns a reader in front of the arguments struct. */
  TpsReader *
  arguments ()
  {
    tps_reader_init (&in, scan.messages.at (0));
    return &in;
  }

  /* Returns a reader in front of the value of the first field, as for the result in a client.
   * Stores the value's type in `*type`, or STOP if there is no field. */
  TpsReader *
  result (TpsWireType *type)
  {
    gint16 id;

    arguments ();
    tps_reader_struct_begin (&in);
    tps_reader_field (&in, &id, type);
    return &in;
  }

private:
  Scan scan;
  TpsReader in;
};

/* ---- fields by hand ------------------------------------------------------------------------- */

inline void
put_i64s (TpsWriter *out, gint16 id, const std::vector<gint64> &values)
{
  tps_writer_field (out, id, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_I64, static_cast<guint32> (values.size ()));
  for (gint64 value : values)
    tps_writer_i64 (out, value);
}

inline void
put_struct (TpsWriter *out, gint16 id, const Write &write)
{
  tps_writer_field (out, id, TPS_WIRE_STRUCT);
  tps_writer_struct_begin (out);
  write (out);
  tps_writer_struct_end (out);
}

/* Writes the fields of a Tensor. */
inline Write
tensor_fields (gint32 dtype, std::vector<gint64> shape, gsize n_bytes)
{
  return [=] (TpsWriter *out) {
    put_i32 (out, 1, dtype);
    put_i64s (out, 2, shape);
    put_string (out, 3, std::string (n_bytes, '\0'));
  };
}

} // namespace thriftps
