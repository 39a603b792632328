/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A server with default limits and one service, which stores one tensor unchanged:
 *
 *   put (1: Tensor)   stores the tensor
 *   get ()            returns the tensor */

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "plugin/server/server.h"
#include "plugin/service/node_service.h"
#include "plugin/wire/wire_tensor.h"

namespace {

TpsTensor kept;

void
put (TpsCall *call, gpointer)
{
  g_auto (TpsTensor) tensor = {};
  g_autoptr (GError) error = nullptr;
  TpsFieldPath path = {};
  TpsWireType type;
  TpsReader in;
  gint16 id;

  path.name = "tensor";
  tps_call_get_arguments (call, &in);
  if (!tps_reader_field (&in, &id, &type)
      || !tps_struct_read (&tps_tensor_struct, &in, &path, &tensor, &error))
    {
      tps_call_reply_error (call, error);
      return;
    }
  tps_tensor_move (&kept, &tensor);
  tps_call_reply (call, nullptr, nullptr);
}

void
write_kept (TpsWriter *out, gconstpointer)
{
  tps_writer_field (out, 0, TPS_WIRE_STRUCT);
  tps_struct_write (&tps_tensor_struct, out, &kept);
}

void
get (TpsCall *call, gpointer)
{
  tps_call_reply (call, write_kept, nullptr);
}

}

int
main ()
{
  static const TpsRpc rpcs[] = {
    { "Large", "put", nullptr, nullptr },
    { "Large", "get", nullptr, nullptr },
  };
  static const TpsMethod methods[] = {
    { TPS_RIGHT_PUSH, &rpcs[0], put, TPS_METHOD_INLINE },
    { TPS_RIGHT_PUSH, &rpcs[1], get, TPS_METHOD_INLINE },
    {},
  };
  g_autoptr (TpsServer) server = tps_server_new (nullptr);
  TpsService large = {};
  TpsNode node = {};

  large.name = "Large";
  large.methods = methods;
  node.name = "large_server";
  node.max_frame_bytes = static_cast<gint64> (tps_server_get_max_frame_bytes (server));
  TpsService describing = tps_node_service (&node);
  tps_server_add_service (server, &large);
  tps_server_add_service (server, &describing);
  if (!tps_server_listen (server, "127.0.0.1:0", nullptr) || !tps_server_start (server, nullptr))
    return 1;
  printf ("listening on %s\n", tps_server_get_addresses (server)[0]);
  fflush (stdout);
  pause ();
  return 0;
}
