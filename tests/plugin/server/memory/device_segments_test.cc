// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests segments in memory of the server's device. A client can break the rules even without
// opening the segments. In tests/integration/device_memory, processes do open them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugin/wire/wire_memory.h"
#include "plugin/wire/wire_parameter_server.h"
#include "plugin/wire/wire_node.h"
#include "tests/plugin/server/memory/plugin_server.h"
#include "tests/plugin/server/memory/shared_client.h"
#include "tests/runtime/fake_device/fake_device.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace thriftps_test {
namespace {

constexpr gint64 kMiB = 1 << 20;
constexpr gint64 kBlock = 2 * kMiB;

TpsDevice *
Device ()
{
  return tps_fake_device_get (0);
}

TpsServerOptions
OnDevice ()
{
  static TpsServerParts parts;
  TpsServerOptions options = {};

  parts = {};
  parts.device = Device ();
  options.parts = &parts;
  return options;
}

WriteFields
Average (gint32 trainer, gint64 batch, const WriteFields &tensor)
{
  return [=] (TpsWriter *out) {
    put_i32 (out, 1, trainer);
    put_i64 (out, 2, batch);
    put_i32 (out, 3, 0);
    tps_writer_field (out, 4, TPS_WIRE_STRUCT);
    tps_writer_struct_begin (out);
    tps_writer_field (out, 1, TPS_WIRE_STRUCT);
    tensor (out);
    tps_writer_struct_end (out);
  };
}

// The tensor of a reply: its bytes, or the slice that it names.
struct Answered
{
  TpsSharing sharing = { &kOps }; // must be the first member
  TpsSharedSlice slice = {};
  std::string bytes;

  explicit Answered (Message answer)
  {
    g_auto (TpsGradient) average = {};
    TpsWireType type;
    TpsReader in;
    gint16 id;

    EXPECT_EQ (ErrorCode (answer), 0) << ErrorText (answer);
    answer->sharing = &sharing;
    tps_reader_init (&in, answer.get ());
    tps_reader_struct_begin (&in);
    tps_reader_field (&in, &id, &type);
    if (tps_rpc_read_result (&tps_average_gradient_rpc, &in, type, &average, nullptr)
        && slice.segment == 0)
      bytes.assign (static_cast<const char *> (tps_tensor_data (&average.dense)),
                    tps_shape_n_bytes (&average.dense.shape));
  }

  static TpsBuffer *
  Resolve (TpsSharing *sharing, const TpsSharedSlice *slice, GError **error)
  {
    reinterpret_cast<Answered *> (sharing)->slice = *slice;
    return tps_buffer_new_zeroed (static_cast<gsize> (slice->length));
  }
  static void
  Ignore (TpsSharing *)
  {
  }

  static constexpr TpsSharingOps kOps = { nullptr, Resolve, Ignore, Ignore, nullptr, nullptr };
};

class DeviceSegments : public testing::Test
{
protected:
  TpsSegmentInfo
  Open (SharedClient *client, TpsSegmentUse use, gint64 n_bytes)
  {
    TpsSegmentInfo info = {};

    client->raw ().Send ("Memory:open_segment", 0, OpenFields (2, use, n_bytes));
    if (!client->Receive (ReadResultOf<tps_open_segment_rpc>, &info))
      throw std::runtime_error (client->LastError ());
    return info;
  }
  int
  OpenRefusal (SharedClient *client, gint64 n_bytes)
  {
    return ErrorCode (client->raw ().Call ("Memory:open_segment", OpenFields (2, 1, n_bytes)));
  }
  std::string
  Refusal (const std::string &method, const WriteFields &fields)
  {
    Message answer = client_->raw ().Call (method, fields);

    EXPECT_EQ (ErrorCode (answer), 1) << ErrorText (answer);
    return ErrorText (answer);
  }
  std::string
  SliceRefusal (TpsSharedSlice slice)
  {
    return Refusal ("ParameterServer:average_gradient",
                    Average (0, 1, SharedTensor (1, { slice.length / 4 }, slice)));
  }
  Message
  Push (gint64 batch, TpsSharedSlice slice)
  {
    return client_->raw ().Call ("ParameterServer:average_gradient",
                                 Average (0, batch, SharedTensor (1, { slice.length / 4 }, slice)));
  }
  void
  Start (guint n_trainers = 1, TpsServerOptions options = OnDevice ())
  {
    client_.reset ();
    server_ = std::make_unique<PluginServer> (options, n_trainers);
    client_ = std::make_unique<SharedClient> (server_->Unix ());
  }

  gsize n_bytes_before_ = tps_fake_device_get_n_bytes (Device ());
  std::unique_ptr<PluginServer> server_;
  std::unique_ptr<SharedClient> client_;
};

TEST_F (DeviceSegments, AreForLookupsOnlyIfGradientsAreAveragedElsewhere)
{
  for (gboolean for_lookups_only : { 0, 1 })
    {
      g_auto (TpsNodeInfo) info = {};
      TpsServerOptions options = OnDevice ();
      TpsServerParts parts = *options.parts;
      parts.device_for_lookups_only = for_lookups_only;
      options.parts = &parts;
      Start (1, options);
      client_->raw ().Send ("Node:describe", 0);
      ASSERT_TRUE (client_->Receive (ReadResultOf<tps_describe_rpc>, &info));
      EXPECT_TRUE (info.has_lookup_device);
      EXPECT_EQ (info.has_shared_device, !for_lookups_only);
      EXPECT_EQ (OpenRefusal (client_.get (), kBlock), for_lookups_only ? 8 : 0);
      EXPECT_EQ (
          ErrorCode (client_->raw ().Call ("Memory:open_lookup_segment",
                                           [] (TpsWriter *out) { put_i64 (out, 1, kBlock); })),
          0);
    }
}

TEST_F (DeviceSegments, AreZerosInWholeBlocks)
{
  Start ();
  TpsSegmentInfo info = Open (client_.get (), TPS_SEGMENT_REQUESTS, 1);

  EXPECT_EQ (info.n_bytes, kBlock);
  EXPECT_TRUE (info.has_handle);
  EXPECT_EQ (Answered (Push (1, { info.id, 0, kBlock })).bytes, std::string (kBlock, '\0'));
  EXPECT_EQ (Answered (Push (2, { info.id, kBlock - 64, 4 })).bytes, std::string (4, '\0'));
  EXPECT_EQ (Answered (Push (3, { info.id, kBlock, 0 })).bytes, "");
}

TEST_F (DeviceSegments, SlicesThatAreNotThereAreRefused)
{
  Start ();
  SharedClient other (server_->Unix ());
  gint64 id = Open (client_.get (), TPS_SEGMENT_REQUESTS, 1).id;
  gint64 answers = Open (client_.get (), TPS_SEGMENT_ANSWERS, 1).id;
  gint64 closed = Open (client_.get (), TPS_SEGMENT_REQUESTS, 1).id;
  gint64 foreign = Open (&other, TPS_SEGMENT_REQUESTS, 1).id;

  client_->Close (closed);
  for (TpsSharedSlice slice :
       std::initializer_list<TpsSharedSlice> { { id, 0, kBlock + 4 },
                                               { id, 64, kBlock },
                                               { id, kBlock + 64, 0 },
                                               { id, -64, 64 },
                                               { id, G_MAXINT64 / 64 * 64, 64 },
                                               { id, 64, G_MAXINT64 / 4 * 4 } })
    EXPECT_THAT (SliceRefusal (slice), testing::HasSubstr ("gradient.dense.shared has offset"));
  EXPECT_THAT (SliceRefusal ({ id, 4, 4 }), testing::HasSubstr ("expected a multiple of 64"));
  EXPECT_THAT (SliceRefusal ({ answers, 0, 64 }), testing::HasSubstr ("is for replies"));
  for (gint64 wrong : { closed, foreign })
    EXPECT_THAT (SliceRefusal ({ wrong, 0, 64 }), testing::HasSubstr ("not open on this"));
}

TEST_F (DeviceSegments, NothingButDenseFloatingPointGradientsMayLieThere)
{
  Start ();
  gint64 id = Open (client_.get (), TPS_SEGMENT_REQUESTS, 1).id;
  auto refused = testing::HasSubstr ("lies in memory of cuda:0, where only dense");
  std::string ids (16, '\0');

  EXPECT_THAT (Refusal ("ParameterServer:average_gradient",
                        Average (0, 1, SharedTensor (TPS_DTYPE_INT64, { 8 }, { id, 0, 64 }))),
               refused);
  EXPECT_THAT (Refusal ("ParameterServer:average_gradient",
                        [=] (TpsWriter *out) {
                          put_i32 (out, 1, 0);
                          put_i64 (out, 2, 1);
                          put_i32 (out, 3, 0);
                          tps_writer_field (out, 4, TPS_WIRE_STRUCT);
                          tps_writer_struct_begin (out);
                          tps_writer_field (out, 2, TPS_WIRE_STRUCT);
                          tps_writer_struct_begin (out);
                          tps_writer_field (out, 2, TPS_WIRE_STRUCT);
                          SharedTensor (1, { 2, 8 }, { id, 0, 64 }) (out);
                          tps_writer_struct_end (out);
                          tps_writer_struct_end (out);
                        }),
               refused);
  EXPECT_THAT (Refusal ("ParameterServer:init_model",
                        [=] (TpsWriter *out) {
                          tps_writer_field (out, 1, TPS_WIRE_LIST);
                          tps_writer_list_begin (out, TPS_WIRE_STRUCT, 1);
                          tps_writer_struct_begin (out);
                          tps_writer_field (out, 1, TPS_WIRE_BINARY);
                          tps_writer_string (out, "weight");
                          tps_writer_field (out, 2, TPS_WIRE_STRUCT);
                          SharedTensor (1, { 16 }, { id, 0, 64 }) (out);
                          tps_writer_struct_end (out);
                        }),
               refused);
}

TEST_F (DeviceSegments, HaveALimitOfTheirOwn)
{
  TpsServerOptions options = OnDevice ();

  options.max_shared_bytes = 4 * kMiB;
  Start (1, options);
  gint64 first = Open (client_.get (), TPS_SEGMENT_REQUESTS, kBlock).id;
  client_->Open (TPS_SEGMENT_REQUESTS, 4 * kMiB);
  Open (client_.get (), TPS_SEGMENT_ANSWERS, kBlock);
  EXPECT_EQ (OpenRefusal (client_.get (), 1), 7);
  client_->Close (first);
  Open (client_.get (), TPS_SEGMENT_REQUESTS, kBlock);
}

TEST_F (DeviceSegments, WithoutMemoryOrADeviceTheRestIsServed)
{
  Start ();
  tps_fake_device_fail_alloc (Device (), 1);
  EXPECT_EQ (OpenRefusal (client_.get (), kBlock), 7);
  tps_fake_device_fail_alloc (Device (), 0);
  tps_fake_device_set_lost (Device (), TRUE);
  EXPECT_EQ (OpenRefusal (client_.get (), kBlock), 8);
  client_->Open (TPS_SEGMENT_REQUESTS, kBlock);
  tps_fake_device_set_lost (Device (), FALSE);
  Open (client_.get (), TPS_SEGMENT_REQUESTS, kBlock);
}

} // namespace
} // namespace thriftps_test
