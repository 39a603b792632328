/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests servers that claim to share device memory and violate the protocol. Calls must continue
 * through host memory. */

#include "runtime/device/device_memory.h"
#include "tests/plugin/client/sharing/scripted_server.h"
#include "tests/runtime/fake_device/fake_device.h"

namespace tps_test {
namespace {

class HostileDevice : public SharingTest
{
protected:
  HostileDevice ()
  {
    gint64 n_elems = static_cast<gint64> (values_.size ());
    gsize n_bytes = values_.size () * sizeof (float);
    TpsBuffer *buffer = device_->ops->alloc (device_, n_bytes, nullptr);
    TpsShape shape;

    tps_device_memory_copy (device_, tps_buffer_get_data (buffer), values_.data (), n_bytes,
                            nullptr);
    tps_shape_init (&shape, TPS_DTYPE_FLOAT32, 1, &n_elems, "shape", nullptr);
    tps_tensor_init_take (&on_device_, &shape, buffer, 0);
    describe (16);
  }
  ~HostileDevice () override
  {
    tps_tensor_clear (&on_device_);
  }

  /* Makes the server offer memory of a device whose UUID has `n_uuid` bytes. */
  void
  describe (size_t n_uuid)
  {
    server_.serve["Node:describe"] = [=] (Connection &connection, const ReceivedCall &call) {
      connection.send (
          reply ("describe", call.seqid,
                 field (12, 0,
                        field (11, 1, binary ("scripted")) + field (11, 2, binary ("1"))
                            + field (10, 8, be64 (64 * MIB))
                            + field (11, 9, binary (std::string (n_uuid, 'u'))) + '\0')));
    };
  }

  static void
  write_on_device (TpsWriter *out, gconstpointer data)
  {
    tps_writer_field (out, 1, TPS_WIRE_STRUCT);
    tps_struct_write (&tps_tensor_struct, out, data);
  }

  /* Pushes the tensor once. Returns true if its bytes came inline with the call. */
  bool
  push (Connection &connection, const std::function<void ()> &served)
  {
    TensorOutcome outcome;

    tps_client_call (client_, "Calculator", "push", write_on_device, &on_device_, later (),
                     TensorOutcome::done, &outcome);
    if (!is_connected_)
      connection = server_.listener.accept ();
    is_connected_ = true;
    ReceivedCall call = server_.read_call (connection);
    served ();
    connection.send (reply ("push", call.seqid, ""));
    outcome.outcome.wait ();
    EXPECT_EQ (outcome.outcome.text (), "");
    return is_inline (call);
  }

  TpsDevice *device_ = tps_fake_device_get (0);
  TpsTensor on_device_ = {};
  bool is_connected_ = false;
};

const std::function<void ()> NOTHING = [] {};

TEST_F (HostileDevice, ThatAnswersWithoutAHandleIsAskedOnce)
{
  Connection connection (-1);

  server_.serve["Memory:open_segment"] = [] (Connection &to, const ReceivedCall &call) {
    if (be_number (call.inside.substr (3, 4)) == TPS_SEGMENT_CUDA_IPC)
      to.send (ScriptedServer::opened (call, 5, 2 * MIB));
    else
      to.send (service_error ("open_segment", call.seqid, 8, "not offered"));
  };
  EXPECT_TRUE (tps_client_may_share_device (client_, device_));
  EXPECT_TRUE (
      push (connection, [&] { server_.serve_until (connection, "Memory:open_segment", 1); }));
  for (int i = 0; i < 4; i++)
    EXPECT_TRUE (push (connection, NOTHING));
  EXPECT_FALSE (tps_client_may_share_device (client_, device_));
}

TEST_F (HostileDevice, ThatSendsAnInvalidHandleHasItsSegmentClosed)
{
  Connection connection (-1);

  server_.serve["Memory:open_segment"] = [] (Connection &to, const ReceivedCall &call) {
    if (be_number (call.inside.substr (3, 4)) == TPS_SEGMENT_CUDA_IPC)
      to.send (reply ("open_segment", call.seqid,
                      field (12, 0,
                             field (10, 1, be64 (5)) + field (10, 2, be64 (2 * MIB))
                                 + field (11, 3, binary (std::string (64, '\1'))) + '\0')));
    else
      to.send (service_error ("open_segment", call.seqid, 8, "not offered"));
  };
  EXPECT_TRUE (
      push (connection, [&] { server_.serve_until (connection, "Memory:close_segments", 1); }));
  EXPECT_TRUE (push (connection, NOTHING));
  EXPECT_FALSE (tps_client_may_share_device (client_, device_));
}

TEST_F (HostileDevice, ThatDescribesAnInvalidDeviceIsAskedForNothing)
{
  Connection connection (-1);

  describe (15);
  EXPECT_TRUE (push (connection, [&] { server_.serve_until (connection, "Node:describe", 1); }));
  for (int i = 0; i < 4; i++)
    EXPECT_TRUE (push (connection, NOTHING));
  EXPECT_EQ (server_.n_calls["Memory:open_segment"], 0);
  EXPECT_FALSE (tps_client_may_share_device (client_, device_));
}

TEST_F (HostileDevice, ThatRefusesForWantOfRoomIsAskedAgainLater)
{
  Connection connection (-1);

  server_.serve["Memory:open_segment"] = [] (Connection &to, const ReceivedCall &call) {
    to.send (service_error ("open_segment", call.seqid, 7, "no room"));
  };
  EXPECT_TRUE (
      push (connection, [&] { server_.serve_until (connection, "Memory:open_segment", 1); }));
  for (int i = 0; i < 40; i++)
    EXPECT_TRUE (push (connection, NOTHING));
  EXPECT_TRUE (tps_client_may_share_device (client_, device_));
  EXPECT_GE (server_.n_calls["Memory:open_segment"], 2);
  EXPECT_LE (server_.n_calls["Memory:open_segment"], 4) << "not with every call";
}

TEST_F (HostileDevice, ALostDeviceOfOursCostsTheCall)
{
  TensorOutcome outcome;

  tps_fake_device_set_lost (device_, TRUE);
  tps_client_call (client_, "Calculator", "push", write_on_device, &on_device_, later (),
                   TensorOutcome::done, &outcome);
  outcome.outcome.wait ();
  EXPECT_EQ (outcome.outcome.code (), TPS_ERROR_DEVICE_LOST);
  tps_fake_device_set_lost (device_, FALSE);
}

} // namespace
} // namespace tps_test
