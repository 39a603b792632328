// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the library inside the wheel without Python: borrowed memory, ownership and threads.
// Sanitizers can run this test.

#include "plugin/python/native/native.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "plugin/python/native/flat_functions.h"
#include "plugin/wire/wire_node.h"
#include "runtime/base/error.h"
#include "runtime/base/metrics.h"
#include "tests/plugin/server/memory/plugin_server.h"

namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using thriftps_test::PluginServer;

constexpr gint64 kTimeoutNs = G_GINT64_CONSTANT (60000000000);
constexpr gint64 kRows = 100, kDim = 4;

TpsTensorView
View (const std::vector<gint64> &ids)
{
  return { { TPS_DTYPE_INT64, 1, { (gint64) ids.size () } }, ids.data () };
}

TpsTensorView
View (const std::vector<float> &values, gint64 rows)
{
  return { { TPS_DTYPE_FLOAT32, 2, { rows, (gint64) values.size () / rows } }, values.data () };
}

// A call that the test waits for and frees.
class Call
{
public:
  explicit Call (TpsPythonCall *call) : call_ (call)
  {
  }
  ~Call ()
  {
    Wait ();
    tps_python_call_free (call_);
  }
  Call (const Call &) = delete;
  Call &operator= (const Call &) = delete;

  const TpsPythonReply &
  Wait ()
  {
    const TpsPythonReply *reply = nullptr;

    while (reply == nullptr)
      reply = tps_python_call_wait (call_, kTimeoutNs);
    return *reply;
  }
  std::vector<float>
  Floats (guint i = 0)
  {
    const TpsTensorView &view = Wait ().tensors[i];
    auto *data = static_cast<const float *> (view.data);

    return { data, data + tps_shape_n_elems (&view.shape) };
  }
  TpsPythonCall *
  get ()
  {
    return call_;
  }

private:
  TpsPythonCall *call_;
};

TpsOptimizerSpec
Sgd ()
{
  return { TPS_OPTIMIZER_SGD, 1.0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN };
}

class NativeTest : public testing::Test
{
protected:
  void
  SetUp () override
  {
    std::string address = server_.Unix ();
    const gchar *addresses[] = { address.c_str () };
    TpsPythonCall *failed = nullptr;

    tables_ = tps_python_tables_new (addresses, 1, "native-test", FALSE, nullptr, &failed);
    client_ = tps_python_client_new (address.c_str (), FALSE, nullptr, &failed);
    ASSERT_EQ (failed, nullptr);
  }
  void
  TearDown () override
  {
    tps_python_tables_free (tables_, getpid ());
    tps_python_client_free (client_, getpid ());
  }

  gint32
  Create (const char *name)
  {
    TpsRemoteTable table = {};

    table.name = name;
    table.rows = kRows;
    table.dim = kDim;
    table.dtype = TPS_DTYPE_FLOAT32;
    table.initializer = { TPS_INITIALIZER_ZEROS, NAN, NAN, NAN, NAN, 0 };
    table.optimizer = Sgd ();
    Call call (tps_python_tables_create (tables_, &table, kTimeoutNs));
    return call.Wait ().code;
  }

  PluginServer server_ { {}, 1 };
  TpsRemoteTables *tables_ = nullptr;
  TpsClient *client_ = nullptr;
};

TEST_F (NativeTest, RowsAndBags)
{
  std::vector<gint64> ids { 1, 2 }, offsets { 0 };
  std::vector<float> gradient (2 * kDim, -1.0f), of_bag (kDim, -1.0f);
  TpsTensorView indices = View (ids), values = View (gradient, 2);
  TpsBagGradient step = { { "t", indices, View (offsets), TPS_POOLING_SUM, {} }, View (of_bag, 1) };

  ASSERT_EQ (Create ("t"), 0);
  EXPECT_EQ (Call (tps_python_tables_apply_rows (tables_, "t", &indices, &values, kTimeoutNs))
                 .Wait ()
                 .code,
             0);
  EXPECT_EQ (Call (tps_python_tables_apply_bags (tables_, &step, 1, kTimeoutNs)).Wait ().code, 0);
  EXPECT_THAT (Call (tps_python_tables_lookup_bags (tables_, &step.query, 1, kTimeoutNs)).Floats (),
               ElementsAre (4, 4, 4, 4));
  EXPECT_THAT (Call (tps_python_tables_list (tables_, kTimeoutNs)).Wait ().text,
               HasSubstr ("\"name\":\"t\",\"rows\":100,\"dim\":4"));
  EXPECT_EQ (Call (tps_python_tables_drop (tables_, "t", kTimeoutNs)).Wait ().code, 0);
  EXPECT_EQ (Call (tps_python_tables_discover (tables_, kTimeoutNs)).Wait ().code, 0);
}

TEST_F (NativeTest, TokensOfEndedCalls)
{
  TpsPythonQueue *queue = tps_python_queue_new ();
  std::vector<std::unique_ptr<Call>> calls;
  std::set<guint64> tokens;

  // The first call has ended before it gets its token. The others may end at any time.
  for (guint64 token = 1; token <= 100; token++)
    {
      calls.push_back (std::make_unique<Call> (tps_python_describe (client_, kTimeoutNs)));
      if (token == 1)
        calls.back ()->Wait ();
      tps_python_call_notify (calls.back ()->get (), queue, token);
    }
  while (tokens.size () < calls.size ())
    {
      pollfd poller = { tps_python_queue_get_fd (queue), POLLIN, 0 };
      guint64 taken[7];

      ASSERT_EQ (poll (&poller, 1, -1), 1);
      guint n = tps_python_queue_take (queue, taken, G_N_ELEMENTS (taken));
      tokens.insert (taken, taken + n);
    }
  EXPECT_EQ (*tokens.rbegin (), 100u);
  tps_python_queue_free (queue, getpid ());
}

TEST_F (NativeTest, TheLastQueueGetsTheToken)
{
  TpsPythonQueue *first = tps_python_queue_new (), *last = tps_python_queue_new ();
  Call call (tps_python_get (client_, "never", 60000, kTimeoutNs));
  guint64 token;

  tps_python_call_notify (call.get (), first, 1);
  tps_python_queue_free (first, getpid () + 1); // as in a child of the process: does nothing
  tps_python_call_notify (call.get (), last, 2);
  tps_python_client_cancel (client_);
  call.Wait ();
  pollfd poller = { tps_python_queue_get_fd (last), POLLIN, 0 };
  ASSERT_EQ (poll (&poller, 1, -1), 1);
  ASSERT_EQ (tps_python_queue_take (last, &token, 1), 1u);
  EXPECT_EQ (token, 2u);
  EXPECT_EQ (tps_python_queue_take (first, &token, 1), 0u);
  tps_python_call_notify (call.get (), first, 3);
  ASSERT_EQ (tps_python_queue_take (first, &token, 1), 1u);
  EXPECT_EQ (token, 3u);
  tps_python_queue_free (first, getpid ());
  tps_python_queue_free (last, getpid ());
}

TEST_F (NativeTest, ClosingEndsCallsWithAReleasedQueue)
{
  TpsPythonQueue *queue = tps_python_queue_new ();
  Call call (tps_python_get (client_, "never", 60000, kTimeoutNs));

  tps_python_call_notify (call.get (), queue, 1);
  tps_python_queue_free (queue, getpid ());
  tps_python_client_cancel (client_);
  EXPECT_EQ (call.Wait ().code, TPS_ERROR_ABORTED);
}

TEST_F (NativeTest, AnAnswerOutlivesTheClient)
{
  std::vector<float> ones (1 << 16, 1.0f);
  TpsPythonGradient gradient = {};
  TpsPythonCall *failed = nullptr;

  gradient.kind = TPS_GRADIENT_DENSE;
  gradient.weight = 1;
  gradient.dense = View (ones, 1 << 8);
  TpsClient *client = tps_python_client_new (server_.Unix ().c_str (), FALSE, nullptr, &failed);
  Call call (tps_python_average_gradient (client, 0, 1, 0, &gradient, kTimeoutNs));
  call.Wait ();
  tps_python_client_free (client, getpid ());
  EXPECT_EQ (call.Floats (), ones);
}

// Python reads 1e999 as infinity. Null would become None, which a caller cannot compare with a
// number.
TEST (Json, KeepsInfinities)
{
  const double samples[] = { 1, HUGE_VAL };
  g_autoptr (GPtrArray) summaries = g_ptr_array_new_with_free_func (
      reinterpret_cast<GDestroyNotify> (tps_metric_summary_free));

  g_ptr_array_add (summaries, tps_metric_summary_new ("type", "name", samples, 2));
  GString *text = tps_field_to_json (tps_get_metrics_rpc.result, &summaries);
  EXPECT_THAT (text->str, HasSubstr ("\"min_ms\":1,\"max_ms\":1e999,\"mean_ms\":1e999"));
  g_string_free (text, TRUE);
}

}
