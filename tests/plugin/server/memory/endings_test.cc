// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// After a client ends in any way, its shared memory is released and the pending calls of others
// continue.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cmath>

#include "plugin/wire/wire_parameter_server.h"
#include "tests/plugin/server/memory/plugin_server.h"
#include "tests/plugin/server/memory/shared_client.h"
#include "tests/runtime/base/readings.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace thriftps_test {
namespace {

constexpr gint64 kElems = 100000;
constexpr gsize kMiB = 1 << 20;

// A push of a dense gradient whose elements are all `value`.
class Push
{
public:
  Push (gint32 trainer, float value)
  {
    arguments_.trainer = trainer;
    arguments_.batch = 1;
    arguments_.gradient.kind = TPS_GRADIENT_DENSE;
    arguments_.gradient.weight = 1;
    tps_tensor_init_1d (&arguments_.gradient.dense, TPS_DTYPE_FLOAT32, kElems);
    for (gint64 i = 0; i < kElems; i++)
      static_cast<float *> (tps_tensor_data (&arguments_.gradient.dense))[i] = value;
  }

  ~Push ()
  {
    tps_average_gradient_arguments_clear (&arguments_);
  }

  void
  Send (SharedClient *client, const Segment *segment)
  {
    client->Send ("ParameterServer:average_gradient", WriteArgumentsOf<tps_average_gradient_rpc>,
                  &arguments_, segment);
  }

private:
  TpsAverageGradientArguments arguments_ = {};
};

// Returns the first element of the average, or NaN if there is none.
float
ReceiveAverage (SharedClient *client)
{
  g_auto (TpsGradient) average = {};

  if (!client->Receive (ReadResultOf<tps_average_gradient_rpc>, &average))
    return NAN;
  return *static_cast<const float *> (tps_tensor_data (&average.dense));
}

void
ExpectNothingLeft (const PluginServer &server)
{
  WaitUntil ([&] { return tps_server_get_n_calls (server.Get ()) == 0; });
  WaitUntil ([&] { return server.BytesOut () == 0; });
  EXPECT_EQ (CountMappings (), 0);
}

TEST (Endings, ASegmentClosedInMidCallIsReadToTheEnd)
{
  PluginServer server;
  auto one = std::make_unique<SharedClient> (server.Unix ());
  auto two = std::make_unique<SharedClient> (server.Unix ());
  gint64 id;

  {
    const Segment &segment = one->Open (TPS_SEGMENT_REQUESTS, kMiB);

    id = segment.id;
    Push (0, 2).Send (one.get (), &segment);
  }
  WaitUntil ([&] { return tps_server_get_n_calls (server.Get ()) == 1; });
  one->raw ().Send ("Memory:close_segments", 77, IdsFields ({ id }));
  EXPECT_EQ (one->raw ().Receive ()->seqid, 77); // overtakes the call, whose id differs
  Push (1, 4).Send (two.get (), nullptr);
  EXPECT_EQ (ReceiveAverage (one.get ()), 3);
  EXPECT_EQ (ReceiveAverage (two.get ()), 3);
  WaitUntil ([&] { return server.BytesOut () == 0; });
  one.reset ();
  two.reset ();
  ExpectNothingLeft (server);
}

TEST (Endings, MetricsCountSegmentsWhileTheyAreShared)
{
  PluginServer server;
  auto client = std::make_unique<SharedClient> (server.Unix ());
  auto count = [&] { return ReadNumber (server.Counters (), "shared_segments"); };

  EXPECT_EQ (count (), 0);
  client->Open (TPS_SEGMENT_ANSWERS, kMiB);
  WaitUntil ([&] { return count () == 1; });
  client->Open (TPS_SEGMENT_REQUESTS, kMiB);
  WaitUntil ([&] { return count () == 2; });
  client.reset ();
  WaitUntil ([&] { return count () == 0; });
}

TEST (Endings, StoppingTheServerLetsGoOfAllSegments)
{
  auto server = std::make_unique<PluginServer> ();
  auto client = std::make_unique<SharedClient> (server->Unix ());

  client->Open (TPS_SEGMENT_ANSWERS, kMiB);
  Push (0, 2).Send (client.get (), &client->Open (TPS_SEGMENT_REQUESTS, kMiB));
  WaitUntil ([&] { return tps_server_get_n_calls (server->Get ()) == 1; });
  server.reset ();
  EXPECT_EQ (CountMappings (), 2); // the client's mappings
}

// A segment serves one reply at a time. Without a free segment, a reply is inline.
TEST (Endings, AnswersComeInlineWhileAllSegmentsAreLent)
{
  PluginServer server ({}, 1);
  SharedClient client (server.Unix ());
  Push push (0, 2);

  client.Open (TPS_SEGMENT_ANSWERS, kMiB);
  for (int n_shared : { 1, 1, 1 })
    {
      push.Send (&client, nullptr);
      EXPECT_EQ (ReceiveAverage (&client), 2);
      EXPECT_EQ (client.n_resolved, n_shared);
    }
  client.ReleaseUsed ();
  push.Send (&client, nullptr);
  EXPECT_EQ (ReceiveAverage (&client), 2);
  EXPECT_EQ (client.n_resolved, 2);
}

} // namespace
} // namespace thriftps_test
