/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests both sides of shared device memory: the time when it is opened, and the tensors placed
 * there. Memory must be closed before it is freed. */

#include <algorithm>
#include <memory>
#include <random>

#include "runtime/device/device_memory.h"
#include "tests/plugin/memory/exporting_device.h"
#include "tests/plugin/memory/pool_pair.h"

namespace thriftps {

namespace {

constexpr gsize MIB = 1 << 20;

/* A gradient in device memory, with distinct contents. */
struct Gradient
{
  explicit Gradient (gsize n_elems, float value = 1)
  {
    gint64 dim = static_cast<gint64> (n_elems);
    TpsDevice *device = ExportingDevice::get ();
    TpsShape shape;

    tps_shape_init (&shape, TPS_DTYPE_FLOAT32, 1, &dim, "shape", nullptr);
    gradient.kind = TPS_GRADIENT_DENSE;
    gradient.weight = 1;
    tps_tensor_init_take (&gradient.dense, &shape,
                          device->ops->alloc (device, tps_shape_n_bytes (&shape), nullptr), 0);
    std::fill_n (static_cast<float *> (tps_tensor_data (&gradient.dense)), n_elems, value);
  }
  ~Gradient ()
  {
    tps_gradient_clear (&gradient);
  }
  Gradient (const Gradient &) = delete;

  TpsGradient gradient = {};
};

TpsMessage *
make_gradient_message (TpsSharing *sharing, const TpsGradient &gradient)
{
  TpsWriter *out = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);

  tps_writer_set_sharing (out, sharing);
  tps_writer_message_begin (out, "method", TPS_MESSAGE_REPLY, 1);
  tps_writer_struct_begin (out);
  tps_writer_field (out, 1, TPS_WIRE_STRUCT);
  tps_struct_write (&tps_gradient_struct, out, &gradient);
  tps_writer_struct_end (out);
  EXPECT_TRUE (tps_writer_message_end (out, nullptr));
  Scan scan = scan_bytes (join_pieces (out));
  tps_writer_free (out);
  TpsMessage *message = scan.messages[0];
  scan.messages.clear ();
  return message;
}

/* The contents of a message, and the buffers that the message keeps alive. */
struct Received
{
  explicit Received (TpsMessage *message)
  {
    TpsFieldPath path = {};
    TpsReader in;
    TpsWireType type;
    gint16 id;

    path.name = "gradient";
    tps_reader_init (&in, message);
    tps_reader_struct_begin (&in);
    tps_reader_field (&in, &id, &type);
    tps_struct_read (&tps_gradient_struct, &in, &path, &gradient, &error);
    tps_message_free (message);
  }
  ~Received ()
  {
    tps_gradient_clear (&gradient);
    g_clear_error (&error);
  }
  Received (const Received &) = delete;

  bool
  was_there () const
  {
    return tps_device_memory_of_tensor (&gradient.dense) != nullptr;
  }
  bool
  is_all (gsize n_elems, float value) const
  {
    const float *values = static_cast<const float *> (tps_tensor_data (&gradient.dense));

    return error == nullptr && static_cast<gsize> (gradient.dense.shape.dims[0]) == n_elems
           && std::all_of (values, values + n_elems, [=] (float v) { return v == value; });
  }

  TpsGradient gradient = {};
  GError *error = nullptr;
};

void
nothing (gpointer)
{
}

class DevicePool : public testing::Test
{
protected:
  ~DevicePool () override
  {
    ExportingDevice::refuses = false;
    ExportingDevice::n_failing_copies = 0;
    pair_.reset ();
    EXPECT_EQ (ExportingDevice::n_exported (), 0);
    EXPECT_EQ (count_mappings (), 0);
  }

  void
  make (gsize client_max_bytes = 64 * MIB, gsize server_max_bytes = 64 * MIB,
        TpsDevice *device = ExportingDevice::get ())
  {
    pair_ = std::make_unique<PoolPair> (client_max_bytes, server_max_bytes, device);
  }

  TpsSharing *
  write (const Gradient &gradient, TpsMessage **message)
  {
    TpsSharing *lease = tps_segment_pool_lease (pair_->pool);

    *message = make_gradient_message (lease, gradient.gradient);
    tps_segment_lease_written (lease);
    return lease;
  }

  static void
  end (TpsSharing *lease, gboolean given_back = TRUE)
  {
    tps_segment_lease_end (lease, given_back);
    tps_sharing_unref (lease);
  }

  /* Makes one call. Returns true if the server found its gradient in device memory. */
  bool
  push (gsize n_elems, gboolean given_back = TRUE)
  {
    TpsMessage *message;
    TpsSharing *lease = write (Gradient (n_elems, 7), &message);

    message->sharing = tps_segment_registry_receive (pair_->registry, nothing, nullptr);
    Received received (message);
    EXPECT_TRUE (received.is_all (n_elems, 7));
    end (lease, given_back);
    return received.was_there ();
  }

  /* Returns the server's reply as the client receives it. */
  std::unique_ptr<Received>
  answer (const TpsGradient &average)
  {
    TpsSharing *sharing = tps_segment_registry_answer (pair_->registry);
    TpsMessage *message = make_gradient_message (sharing, average);

    if (sharing != nullptr)
      {
        tps_segment_registry_commit (sharing);
        tps_sharing_unref (sharing);
      }
    message->sharing = tps_segment_pool_receive (pair_->pool, message);
    return std::make_unique<Received> (message);
  }

  std::unique_ptr<PoolPair> pair_;
};

TEST_F (DevicePool, TensorsThatCannotBeCopiedGoByWayOfTheHostAndTakeNoSegment)
{
  TpsSharingStats stats = {};
  Gradient average (100000, 3);

  make ();
  push (100000);
  pair_->settle ();
  ExportingDevice::n_failing_copies = 1;
  EXPECT_FALSE (push (100000));
  for (int i = 0; i < 2; i++)
    {
      ExportingDevice::n_failing_copies = 1;
      std::unique_ptr<Received> inline_one = answer (average.gradient);
      EXPECT_FALSE (inline_one->was_there ());
      EXPECT_TRUE (inline_one->is_all (100000, 3));
    }
  EXPECT_EQ (ExportingDevice::n_failing_copies, 0);
  tps_segment_pool_add_stats (pair_->pool, &stats);
  EXPECT_EQ (stats.sent_shared.n_tensors, 0u);
  EXPECT_EQ (stats.sent_inline.n_tensors, 2u);
  std::unique_ptr<Received> first = answer (average.gradient), second = answer (average.gradient);
  EXPECT_TRUE (first->was_there () && second->was_there ()) << "both are free still";
}

TEST_F (DevicePool, MemoryOfAnotherSizeIsNotUsed)
{
  guint8 handle[TPS_EXPORT_HANDLE_BYTES] = { 0 };
  g_autoptr (GError) error = nullptr;

  make ();
  push (100000);
  pair_->ask ();
  pair_->answer ();
  pair_->ask ();
  ASSERT_EQ (pair_->asked.front ().kind, TPS_SEGMENT_CUDA_IPC);
  tps_segment_request_clear (&pair_->asked.front ());
  pair_->asked.clear ();
  EXPECT_FALSE (tps_segment_pool_opened (pair_->pool, 99, 4 * MIB, handle, &error));
  EXPECT_EQ (error->code, TPS_ERROR_INTERNAL);
  EXPECT_FALSE (tps_segment_pool_may_take (pair_->pool, ExportingDevice::get ()));
  pair_->ask ();
  ASSERT_EQ (pair_->asked.size (), 1u) << "it is closed";
  EXPECT_EQ (pair_->asked.front ().ask, TPS_SEGMENT_ASK_CLOSE);
  tps_segment_request_clear (&pair_->asked.front ());
  pair_->asked.clear ();
}

TEST_F (DevicePool, ADescriptorIsNotTakenForMemoryOfADevice)
{
  make ();
  push (100000);
  pair_->ask ();
  pair_->answer ();
  pair_->ask ();
  EXPECT_FALSE (tps_segment_pool_add_descriptor (pair_->pool, dup (0)));
  while (!pair_->asked.empty ())
    pair_->answer ();
}

TEST_F (DevicePool, WhenTheConnectionGoesEverythingIsLetGoOf)
{
  TpsMessage *message;

  make ();
  push (100000);
  pair_->settle ();
  Gradient average (100000, 3);
  std::unique_ptr<Received> kept = answer (average.gradient);
  TpsSharing *lease = write (Gradient (100000), &message);
  tps_message_free (message);
  tps_segment_pool_shut_down (pair_->pool);
  EXPECT_FALSE (tps_segment_pool_may_take (pair_->pool, ExportingDevice::get ()));
  EXPECT_EQ (ExportingDevice::n_open (), 2) << "the written and the read segment";
  end (lease, FALSE);
  EXPECT_TRUE (kept->is_all (100000, 3));
  kept.reset ();
  EXPECT_EQ (ExportingDevice::n_open (), 0);
}

/* Makes calls and replies of random sizes while requests are in flight. Some calls are never
 * answered. */
class RandomDevicePool : public DevicePool, public testing::WithParamInterface<unsigned>
{
};

TEST_P (RandomDevicePool, NothingIsFreedThatIsOpenAndNothingIsLeft)
{
  std::mt19937 random (GetParam ());
  std::vector<std::pair<std::unique_ptr<Received>, float>> kept;
  guint n_there = 0;

  make (12 * MIB, (GetParam () % 3 == 0 ? 8 : 64) * MIB);
  for (int i = 0; i < 200; i++)
    {
      float value = static_cast<float> (i);
      gsize n_elems = random () % 4 == 0    ? random () % 100
                      : random () % 16 == 0 ? MIB / 4 * 3
                                            : 16384 + random () % 100000;

      if (random () % 2 == 0)
        pair_->ask ();
      if (random () % 2 == 0 && !pair_->asked.empty ())
        pair_->answer ();
      if (random () % 2 == 0)
        {
          while (!pair_->asked.empty ())
            pair_->answer (); /* requests that precede the call are processed first */
          n_there += push (n_elems, random () % 8 != 0);
        }
      else
        kept.emplace_back (answer (Gradient (n_elems, value).gradient), value);
      while (kept.size () > random () % 4)
        {
          auto &[received, expected] = kept.front ();
          gsize n_kept = static_cast<gsize> (received->gradient.dense.shape.dims[0]);

          EXPECT_TRUE (received->is_all (n_kept, expected));
          n_there += received->was_there ();
          kept.erase (kept.begin ());
        }
      ASSERT_FALSE (HasFailure ()) << "step " << i;
    }
  kept.clear ();
  pair_->settle ();
  EXPECT_GT (n_there, 0u);
}

INSTANTIATE_TEST_SUITE_P (Seeds, RandomDevicePool, testing::Range (1u, 9u));

}

}
