/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Methods of the contract as functions of the callback types of clients and scripted peers, and
 * hand-written fields. */

#pragma once

#include <string>

#include "plugin/wire/descriptor.h"

namespace thriftps {

/* A TpsWriteArguments for the arguments of `rpc`. */
template <const TpsRpc &rpc>
void
WriteArgumentsOf (TpsWriter *out, gconstpointer arguments)
{
  tps_rpc_write_arguments (&rpc, out, arguments);
}

/* A TpsReadResult for the result of `rpc`. */
template <const TpsRpc &rpc>
gboolean
ReadResultOf (TpsReader *in, TpsWireType type, gpointer result, GError **error)
{
  return tps_rpc_read_result (&rpc, in, type, result, error);
}

/* ---- fields by hand ------------------------------------------------------------------------- */

inline void
put_i32 (TpsWriter *out, gint16 id, gint32 value)
{
  tps_writer_field (out, id, TPS_WIRE_I32);
  tps_writer_i32 (out, value);
}

inline void
put_i64 (TpsWriter *out, gint16 id, gint64 value)
{
  tps_writer_field (out, id, TPS_WIRE_I64);
  tps_writer_i64 (out, value);
}

inline void
put_string (TpsWriter *out, gint16 id, const std::string &value)
{
  tps_writer_field (out, id, TPS_WIRE_BINARY);
  tps_writer_binary (out, value.data (), value.size ());
}

} // namespace thriftps

namespace thriftps_test {
using namespace thriftps;
} // namespace thriftps_test
