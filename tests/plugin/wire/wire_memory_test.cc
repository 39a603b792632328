/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the arguments and results of the Memory service. */

#include "plugin/wire/wire_memory.h"

#include <numeric>
#include <vector>

#include "tests/plugin/wire/wire_message.h"

namespace thriftps {
namespace {

TEST (OpenSegment, argumentsComeAsTheyWent)
{
  for (TpsSegmentUse use :
       { TPS_SEGMENT_REQUESTS, TPS_SEGMENT_ANSWERS, TPS_SEGMENT_COMMON_ANSWERS })
    {
      TpsSegmentKind kind = use == TPS_SEGMENT_REQUESTS ? TPS_SEGMENT_MEMFD : TPS_SEGMENT_CUDA_IPC;
      TpsOpenSegmentArguments sent = { kind, use, G_GINT64_CONSTANT (1) << 40 };
      TpsOpenSegmentArguments got = {};
      WireMessage message (
          [&] (TpsWriter *out) { tps_rpc_write_arguments (&tps_open_segment_rpc, out, &sent); });

      ASSERT_TRUE (
          tps_rpc_read_arguments (&tps_open_segment_rpc, message.arguments (), &got, nullptr));
      EXPECT_EQ (got.kind, kind);
      EXPECT_EQ (got.use, use);
      EXPECT_EQ (got.n_bytes, sent.n_bytes);
    }
}

TEST (OpenSegment, resultComesAsItWent)
{
  TpsSegmentInfo sent = { 7, 8192 };
  TpsSegmentInfo got = {};
  WireMessage message (
      [&] (TpsWriter *out) { tps_rpc_write_result (&tps_open_segment_rpc, out, &sent); });
  TpsWireType type;
  TpsReader *in = message.result (&type);

  ASSERT_TRUE (tps_rpc_read_result (&tps_open_segment_rpc, in, type, &got, nullptr));
  EXPECT_EQ (got.id, 7);
  EXPECT_EQ (got.n_bytes, 8192);
  EXPECT_FALSE (got.has_handle);
}

TEST (OpenSegment, resultOfMemoryOfADeviceCarriesItsHandle)
{
  TpsSegmentInfo sent = { 7, 8192, TRUE, "any bytes" };
  TpsSegmentInfo got = {};
  WireMessage message (
      [&] (TpsWriter *out) { tps_rpc_write_result (&tps_open_segment_rpc, out, &sent); });
  TpsWireType type;
  TpsReader *in = message.result (&type);

  ASSERT_TRUE (tps_rpc_read_result (&tps_open_segment_rpc, in, type, &got, nullptr));
  EXPECT_TRUE (got.has_handle);
  EXPECT_EQ (memcmp (got.handle, sent.handle, sizeof sent.handle), 0);
}

TEST (OpenSegment, aHandleOfAnotherSizeIsRefused)
{
  WireMessage message ([] (TpsWriter *out) {
    tps_writer_field (out, 0, TPS_WIRE_STRUCT);
    tps_writer_struct_begin (out);
    put_i64 (out, 1, 7);
    put_i64 (out, 2, 8192);
    tps_writer_field (out, 3, TPS_WIRE_BINARY);
    tps_writer_binary (out, "short", 5);
    tps_writer_struct_end (out);
  });
  g_autoptr (GError) error = nullptr;
  TpsSegmentInfo got = {};
  TpsWireType type;
  TpsReader *in = message.result (&type);

  EXPECT_FALSE (tps_rpc_read_result (&tps_open_segment_rpc, in, type, &got, &error));
  EXPECT_STREQ (error->message, "segment.handle has 5 bytes, expected 64");
}

std::string
open_refusal (gint32 kind, gint32 use, gint64 n_bytes)
{
  return refusal (
      [=] (TpsWriter *out) {
        put_i32 (out, 1, kind);
        put_i32 (out, 2, use);
        put_i64 (out, 3, n_bytes);
      },
      [] (TpsReader *in, GError **error) {
        TpsOpenSegmentArguments arguments = {};

        return tps_rpc_read_arguments (&tps_open_segment_rpc, in, &arguments, error);
      });
}

TEST (OpenSegment, badFieldsAreNamed)
{
  EXPECT_EQ (open_refusal (1, 2, 1), "");
  EXPECT_EQ (open_refusal (2, 1, 1), "");
  EXPECT_EQ (open_refusal (3, 1, 1), "kind is 3, expected 1 (MEMFD) or 2 (CUDA_IPC)");
  EXPECT_EQ (open_refusal (0, 1, 1), "kind is 0, expected 1 (MEMFD) or 2 (CUDA_IPC)");
  EXPECT_EQ (open_refusal (1, 3, 1), "");
  EXPECT_EQ (open_refusal (1, 0, 1), "segment_use is 0, which is not a valid SegmentUse");
  EXPECT_EQ (open_refusal (1, 4, 1), "segment_use is 4, which is not a valid SegmentUse");
  EXPECT_EQ (open_refusal (1, 1, 0), "bytes is 0, expected > 0");
  EXPECT_EQ (open_refusal (1, 1, -4096), "bytes is -4096, expected > 0");
}

std::string
ids_refusal (const Write &write)
{
  return refusal (write, [] (TpsReader *in, GError **error) {
    g_auto (TpsSegmentIds) ids = {};

    return tps_rpc_read_arguments (&tps_release_segments_rpc, in, &ids, error);
  });
}

TEST (SegmentIds, comeAsTheyWent)
{
  for (guint n_ids : { 0u, 1u, 1000u })
    {
      std::vector<gint64> ids (n_ids);
      std::iota (ids.begin (), ids.end (), 0);
      TpsSegmentIds sent = { n_ids, ids.data () };
      g_auto (TpsSegmentIds) got = {};

      WireMessage message ([&] (TpsWriter *out) {
        tps_rpc_write_arguments (&tps_release_segments_rpc, out, &sent);
      });
      ASSERT_TRUE (
          tps_rpc_read_arguments (&tps_release_segments_rpc, message.arguments (), &got, nullptr));
      EXPECT_EQ (std::vector<gint64> (got.ids, got.ids + got.n_ids), ids);
    }
}

TEST (SegmentIds, badFieldsAreNamed)
{
  EXPECT_EQ (ids_refusal ([] (TpsWriter *) {}), "segments is missing");
  EXPECT_EQ (ids_refusal ([] (TpsWriter *out) { put_i64 (out, 1, 3); }),
             "segments is of type i64, expected list");
}

} // namespace
} // namespace thriftps
