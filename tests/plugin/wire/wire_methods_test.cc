/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the arguments and results of Rendezvous and Node. */

#include <cmath>

#include "plugin/wire/wire_node.h"
#include "plugin/wire/wire_rendezvous.h"
#include "tests/plugin/wire/wire_message.h"

namespace thriftps {
namespace {

/* ---- Rendezvous ----------------------------------------------------------------------------- */

class Rendezvous : public testing::Test
{
protected:
  ~Rendezvous () override
  {
    tps_rendezvous_arguments_clear (&sent);
    tps_rendezvous_arguments_clear (&got);
  }

  void
  round_trip (const TpsRpc &rpc)
  {
    WireMessage message ([&] (TpsWriter *out) { tps_rpc_write_arguments (&rpc, out, &sent); });

    ASSERT_TRUE (tps_rpc_read_arguments (&rpc, message.arguments (), &got, nullptr));
    EXPECT_STREQ (got.key, sent.key);
  }

  static std::string
  rendezvous_refusal (const TpsRpc &rpc, const Write &write)
  {
    return refusal (write, [&] (TpsReader *in, GError **error) {
      g_auto (TpsRendezvousArguments) arguments = {};

      return tps_rpc_read_arguments (&rpc, in, &arguments, error);
    });
  }

  TpsRendezvousArguments sent = {};
  TpsRendezvousArguments got = {};
};

TEST_F (Rendezvous, putComesAsItWent)
{
  for (gsize n_bytes : { 0, 10, 100000 })
    {
      std::string bytes (n_bytes, 'v');

      tps_rendezvous_arguments_clear (&sent);
      tps_rendezvous_arguments_clear (&got);
      sent.key = g_strdup ("pass.1/rank:0");
      sent.value = g_bytes_new (bytes.data (), bytes.size ());
      round_trip (tps_rendezvous_put_rpc);
      EXPECT_TRUE (g_bytes_equal (got.value, sent.value));
    }
}

TEST_F (Rendezvous, getComesAsItWent)
{
  sent.key = g_strdup ("k");
  sent.timeout_ms = 12345;
  round_trip (tps_rendezvous_get_rpc);
  EXPECT_EQ (got.timeout_ms, 12345);
}

TEST_F (Rendezvous, addComesAsItWentWithAndWithoutPushId)
{
  sent.key = g_strdup ("k");
  sent.amount = -3;
  round_trip (tps_rendezvous_add_rpc);
  EXPECT_EQ (got.amount, -3);
  EXPECT_EQ (got.push.client, nullptr);

  sent.push.client = g_strdup ("c");
  sent.push.sequence = 9;
  tps_rendezvous_arguments_clear (&got);
  round_trip (tps_rendezvous_add_rpc);
  EXPECT_STREQ (got.push.client, "c");
  EXPECT_EQ (got.push.sequence, 9);
}

TEST_F (Rendezvous, removeComesAsItWent)
{
  sent.key = g_strdup ("prefix/");
  round_trip (tps_rendezvous_remove_rpc);
}

TEST_F (Rendezvous, badFieldsAreNamed)
{
  EXPECT_EQ (rendezvous_refusal (tps_rendezvous_put_rpc, [] (TpsWriter *) {}), "key is missing");
  EXPECT_EQ (rendezvous_refusal (tps_rendezvous_remove_rpc, [] (TpsWriter *) {}),
             "prefix is missing");
  EXPECT_EQ (rendezvous_refusal (tps_rendezvous_put_rpc,
                                 [] (TpsWriter *out) { put_string (out, 1, "k"); }),
             "value is missing");
  EXPECT_EQ (
      rendezvous_refusal (tps_rendezvous_get_rpc, [] (TpsWriter *out) { put_string (out, 1, ""); }),
      "key is not a name: 1 to 255 characters of A-Z a-z 0-9 _ . : / -");
  EXPECT_EQ (rendezvous_refusal (tps_rendezvous_get_rpc,
                                 [] (TpsWriter *out) {
                                   put_string (out, 1, "k");
                                   put_i32 (out, 2, -1);
                                 }),
             "timeout_ms is -1, expected >= 0");
  EXPECT_EQ (rendezvous_refusal (tps_rendezvous_add_rpc,
                                 [] (TpsWriter *out) {
                                   put_string (out, 1, "k");
                                   put_i64 (out, 2, 1);
                                   put_struct (out, 3, [] (TpsWriter *inner) {
                                     put_string (inner, 1, "a client");
                                   });
                                 }),
             "push.client is not a name: 1 to 255 characters of A-Z a-z 0-9 _ . : / -");
}

TEST_F (Rendezvous, resultsComeAsTheyWent)
{
  g_autoptr (GBytes) value = g_bytes_new ("abc", 3);
  g_autoptr (GBytes) got_value = nullptr;
  gint64 sum = -1, got_sum = 0;
  TpsWireType type;
  WireMessage get (
      [&] (TpsWriter *out) { tps_rpc_write_result (&tps_rendezvous_get_rpc, out, &value); });
  WireMessage add (
      [&] (TpsWriter *out) { tps_rpc_write_result (&tps_rendezvous_add_rpc, out, &sum); });
  TpsReader *in = get.result (&type);

  ASSERT_TRUE (tps_rpc_read_result (&tps_rendezvous_get_rpc, in, type, &got_value, nullptr));
  EXPECT_TRUE (g_bytes_equal (value, got_value));
  in = add.result (&type);
  ASSERT_TRUE (tps_rpc_read_result (&tps_rendezvous_add_rpc, in, type, &got_sum, nullptr));
  EXPECT_EQ (got_sum, -1);
}

/* ---- Node ----------------------------------------------------------------------------------- */

TEST (Node, infoComesAsItWent)
{
  const gchar *services[] = { "Node", "ParameterServer", nullptr };
  TpsNodeInfo sent = { const_cast<gchar *> ("server2"), const_cast<gchar *> ("0.1.0"), 1 << 28,
                       const_cast<gchar **> (services), nullptr };
  g_auto (TpsNodeInfo) got = {};
  TpsWireType type;
  WireMessage message (
      [&] (TpsWriter *out) { tps_rpc_write_result (&tps_describe_rpc, out, &sent); });
  TpsReader *in = message.result (&type);

  ASSERT_TRUE (tps_rpc_read_result (&tps_describe_rpc, in, type, &got, nullptr));
  EXPECT_STREQ (got.name, "server2");
  EXPECT_STREQ (got.version, "0.1.0");
  EXPECT_EQ (got.max_frame_bytes, 1 << 28);
  ASSERT_NE (got.services, nullptr);
  EXPECT_STREQ (got.services[1], "ParameterServer");
  EXPECT_EQ (got.services[2], nullptr);
  EXPECT_EQ (got.devices, nullptr);
  EXPECT_EQ (got.max_shared_bytes, 0);
}

TEST (Node, theLimitOfSharedMemoryComesAsItWent)
{
  TpsNodeInfo sent = { .name = const_cast<gchar *> ("n"), .version = const_cast<gchar *> ("1") };
  g_auto (TpsNodeInfo) got = {};
  TpsWireType type;

  sent.max_shared_bytes = G_GINT64_CONSTANT (3) << 40;
  WireMessage message (
      [&] (TpsWriter *out) { tps_rpc_write_result (&tps_describe_rpc, out, &sent); });
  TpsReader *in = message.result (&type);
  ASSERT_TRUE (tps_rpc_read_result (&tps_describe_rpc, in, type, &got, nullptr));
  EXPECT_EQ (got.max_shared_bytes, sent.max_shared_bytes);
  EXPECT_FALSE (got.has_shared_device || got.has_lookup_device);
}

TEST (Node, theSharedDeviceComesAsItWent)
{
  TpsNodeInfo sent = { .name = const_cast<gchar *> ("n"), .version = const_cast<gchar *> ("1") };
  g_auto (TpsNodeInfo) got = {};
  TpsWireType type;

  sent.has_shared_device = TRUE;
  memset (sent.shared_device, 7, sizeof sent.shared_device);
  WireMessage message (
      [&] (TpsWriter *out) { tps_rpc_write_result (&tps_describe_rpc, out, &sent); });
  TpsReader *in = message.result (&type);
  ASSERT_TRUE (tps_rpc_read_result (&tps_describe_rpc, in, type, &got, nullptr));
  EXPECT_TRUE (got.has_shared_device);
  EXPECT_EQ (memcmp (got.shared_device, sent.shared_device, sizeof sent.shared_device), 0);
  EXPECT_FALSE (got.has_lookup_device);
}

TEST (Node, theDeviceOfLookupsComesAsItWent)
{
  TpsNodeInfo sent = { .name = const_cast<gchar *> ("n"), .version = const_cast<gchar *> ("1") };
  g_auto (TpsNodeInfo) got = {};
  TpsWireType type;

  sent.has_lookup_device = TRUE;
  memset (sent.lookup_device, 9, sizeof sent.lookup_device);
  WireMessage message (
      [&] (TpsWriter *out) { tps_rpc_write_result (&tps_describe_rpc, out, &sent); });
  TpsReader *in = message.result (&type);
  ASSERT_TRUE (tps_rpc_read_result (&tps_describe_rpc, in, type, &got, nullptr));
  EXPECT_TRUE (got.has_lookup_device);
  EXPECT_EQ (memcmp (got.lookup_device, sent.lookup_device, sizeof sent.lookup_device), 0);
  EXPECT_FALSE (got.has_shared_device);
}

TEST (Node, metricsComeAsTheyWentWithAndWithoutSamples)
{
  std::vector<gdouble> samples (2000, 1.5);
  g_autoptr (GPtrArray) sent = g_ptr_array_new_with_free_func (
      reinterpret_cast<GDestroyNotify> (tps_metric_summary_free));
  g_autoptr (GPtrArray) got = nullptr;
  TpsWireType type;

  samples[7] = 2;
  for (guint n : { 1u, 2000u })
    {
      TpsMetricSummary *summary = tps_metric_summary_new ("group", "name", samples.data (), n);

      if (n == 1)
        g_clear_pointer (&summary->samples_ms, g_free);
      g_ptr_array_add (sent, summary);
    }
  WireMessage message (
      [&] (TpsWriter *out) { tps_rpc_write_result (&tps_get_metrics_rpc, out, &sent); });
  TpsReader *in = message.result (&type);

  ASSERT_TRUE (tps_rpc_read_result (&tps_get_metrics_rpc, in, type, &got, nullptr));
  ASSERT_EQ (got->len, 2u);
  const auto *one = static_cast<TpsMetricSummary *> (got->pdata[0]);
  const auto *many = static_cast<TpsMetricSummary *> (got->pdata[1]);
  EXPECT_TRUE (std::isnan (one->stdev_ms));
  EXPECT_EQ (one->samples_ms, nullptr);
  EXPECT_STREQ (many->type, "group");
  EXPECT_STREQ (many->name, "name");
  EXPECT_EQ (many->count, 2000);
  EXPECT_EQ (many->max_ms, 2);
  EXPECT_GT (many->stdev_ms, 0);
  ASSERT_EQ (many->n_samples, 2000u);
  EXPECT_EQ (memcmp (many->samples_ms, samples.data (), sizeof (gdouble) * 2000), 0);
}

TEST (Node, metricsThatAreNone)
{
  auto decode = [] (const Write &write) {
    g_autoptr (GError) error = nullptr;
    g_autoptr (GPtrArray) summaries = nullptr;
    TpsWireType type;
    WireMessage message (write);
    TpsReader *in = message.result (&type);

    EXPECT_FALSE (tps_rpc_read_result (&tps_get_metrics_rpc, in, type, &summaries, &error));
    return std::string (error->message);
  };

  EXPECT_EQ (decode ([] (TpsWriter *) {}), "metrics is missing");
  EXPECT_EQ (decode ([] (TpsWriter *out) { put_i64s (out, 0, { 1 }); }),
             "metrics is a list of i64, expected a list of struct");
  EXPECT_EQ (decode ([] (TpsWriter *out) {
               tps_writer_field (out, 0, TPS_WIRE_LIST);
               tps_writer_list_begin (out, TPS_WIRE_STRUCT, 1);
               tps_writer_struct_begin (out);
               put_string (out, 11, "odd");
               tps_writer_struct_end (out);
             }),
             "metrics[0].samples_ms has 3 bytes, expected at most 65536 float64");
}

TEST (Node, theArgumentOfGetMetricsComesAsItWent)
{
  for (gboolean sent : { 0, 1 })
    for (TpsProtocolKind protocol : { TPS_PROTOCOL_BINARY, TPS_PROTOCOL_COMPACT })
      {
        gboolean got = !sent;
        WireMessage message (
            [&] (TpsWriter *out) { tps_rpc_write_arguments (&tps_get_metrics_rpc, out, &sent); },
            protocol);

        ASSERT_TRUE (
            tps_rpc_read_arguments (&tps_get_metrics_rpc, message.arguments (), &got, nullptr));
        EXPECT_EQ (got, sent);
      }
  EXPECT_EQ (refusal ([] (TpsWriter *) {},
                      [] (TpsReader *in, GError **error) {
                        gboolean with_samples;

                        return tps_rpc_read_arguments (&tps_get_metrics_rpc, in, &with_samples,
                                                       error);
                      }),
             "with_samples is missing");
}

} // namespace
} // namespace thriftps
