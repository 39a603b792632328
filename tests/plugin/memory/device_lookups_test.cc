/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests both sides of segments for results of lookups: the time when they are opened, memory that
 * is reserved before the reply, and its release. */

#include <algorithm>
#include <cstring>
#include <memory>

#include "runtime/device/device_memory.h"
#include "tests/plugin/memory/exporting_device.h"
#include "tests/plugin/memory/pool_pair.h"

namespace thriftps {

namespace {

constexpr gsize MIB = 1 << 20;

class DeviceLookups : public testing::Test
{
protected:
  ~DeviceLookups () override
  {
    pair_.reset ();
    EXPECT_EQ (ExportingDevice::n_exported (), 0);
    EXPECT_EQ (count_mappings (), 0);
  }

  void
  make (gsize server_max_bytes = 64 * MIB, TpsDevice *device = ExportingDevice::get ())
  {
    pair_ = std::make_unique<PoolPair> (64 * MIB, server_max_bytes, device,
                                        ExportingDevice::get ());
  }

  /* Makes the client receive a reply with tensors in host memory. */
  void
  receive_on_host (const std::vector<gsize> &sizes, TpsSharing *sharing = nullptr)
  {
    std::vector<std::vector<float>> tensors;

    for (gsize n_elems : sizes)
      tensors.emplace_back (n_elems);
    TpsMessage *message = make_message (sharing, tensors);
    if (sharing != nullptr)
      tps_segment_registry_commit (sharing);
    TpsSharing *view = tps_segment_pool_receive (pair_->pool, message);
    if (view != nullptr)
      tps_sharing_unref (view);
    tps_message_free (message);
    pair_->settle ();
  }

  static TpsTensor
  make_tensor (TpsBuffer *buffer, gsize offset, gsize n_elems, float value)
  {
    gint64 dim = static_cast<gint64> (n_elems);
    TpsTensor tensor = {};
    TpsShape shape;

    tps_shape_init (&shape, TPS_DTYPE_FLOAT32, 1, &dim, "shape", nullptr);
    tps_tensor_init_take (&tensor, &shape, tps_buffer_ref (buffer), offset);
    std::fill_n (static_cast<float *> (tps_tensor_data (&tensor)), n_elems, value);
    return tensor;
  }

  /* Returns a reply with two tensors in memory that was reserved for the reply. */
  TpsMessage *
  answer_on_device (TpsSharing *sharing, TpsBuffer *buffer, gsize n_elems)
  {
    TpsTensor tensors[] = { make_tensor (buffer, 0, n_elems, 3),
                            make_tensor (buffer, tps_sharing_round (4 * n_elems), n_elems, 4) };
    TpsWriter *out = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);
    gint16 id = 0;

    tps_writer_set_sharing (out, sharing);
    tps_writer_message_begin (out, "method", TPS_MESSAGE_REPLY, 1);
    tps_writer_struct_begin (out);
    for (TpsTensor &tensor : tensors)
      {
        tps_writer_field (out, ++id, TPS_WIRE_STRUCT);
        tps_tensor_encode (out, &tensor);
        tps_tensor_clear (&tensor);
      }
    tps_writer_struct_end (out);
    EXPECT_TRUE (tps_writer_message_end (out, nullptr));
    Scan scan = scan_bytes (join_pieces (out));
    tps_writer_free (out);
    TpsMessage *message = scan.messages[0];
    scan.messages.clear ();
    return message;
  }

  static std::vector<TpsTensor>
  read_on_device (TpsMessage *message)
  {
    std::vector<TpsTensor> tensors;
    TpsReader in;
    TpsWireType type;
    gint16 id;

    tps_reader_init (&in, message);
    tps_reader_struct_begin (&in);
    while (tps_reader_field (&in, &id, &type))
      {
        TpsFieldPath path = {};
        TpsTensor tensor = {};

        path.name = "tensor";
        EXPECT_TRUE (tps_device_tensor_struct.read (&in, &path, &tensor, nullptr));
        tensors.push_back (tensor);
      }
    return tensors;
  }

  guint
  n_opened (TpsSegmentKind kind)
  {
    return static_cast<guint> (
        std::count_if (pair_->opened.begin (), pair_->opened.end (),
                       [=] (const TpsSegmentRequest &one) { return one.kind == kind; }));
  }

  /* Reserves device memory for a reply. Returns NULL if there is no room. */
  TpsBuffer *
  reserve (gsize n_bytes)
  {
    g_clear_pointer (&answer_, tps_sharing_unref);
    answer_ = tps_segment_registry_answer (pair_->registry);
    return answer_ != nullptr
               ? tps_segment_registry_reserve (answer_, ExportingDevice::get (), n_bytes)
               : nullptr;
  }

  void
  end_answer ()
  {
    g_clear_pointer (&answer_, tps_sharing_unref);
  }

  std::unique_ptr<PoolPair> pair_;
  TpsSharing *answer_ = nullptr;
};

TEST_F (DeviceLookups, ResultsInHostMemoryHaveASegmentOpenedForAllOfThem)
{
  make ();
  receive_on_host ({ 1000 });
  EXPECT_EQ (pair_->opened.size (), 0u) << "too small";
  receive_on_host ({ 300000, 1000, 300000 });
  ASSERT_EQ (n_opened (TPS_SEGMENT_CUDA_IPC), 1u);
  for (const TpsSegmentRequest &one : pair_->opened)
    {
      EXPECT_EQ (one.use, TPS_SEGMENT_ANSWERS);
      EXPECT_EQ (one.for_lookups, one.kind == TPS_SEGMENT_CUDA_IPC);
      EXPECT_EQ (one.n_bytes, 4 * MIB) << "2,400,000 bytes";
    }
  for (int i = 0; i < 5; i++) /* results of tables in host memory */
    receive_on_host ({ 300000, 300000 });
  EXPECT_EQ (n_opened (TPS_SEGMENT_CUDA_IPC), 1u);
}

/* The server has no room for the results on the device. It shares the first result in host memory
 * and sends the others inline. */
TEST_F (DeviceLookups, ResultsInSharedHostMemoryHaveALargerOneOpened)
{
  make ();
  receive_on_host ({ 100000 });
  receive_on_host ({ 100000, 100000 });
  guint n_before = n_opened (TPS_SEGMENT_CUDA_IPC);
  TpsSharing *sharing = tps_segment_registry_answer (pair_->registry);
  receive_on_host ({ 260000, 270000, 270000 }, sharing);
  tps_sharing_unref (sharing);
  EXPECT_EQ (n_opened (TPS_SEGMENT_CUDA_IPC), n_before + 1);
  EXPECT_EQ (pair_->opened.back ().n_bytes, 4 * MIB);
}

TEST_F (DeviceLookups, ReservedMemoryIsTheReplyWithoutACopy)
{
  make ();
  receive_on_host ({ 300000, 300000 });
  TpsBuffer *buffer = reserve (2400000);
  ASSERT_NE (buffer, nullptr);
  EXPECT_EQ (tps_device_memory_of_buffer (buffer), ExportingDevice::get ());
  ExportingDevice::n_failing_copies = 1;
  TpsMessage *message = answer_on_device (answer_, buffer, 300000);
  EXPECT_EQ (ExportingDevice::n_failing_copies, 1) << "nothing was copied";
  ExportingDevice::n_failing_copies = 0;
  tps_segment_registry_commit (answer_);
  tps_buffer_unref (buffer);
  end_answer ();
  message->sharing = tps_segment_pool_receive (pair_->pool, message);
  std::vector<TpsTensor> tensors = read_on_device (message);
  tps_message_free (message);
  ASSERT_EQ (tensors.size (), 2u);
  EXPECT_EQ (reserve (64), nullptr) << "lent";
  end_answer ();
  for (float value : { 3.0f, 4.0f })
    {
      TpsTensor *tensor = &tensors[value == 3 ? 0 : 1];
      const float *values = static_cast<const float *> (tps_tensor_data (tensor));

      EXPECT_EQ (tps_device_memory_of_tensor (tensor), ExportingDevice::get ());
      EXPECT_TRUE (std::all_of (values, values + 300000, [=] (float v) { return v == value; }));
      tps_tensor_clear (tensor);
    }
  pair_->settle ();
  buffer = reserve (64);
  EXPECT_NE (buffer, nullptr) << "released";
  tps_buffer_unref (buffer);
  end_answer ();
}

TEST_F (DeviceLookups, AReplyThatFailsReleasesItsMemory)
{
  make ();
  receive_on_host ({ 300000 });
  TpsBuffer *buffer = reserve (1200000);
  ASSERT_NE (buffer, nullptr);
  end_answer ();
  EXPECT_EQ (reserve (64), nullptr) << "the results still lie there";
  end_answer ();
  tps_buffer_unref (buffer);
  buffer = reserve (64);
  EXPECT_NE (buffer, nullptr);
  tps_buffer_unref (buffer);
  end_answer ();
}

TEST_F (DeviceLookups, TooSmallSegmentsAreNotUsed)
{
  make ();
  receive_on_host ({ 300000 });
  EXPECT_EQ (reserve (2 * MIB + 1), nullptr);
  TpsBuffer *buffer = reserve (2 * MIB);
  EXPECT_NE (buffer, nullptr);
  tps_buffer_unref (buffer);
  end_answer ();
}

TEST_F (DeviceLookups, SegmentsForAveragesAreNotUsed)
{
  guint8 handle[TPS_EXPORT_HANDLE_BYTES];
  gint64 id;
  gsize size;

  make ();
  EXPECT_EQ (reserve (64), nullptr) << "there are none";
  ASSERT_TRUE (tps_segment_registry_open_exported (pair_->registry, TPS_SEGMENT_ANSWERS, MIB, &id,
                                                   &size, handle, nullptr));
  EXPECT_EQ (reserve (64), nullptr);
  end_answer ();
}

TEST_F (DeviceLookups, ASegmentThatIsClosedMeanwhileStaysUntilItIsReleased)
{
  make ();
  receive_on_host ({ 300000 });
  TpsBuffer *buffer = reserve (1200000);
  ASSERT_NE (buffer, nullptr);
  tps_segment_pool_shut_down (pair_->pool);
  tps_segment_registry_shut_down (pair_->registry);
  memset (tps_buffer_get_data (buffer), 1, 1200000);
  EXPECT_EQ (ExportingDevice::n_exported (), 1);
  end_answer ();
  EXPECT_EQ (ExportingDevice::n_exported (), 1);
  tps_buffer_unref (buffer);
  EXPECT_EQ (ExportingDevice::n_exported (), 0);
}

TEST_F (DeviceLookups, AServerWithoutThemSendsAllResultsInHostMemory)
{
  make (64 * MIB, nullptr);
  receive_on_host ({ 300000 });
  receive_on_host ({ 600000 });
  EXPECT_EQ (n_opened (TPS_SEGMENT_CUDA_IPC), 0u);
  EXPECT_GE (n_opened (TPS_SEGMENT_MEMFD), 1u);
}

/* The server refuses slices of device memory as arguments of lookups and pushes, so the client must
 * copy them to the host. */
TEST_F (DeviceLookups, ArgumentsOnTheDeviceAreCopiedToTheHost)
{
  TpsDevice *device = ExportingDevice::get ();
  TpsSharedSlice slice;

  make ();
  receive_on_host ({ 300000 });
  TpsSharing *lease = tps_segment_pool_lease (pair_->pool);
  EXPECT_FALSE (tps_segment_pool_may_take (pair_->pool, device));
  EXPECT_FALSE (lease->ops->place_device (lease, device, "bytes", 5, &slice));
  tps_segment_lease_end (lease, TRUE);
  tps_sharing_unref (lease);
}

}

}
