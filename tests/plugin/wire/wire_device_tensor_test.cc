/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the encoding of tensors in device memory if the peer cannot access memory of the device. */

#include <cstring>
#include <numeric>
#include <vector>

#include "plugin/wire/wire_parameter_server.h"
#include "runtime/device/device_memory.h"
#include "tests/plugin/wire/wire_message.h"
#include "tests/runtime/fake_device/fake_device.h"

namespace thriftps {
namespace {

class DeviceTensor : public testing::Test
{
protected:
  ~DeviceTensor () override
  {
    tps_fake_device_set_lost (device_, FALSE);
    tps_gradient_clear (&gradient_);
  }

  /* Makes a gradient of 1, 2, 3, … in device memory. */
  void
  make (gint64 n_elems)
  {
    gsize n_bytes = static_cast<gsize> (n_elems) * sizeof (float);
    TpsBuffer *buffer = device_->ops->alloc (device_, n_bytes, nullptr);
    TpsShape shape;

    values_.resize (static_cast<gsize> (n_elems));
    std::iota (values_.begin (), values_.end (), 1.0f);
    ASSERT_TRUE (tps_device_memory_copy (device_, tps_buffer_get_data (buffer), values_.data (),
                                         n_bytes, nullptr));
    ASSERT_TRUE (tps_shape_init (&shape, TPS_DTYPE_FLOAT32, 1, &n_elems, "shape", nullptr));
    tps_gradient_clear (&gradient_);
    gradient_.kind = TPS_GRADIENT_DENSE;
    gradient_.weight = 1;
    tps_tensor_init_take (&gradient_.dense, &shape, buffer, 0);
  }

  TpsDevice *device_ = tps_fake_device_get (0);
  TpsGradient gradient_ = {};
  std::vector<float> values_;
};

TEST_F (DeviceTensor, thatIsLostLeavesNoMessageToSend)
{
  g_autoptr (TpsWriter) out = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);
  g_autoptr (GError) error = nullptr, transferred_error = nullptr;

  make (1000);
  tps_fake_device_set_lost (device_, TRUE);
  tps_writer_message_begin (out, "m", TPS_MESSAGE_CALL, 1);
  tps_writer_struct_begin (out);
  tps_rpc_write_result (&tps_average_gradient_rpc, out, &gradient_);
  tps_writer_struct_end (out);
  EXPECT_FALSE (tps_writer_message_end (out, &error));
  EXPECT_EQ (error->code, TPS_ERROR_DEVICE_LOST);
  EXPECT_FALSE (tps_writer_message_end_transferred (out, &transferred_error));
  EXPECT_EQ (transferred_error->code, TPS_ERROR_DEVICE_LOST);

  tps_writer_reset (out, TPS_PROTOCOL_BINARY, TRUE);
  tps_writer_message_begin (out, "m", TPS_MESSAGE_CALL, 1);
  tps_writer_struct_begin (out);
  tps_writer_struct_end (out);
  EXPECT_TRUE (tps_writer_message_end (out, nullptr)) << "the next message is another one";
}

/* Memory of which a peer may name any slice. */
struct Sharing
{
  TpsSharing sharing; /* must be the first member */
  TpsBuffer *buffer;

  static TpsBuffer *
  resolve (TpsSharing *sharing, const TpsSharedSlice *, GError **)
  {
    return tps_buffer_ref (reinterpret_cast<Sharing *> (sharing)->buffer);
  }
  static void
  ignore (TpsSharing *)
  {
  }
};

TEST_F (DeviceTensor, isTakenForAGradientAndForNothingElse)
{
  static const TpsSharingOps ops = { nullptr,         Sharing::resolve, Sharing::ignore,
                                     Sharing::ignore, nullptr,          nullptr };

  make (16);
  Sharing sharing = { { &ops }, gradient_.dense.buffer };
  for (TpsDType dtype : { TPS_DTYPE_FLOAT32, TPS_DTYPE_INT32 })
    for (bool is_gradient : { true, false })
      {
        Write tensor = [=] (TpsWriter *out) {
          put_i32 (out, 1, dtype);
          put_i64s (out, 2, { 16 });
          put_struct (out, 4, [] (TpsWriter *slice) {
            put_i64 (slice, 1, 1);
            put_i64 (slice, 2, 0);
            put_i64 (slice, 3, 64);
          });
        };
        WireMessage message ([&] (TpsWriter *out) {
          if (is_gradient)
            put_struct (out, 1, tensor);
          else
            tensor (out);
        });
        TpsFieldPath path = {};
        g_auto (TpsGradient) gradient = {};
        g_auto (TpsTensor) plain = {};
        g_autoptr (GError) error = nullptr;
        TpsReader *in = message.arguments ();

        path.name = "it";
        const_cast<TpsMessage *> (in->message)->sharing = &sharing.sharing;
        EXPECT_EQ (is_gradient
                       ? tps_struct_read (&tps_gradient_struct, in, &path, &gradient, &error)
                       : tps_struct_read (&tps_tensor_struct, in, &path, &plain, &error),
                   is_gradient && dtype == TPS_DTYPE_FLOAT32);
        EXPECT_TRUE (error == nullptr || strstr (error->message, "lies in memory of cuda:0"))
            << error->message;
        EXPECT_EQ (tps_device_memory_of_tensor (&gradient.dense),
                   error == nullptr ? device_ : nullptr);
        const_cast<TpsMessage *> (in->message)->sharing = nullptr;
      }
}

} // namespace
} // namespace thriftps
