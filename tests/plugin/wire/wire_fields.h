/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Messages of embedding tables, written field by field, so a test can omit or replace a field. */

#pragma once

#include "tests/plugin/wire/wire_message.h"

namespace thriftps {

constexpr TpsProtocolKind protocols[] = { TPS_PROTOCOL_BINARY, TPS_PROTOCOL_COMPACT };

inline void
expect_equal (const TpsTensorView &a, const TpsTensorView &b)
{
  ASSERT_EQ (a.shape.dtype, b.shape.dtype);
  if (a.shape.dtype == 0)
    return;
  ASSERT_TRUE (tps_shape_equal (&a.shape, &b.shape));
  if (tps_shape_n_bytes (&a.shape) == 0)
    return;
  EXPECT_EQ (memcmp (a.data, b.data, tps_shape_n_bytes (&a.shape)), 0);
}

using Field = std::function<void (TpsWriter *)>;

/* Writes all fields except one. */
inline Write
without (const std::vector<Field> &fields, gsize missing)
{
  return [=] (TpsWriter *out) {
    for (gsize i = 0; i < fields.size (); i++)
      if (i != missing)
        fields[i](out);
  };
}

/* Writes all fields with one of them replaced. */
inline Write
instead (const std::vector<Field> &fields, gsize which, const Field &other)
{
  return [=] (TpsWriter *out) {
    for (gsize i = 0; i < fields.size (); i++)
      (i == which ? other : fields[i]) (out);
  };
}

/* Writes a list of structs. */
inline Write
list_of (gint16 id, const std::vector<Write> &structs)
{
  return [=] (TpsWriter *out) {
    tps_writer_field (out, id, TPS_WIRE_LIST);
    tps_writer_list_begin (out, TPS_WIRE_STRUCT, static_cast<guint32> (structs.size ()));
    for (const Write &fields : structs)
      {
        tps_writer_struct_begin (out);
        fields (out);
        tps_writer_struct_end (out);
      }
  };
}

inline Field
tensor (gint16 id, gint32 dtype, std::vector<gint64> shape, gsize n_bytes)
{
  return [=] (TpsWriter *out) { put_struct (out, id, tensor_fields (dtype, shape, n_bytes)); };
}

inline Field
text (gint16 id, const std::string &value)
{
  return [=] (TpsWriter *out) { put_string (out, id, value); };
}

inline Field
i32 (gint16 id, gint32 value)
{
  return [=] (TpsWriter *out) { put_i32 (out, id, value); };
}

inline Field
i64 (gint16 id, gint64 value)
{
  return [=] (TpsWriter *out) { put_i64 (out, id, value); };
}

inline Field
number (gint16 id, double value)
{
  return [=] (TpsWriter *out) { put_double (out, id, value); };
}

inline Field
structure (gint16 id, const Write &fields)
{
  return [=] (TpsWriter *out) { put_struct (out, id, fields); };
}

} // namespace thriftps
