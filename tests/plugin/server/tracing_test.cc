// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the effects of trace contexts in a server: headers of THeader frames, the context of a
// connection, spans, slow calls, and log lines of failures.

#include <gmock/gmock.h>

#include <thread>

#include "plugin/client/client.h"
#include "plugin/tracing/tracer.h"
#include "runtime/base/exposition.h"
#include "tests/plugin/client/call_sync.h"
#include "tests/plugin/server/test_service.h"
#include "tests/runtime/base/trace_capture.h"

namespace thriftps_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const char kTraceId[] = "0af7651916cd43dd8448eb211c80319c";
const char kTraceparent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const char kOtherId[] = "11111111111111111111111111111111";
const char kOther[] = "00-11111111111111111111111111111111-2222222222222222-00";

class TracingTest : public ServerTest
{
protected:
  TpsServerOptions
  Options () override
  {
    TpsTracerOptions tracing = {};
    tracing.has_exporter = TRUE;
    tracing.n_slow_calls = 8;
    tracer_ = tps_tracer_new (&tracing);
    TpsServerOptions options = {};
    options.n_workers = 1;
    parts_.tracer = tracer_;
    parts_.metrics = metrics_;
    return options;
  }
  void
  TearDown () override
  {
    ServerTest::TearDown ();
    tps_tracer_free (tracer_);
    tps_metrics_unref (metrics_);
  }

  static std::string
  Frame (const Wire &wire, const std::string &name, int seqid, const char *traceparent,
         const WriteFields &fields)
  {
    g_autoptr (TpsWriter) out = tps_writer_new (wire.protocol, TRUE);
    std::string bytes;
    guint n_pieces;

    tps_writer_set_header (out, seqid);
    tps_writer_add_header (out, TPS_TRACEPARENT, traceparent);
    tps_writer_add_header (out, TPS_TRACESTATE, "congo=t61");
    tps_writer_message_begin (out, name.c_str (), TPS_MESSAGE_CALL, seqid);
    tps_writer_struct_begin (out);
    fields (out);
    tps_writer_struct_end (out);
    EXPECT_TRUE (tps_writer_message_end (out, nullptr));
    const struct iovec *pieces = tps_writer_get_pieces (out, &n_pieces, nullptr);
    for (guint i = 0; i < n_pieces; i++)
      bytes.append (static_cast<const char *> (pieces[i].iov_base), pieces[i].iov_len);
    return bytes;
  }

  TraceCapture capture_;
  TpsTracer *tracer_ = nullptr;
  TpsMetrics *metrics_ = tps_metrics_new (nullptr, nullptr);
};

// The collector has nothing about calls that are not sampled.
TEST_F (TracingTest, SampledCallsAreExemplars)
{
  RawClient client (tcp_);
  for (const char *traceparent : { kTraceparent, kOther })
    {
      client.SendBytes (Frame (Wire (), "Test:echo", 1, traceparent, IntField (5)));
      client.Receive ();
    }
  GString *body = tps_exposition_write (tps_metrics_get_counters (metrics_),
                                        TPS_EXPOSITION_OPENMETRICS);
  std::string text (body->str, body->len);
  g_string_free (body, TRUE);
  EXPECT_THAT (text, HasSubstr ("# {trace_id=\"" + std::string (kTraceId) + "\"} "));
  EXPECT_THAT (text, Not (HasSubstr (kOtherId)));
}

TEST_F (TracingTest, SlowCallsNameThePhaseThatTookLongest)
{
  RawClient working (tcp_), queued (tcp_);
  working.Send ("Test:work", 1, IntField (1));
  service_.WaitForWorking (1);
  queued.Send ("Test:work", 1, IntField (2)); // waits for the only worker
  while (tps_server_get_n_calls (server_) < 2)
    std::this_thread::yield ();
  service_.LetGo ();
  EXPECT_EQ (IntResult (working.Receive ()), 1);
  EXPECT_EQ (IntResult (queued.Receive ()), 2);
  TpsSlowCall calls[8];
  ASSERT_EQ (tps_tracer_list_slow (tracer_, calls, 8), 2u);
  for (const TpsSlowCall &call : { calls[0], calls[1] })
    {
      gint64 sum_ns = 0;
      for (gint64 phase_ns : call.phases_ns)
        sum_ns += phase_ns;
      EXPECT_EQ (sum_ns, call.total_ns);
      EXPECT_STREQ (call.method, "Test:work");
      EXPECT_GT (call.phases_ns[TPS_PHASE_QUEUE], 0);
    }
}

gboolean
ReadInt (TpsReader *result, TpsWireType, gpointer value, GError **)
{
  *static_cast<gint32 *> (value) = tps_reader_i32 (result);
  return TRUE;
}

void
WriteFive (TpsWriter *out, gconstpointer)
{
  tps_writer_field (out, 1, TPS_WIRE_I32);
  tps_writer_i32 (out, 5);
}

TEST_F (TracingTest, TheCClientCarriesATraceparent)
{
  TpsClientOptions options = {};
  options.address = tcp_.c_str ();
  g_autoptr (TpsClient) client = tps_client_new (&options, nullptr);
  g_autoptr (GError) error = nullptr;
  const gint64 later_ns = g_get_monotonic_time () * 1000 + G_GINT64_CONSTANT (60000000000);
  auto call = [&] {
    gint32 value = 0;
    EXPECT_TRUE (tps_client_call_sync (client, "Test", "echo", WriteFive, nullptr, later_ns,
                                       ReadInt, &value, nullptr));
    EXPECT_EQ (value, 5);
  };

  call ();
  EXPECT_FALSE (tps_client_set_traceparent (client, "00-zz", &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
  ASSERT_TRUE (tps_client_set_traceparent (client, kTraceparent, nullptr));
  call ();
  ASSERT_TRUE (tps_client_set_traceparent (client, nullptr, nullptr));
  call ();
  TpsSpan span;
  ASSERT_TRUE (tps_tracer_take (tracer_, &span));
  gchar text[TPS_TRACEPARENT_TEXT];
  tps_trace_context_format (&span.context, text);
  EXPECT_STREQ (text, kTraceparent);
  EXPECT_FALSE (tps_tracer_take (tracer_, &span));
}

TEST_F (TracingTest, FailuresNameTheirTrace)
{
  RawClient client (tcp_);
  client.SendBytes (Frame (Wire (), "Test:no", 1, kTraceparent, IntField (5)));
  client.Receive ();
  client.Call ("Test:no");
  EXPECT_THAT (capture_.Lines ("request_failed"),
               ElementsAre (HasSubstr (std::string ("trace_id=") + kTraceId),
                            Not (HasSubstr ("trace_id="))));
}

} // namespace
} // namespace thriftps_test
