// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A service that receives tensors, and a client that sends them, as in //bench:transfer.
//
//   push (1: Tensor)   replies after the tensor has arrived
//   echo (1: Tensor)   replies with the tensor, without a copy

#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "plugin/client/client.h"
#include "plugin/server/server.h"
#include "plugin/wire/wire_tensor.h"
#include "tests/plugin/client/call_sync.h"

namespace thriftps_test {

class TensorService
{
public:
  // Called with each tensor during its call.
  std::function<void (const TpsTensor &)> on_tensor;

  TpsService
  Get ()
  {
    static const TpsField arguments[] = {
      { "tensor", 1, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_tensor_struct, 0, 0 }, {}
    };
    static const TpsField result = {
      "tensor", 0, TPS_FIELD_DEFAULT, &tps_kind_struct, &tps_tensor_struct, 0, 0
    };
    static const TpsRpc rpcs[] = {
      { "Tensors", "push", arguments, nullptr },
      { "Tensors", "echo", arguments, &result },
    };
    static const TpsMethod methods[] = {
      { TPS_RIGHT_PUSH, &rpcs[0], HandlePush, TPS_METHOD_INLINE },
      { TPS_RIGHT_PUSH, &rpcs[1], HandleEcho, TPS_METHOD_INLINE },
      {}
    };
    TpsService service = {};
    service.name = "Tensors";
    service.methods = methods;
    service.object = this;
    service.borrows_shared = TRUE;
    return service;
  }

private:
  static bool
  Receive (TpsCall *call, gpointer object, TpsTensor *tensor)
  {
    const auto &on_tensor = static_cast<TensorService *> (object)->on_tensor;
    g_autoptr (GError) error = nullptr;

    if (!tps_call_read_arguments (call, tensor, &error))
      {
        tps_call_reply_error (call, error);
        return false;
      }
    if (on_tensor)
      on_tensor (*tensor);
    return true;
  }
  static void
  HandlePush (TpsCall *call, gpointer object)
  {
    TpsTensor tensor = {};
    bool received = Receive (call, object, &tensor);
    tps_tensor_clear (&tensor);
    if (received)
      tps_call_reply (call, nullptr, nullptr);
  }
  static void
  HandleEcho (TpsCall *call, gpointer object)
  {
    g_auto (TpsTensor) tensor = {};
    if (Receive (call, object, &tensor))
      tps_call_reply_value (call, &tensor);
  }
};

class TensorClient
{
public:
  explicit TensorClient (const std::string &address, bool shares_memory = false,
                         TpsProtocolKind protocol = TPS_PROTOCOL_BINARY, TpsTls *tls = nullptr)
  {
    TpsClientOptions options = {};
    options.address = address.c_str ();
    options.tls = tls;
    options.no_shared_memory = !shares_memory;
    options.protocol = protocol;
    client_ = tps_client_new (&options, nullptr);
  }
  ~TensorClient ()
  {
    tps_client_free (client_);
  }
  TensorClient (const TensorClient &) = delete;
  TensorClient &operator= (const TensorClient &) = delete;

  void
  Push (const TpsTensor &tensor)
  {
    Call ("push", tensor, nullptr, nullptr);
  }

  // `*answer` belongs to the caller.
  void
  Echo (const TpsTensor &tensor, TpsTensor *answer)
  {
    Call ("echo", tensor, ReadTensor, answer);
  }

  // Returns the number of large tensors that the socket has carried so far, in both directions.
  guint64
  CountInline () const
  {
    TpsSharingStats stats;
    tps_client_get_sharing_stats (client_, &stats);
    return stats.sent_inline.n_tensors + stats.received_inline.n_tensors;
  }

private:
  static void
  WriteTensor (TpsWriter *out, gconstpointer tensor)
  {
    tps_writer_field (out, 1, TPS_WIRE_STRUCT);
    tps_struct_write (&tps_tensor_struct, out, tensor);
  }
  static gboolean
  ReadTensor (TpsReader *in, TpsWireType, gpointer tensor, GError **error)
  {
    return tps_struct_read (&tps_tensor_struct, in, nullptr, tensor, error);
  }
  void
  Call (const char *method, const TpsTensor &tensor, TpsReadResult read, TpsTensor *answer)
  {
    g_autoptr (GError) error = nullptr;
    EXPECT_TRUE (tps_client_call_sync (client_, "Tensors", method, WriteTensor, &tensor,
                                       G_MAXINT64 - 1, read, answer, &error))
        << error->message;
  }

  TpsClient *client_ = nullptr;
};

} // namespace thriftps_test
