// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "tests/plugin/server/gradient_call.h"

#include <cstring>

namespace thriftps_test {

WriteFields
PushBytes (gint32 trainer, gint64 batch, TpsDType dtype, gint64 n_elems, const std::string &bytes,
           gint32 param_loc)
{
  return [=] (TpsWriter *out) {
    tps_writer_field (out, 1, TPS_WIRE_I32);
    tps_writer_i32 (out, trainer);
    tps_writer_field (out, 2, TPS_WIRE_I64);
    tps_writer_i64 (out, batch);
    tps_writer_field (out, 3, TPS_WIRE_I32);
    tps_writer_i32 (out, param_loc);
    tps_writer_field (out, 4, TPS_WIRE_STRUCT);
    tps_writer_struct_begin (out);
    tps_writer_field (out, 1, TPS_WIRE_STRUCT);
    tps_writer_struct_begin (out);
    tps_writer_field (out, 1, TPS_WIRE_I32);
    tps_writer_i32 (out, dtype);
    tps_writer_field (out, 2, TPS_WIRE_LIST);
    tps_writer_list_begin (out, TPS_WIRE_I64, 1);
    tps_writer_i64 (out, n_elems);
    tps_writer_field (out, 3, TPS_WIRE_BINARY);
    tps_writer_binary (out, bytes.data (), bytes.size ());
    tps_writer_struct_end (out);
    tps_writer_struct_end (out);
  };
}

WriteFields
Push (gint32 trainer, gint64 batch, gint64 n_elems, float value)
{
  std::vector<float> elems ((size_t) n_elems, value);
  return PushBytes (
      trainer, batch, TPS_DTYPE_FLOAT32, n_elems,
      { reinterpret_cast<const char *> (elems.data ()), elems.size () * sizeof (float) });
}

std::vector<float>
Average (const Message &answer)
{
  std::vector<float> elems;
  TpsReader in;
  TpsWireType type;
  gint16 id;
  tps_reader_init (&in, answer.get ());
  for (gint16 wanted : { 0, 1, 3 })
    {
      tps_reader_struct_begin (&in);
      while (tps_reader_field (&in, &id, &type) && id != wanted)
        tps_reader_skip (&in, type);
      if (id != wanted)
        return elems;
    }
  TpsBytesView view = tps_reader_binary (&in);
  elems.resize (view.n_bytes / sizeof (float));
  std::memcpy (elems.data (), view.data, view.n_bytes);
  return elems;
}

} // namespace thriftps_test
