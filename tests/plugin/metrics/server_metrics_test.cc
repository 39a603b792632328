// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// The exports of a server with all services must match REFERENCE.md, and promtool must accept them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "plugin/http/http.h"
#include "plugin/plugin.h"
#include "plugin/tracing/otlp/otlp_exporter.h"
#include "plugin/wire/wire_embedding_table.h"
#include "runtime/base/exposition.h"
#include "runtime/base/process_numbers.h"
#include "runtime/base/trace.h"
#include "tests/plugin/net/tls/certificates.h"
#include "tests/plugin/server/raw_client.h"
#include "tests/runtime/base/readings.h"

namespace thriftps_test {
namespace {

std::string
ReadFile (const std::string &path)
{
  std::ifstream file (path);
  std::stringstream text;
  text << file.rdbuf ();
  return text.str ();
}

std::string
Expose (TpsCounters *counters, TpsExpositionFormat format)
{
  GString *body = tps_exposition_write (counters, format);
  std::string text (body->str, body->len);
  g_string_free (body, TRUE);
  return text;
}

class ServerMetrics : public testing::Test
{
protected:
  void
  SetUp () override
  {
    g_autofree gchar *made = g_dir_make_tmp ("metrics-XXXXXX", nullptr);
    folder_ = made;
    MakeAccess ();
    MakePlugin ();
    MakeServer ();
    MakeTable ();
  }
  void
  TearDown () override
  {
    tps_plugin_shut_down (plugin_);
    g_object_unref (server_);
    tps_plugin_free (plugin_);
    tps_access_unref (access_);
    tps_tls_unref (tls_);
    tps_metrics_unref (metrics_);
    ASSERT_EQ (system (("rm -r " + folder_).c_str ()), 0);
  }

  // Lets anonymous clients read, within a limit.
  void
  MakeAccess ()
  {
    TpsAccessOptions options = {};
    std::string rules = folder_ + "/rules.json";
    std::ofstream (rules) << R"({
      "rules": [ { "principals": ["anonymous"], "rights": ["read"], "tables": ["*"],
                   "tenant": "crowd" } ],
      "tenants": { "crowd": { "calls_per_s": 100000, "calls_in_flight": 50 } } })";
    g_autoptr (GError) error = nullptr;
    options.rules_file = rules.c_str ();
    access_ = tps_access_new (&options, &error);
    ASSERT_NE (access_, nullptr) << error->message;
  }
  void
  MakePlugin ()
  {
    TpsPluginOptions options = {};
    TpsPluginParts parts = {};
    std::string data = folder_ + "/data";
    g_autoptr (GError) error = nullptr;
    options.n_workers = 1;
    options.n_trainers = 2;
    parts.metrics = metrics_;
    options.parts = &parts;
    options.data_folder = data.c_str ();
    options.access = access_;
    plugin_ = tps_plugin_new (&options, &error);
    ASSERT_NE (plugin_, nullptr) << error->message;
    ASSERT_TRUE (tps_plugin_wait (plugin_, nullptr));
    // thriftps_server does this with has_process, which only one plugin of a process may use.
    tps_counters_add_collector (counters (), tps_process_numbers_collect, nullptr);
  }
  void
  MakeServer ()
  {
    Authority authority ("fleet");
    std::string certificate = folder_ + "/server.pem";
    authority.Issue (certificate);
    TpsTlsOptions tls = {};
    tls.certificate = tls.key = certificate.c_str ();
    tls_ = tps_tls_new (&tls, nullptr);
    ASSERT_NE (tls_, nullptr);
    TpsServerOptions options = {};
    options.n_io_threads = 2;
    options.tls = tls_;
    server_ = tps_plugin_new_server (plugin_, &options);
    ASSERT_TRUE (tps_server_listen (server_, "127.0.0.1:0", nullptr));
    ASSERT_TRUE (tps_server_start (server_, nullptr));
    address_ = tps_server_get_addresses (server_)[0];
  }
  void
  MakeTable (const char *name = "users")
  {
    TpsTableSpec spec;
    g_autoptr (GError) error = nullptr;
    tps_table_spec_init (&spec, name, 100, 4);
    ASSERT_TRUE (tps_table_store_create (plugin_->tables, &spec, &error)) << error->message;
    tps_table_spec_clear (&spec);
  }
  // Returns an exporter that takes no spans from its queue before it ends.
  TpsOtlpExporter *
  MakeExporter (TpsTracer *tracer)
  {
    TpsOtlpOptions otlp = {};
    otlp.endpoint = "http://127.0.0.1:1";
    otlp.tracer = tracer;
    otlp.counters = counters ();
    otlp.interval_ms = 3600 * 1000;
    otlp.flush_ms = 1;
    return tps_otlp_exporter_new (&otlp, nullptr);
  }
  TpsHttp *
  StartHttp ()
  {
    TpsHttpOptions options = {};
    options.plugin = plugin_;
    options.server = server_;
    TpsHttp *http = tps_http_new (&options);
    EXPECT_TRUE (tps_http_start (http, nullptr));
    return http;
  }
  TpsCounters *
  counters ()
  {
    return tps_metrics_get_counters (metrics_);
  }

  std::string folder_;
  TpsMetrics *metrics_ = tps_metrics_new (nullptr, nullptr);
  TpsPlugin *plugin_ = nullptr;
  TpsServer *server_ = nullptr;
  TpsTls *tls_ = nullptr;
  TpsAccess *access_ = nullptr;
  std::string address_;
};

// Returns the row of the table in REFERENCE.md.
std::string
RowOf (const TpsFamily &family)
{
  static const char *const kinds[] = { "counter", "gauge", "histogram" };
  std::string labels;
  for (const gchar *label : family.labels)
    if (label != nullptr)
      labels += (labels.empty () ? " `" : ", `") + std::string (label) + "`";
  std::string name = family.name, help = family.help;
  if (!help.empty () && help.back () == '.')
    help.pop_back ();
  return "| `" + (name.rfind ("process_", 0) == 0 ? name : "thriftps_" + name) + "` | "
         + kinds[family.kind] + " |" + labels + " | " + help + " |\n";
}

TEST_F (ServerMetrics, AreThoseOfTheManual)
{
  RawClient client (address_);
  client.Call ("Node:no_such_method"); // the family of failures appears with the first failure
  TpsTracerOptions tracing = {};
  tracing.has_exporter = TRUE;
  g_autoptr (TpsTracer) tracer = tps_tracer_new (&tracing);
  g_autoptr (TpsOtlpExporter) exporter = MakeExporter (tracer);
  g_autoptr (TpsHttp) http = StartHttp ();
  while (ReadNumber (counters (), "http_connections") < 0)
    std::this_thread::yield (); // the server's thread creates the gauge
  std::set<std::string> rows;
  ForEachNumber (counters (), [&] (const TpsFamily &family, const TpsSample &) {
    rows.insert (RowOf (family));
    EXPECT_STRNE (family.help, "") << family.name;
  });
  std::string expected;
  for (const std::string &row : rows)
    expected += row;
  std::string manual = ReadFile ("REFERENCE.md");
  std::string begin = "## Metrics\n\n"
                      "| name | type | labels | meaning |\n| --- | --- | --- | --- |\n";
  size_t at = manual.find (begin);
  ASSERT_NE (at, std::string::npos);
  at += begin.size ();
  EXPECT_EQ (manual.substr (at, manual.find ("\n## ", at) - at), expected)
      << "REFERENCE.md should have these rows:\n"
      << expected;
}

TEST_F (ServerMetrics, AreCountedWhenTheReplyArrives)
{
  RawClient client (address_);
  const char *name = "Node:describe";
  for (int i = 1; i <= 5; i++)
    {
      Message reply = client.Call (name, nullptr, i);
      ASSERT_EQ (ErrorCode (reply), 0);
      EXPECT_EQ (ReadNumber (counters (), "requests_total", name), i);
      EXPECT_EQ (ReadNumber (counters (), "requests_in_flight", name), 0);
    }
  EXPECT_EQ (ReadNumber (counters (), "request_bytes_total", name), 5) << "an empty struct each";
  EXPECT_GT (ReadNumber (counters (), "reply_bytes_total", name), 5 * 20);
  EXPECT_EQ (ReadNumber (counters (), "tenant_calls_in_flight", "crowd"), 0);
  EXPECT_EQ (ReadNumber (counters (), "tenant_limit", "calls_in_flight"), 50);
  EXPECT_EQ (ReadNumber (counters (), "connections"), 1);
  EXPECT_EQ (ReadNumber (counters (), "table_rows", "users"), 100);
  EXPECT_EQ (ReadNumber (counters (), "durability_phase", "live"), 1);
  EXPECT_EQ (ReadNumber (counters (), "durability_phase"), 1);
  EXPECT_GE (ReadNumber (counters (), "log_admitted_lsn"), 1) << "the creation of the table";
  EXPECT_GT (ReadNumber (counters (), "process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT (ReadNumber (counters (), "process_open_fds"), 3);
  EXPECT_LE (ReadNumber (counters (), "process_start_time_seconds"), g_get_real_time () / 1000);
  EXPECT_GT (ReadNumber (counters (), "process_start_time_seconds"),
             g_get_real_time () / 1000 - 3600 * 1000);
}

TEST_F (ServerMetrics, HaveTheSpansThatWaitForTheExporter)
{
  TpsTracerOptions tracing = {};
  tracing.has_exporter = TRUE;
  tracing.sampling = 1;
  g_autoptr (TpsTracer) tracer = tps_tracer_new (&tracing);
  TpsOtlpExporter *exporter = MakeExporter (tracer);
  TpsCallFacts facts = { "Test:echo", nullptr, nullptr, nullptr };
  for (int i = 0; i < 3; i++)
    {
      TpsCallSpan storage;
      EXPECT_EQ (ReadNumber (counters (), "otlp_queue_spans"), i);
      TpsCallSpan *span = tps_tracer_begin (tracer, nullptr, 1, &storage);
      ASSERT_TRUE (tps_tracer_wants (tracer, span, 2));
      tps_tracer_end (tracer, span, &facts, 2);
    }
  tps_otlp_exporter_free (exporter);
  EXPECT_EQ (ReadNumber (counters (), "otlp_queue_spans"), -1) << "it has ended";
  EXPECT_EQ (ReadNumber (counters (), "otlp_spans_dropped_total"), 3);
  EXPECT_EQ (tps_tracer_get_n_waiting (tracer), 0u);
}

TEST_F (ServerMetrics, CountEventsThatCannotBeLogged)
{
  std::mutex stuck;
  gint64 before = ReadNumber (counters (), "trace_events_dropped_total");
  EXPECT_GE (before, 0);
  tps_trace_set_sink (
      [] (const TpsTraceRecord *, gpointer mutex) {
        std::lock_guard<std::mutex> wait (*static_cast<std::mutex *> (mutex));
      },
      &stuck);
  {
    std::lock_guard<std::mutex> guard (stuck);
    while (ReadNumber (counters (), "trace_events_dropped_total") == before)
      {
        TpsTraceEvent event = TPS_TRACE_EVENT ("stuck", TPS_TRACE_ERROR); // new, so without a rate
        tps_trace (&event);
      }
  }
  tps_trace_set_sink (nullptr, nullptr);
}

TEST_F (ServerMetrics, OfPrincipalsAreTheirCallsAndRefusals)
{
  RawClient client (address_);
  client.Call ("Node:describe");
  client.Call ("Node:clear_metrics"); // fails, because only administrators may call it
  EXPECT_EQ (ReadNumber (counters (), "principal_refused_requests_total", "anonymous"), 1);
  std::string text = Expose (counters (), TPS_EXPOSITION_TEXT);
  EXPECT_THAT (text, testing::HasSubstr ("thriftps_principal_request_duration_seconds_count"
                                         "{principal=\"anonymous\"} 2\n"));
}

TEST_F (ServerMetrics, OfTablesAreInBothFormats)
{
  RawClient client (address_);
  char table[] = "users";
  TpsLookupRowsArguments arguments = {};
  arguments.table = table;
  tps_tensor_init_1d (&arguments.indices, TPS_DTYPE_INT64, 3);
  std::fill_n (static_cast<gint64 *> (tps_tensor_data (&arguments.indices)), 3, 7);
  Message reply = client.Call ("EmbeddingTable:lookup_rows", [&] (TpsWriter *out) {
    tps_rpc_write_arguments (&tps_lookup_rows_rpc, out, &arguments);
  });
  tps_tensor_clear (&arguments.indices);
  ASSERT_EQ (ErrorCode (reply), 0);
  for (auto format : { TPS_EXPOSITION_TEXT, TPS_EXPOSITION_OPENMETRICS })
    {
      std::string text = Expose (counters (), format);
      for (const char *line :
           { "lookups_total{table=\"users\"} 1\n", "lookup_rows_total{table=\"users\"} 3\n",
             "lookup_bytes_total{table=\"users\"} 48\n",
             "lookup_duration_seconds_count{table=\"users\"} 1\n",
             "push_duration_seconds_count{table=\"users\"} 0\n" })
        EXPECT_THAT (text, testing::HasSubstr (std::string ("\nthriftps_table_") + line));
    }
}

// promtool of Prometheus checks names, units and help texts.
TEST_F (ServerMetrics, PassTheCheckOfPromtool)
{
  if (!g_file_test ("/usr/bin/promtool", G_FILE_TEST_IS_EXECUTABLE))
    GTEST_SKIP () << "promtool is not installed: Debian's package prometheus has it";
  RawClient client (address_);
  client.Call ("Node:no_such_method");
  std::string path = folder_ + "/metrics";
  std::ofstream (path) << Expose (counters (), TPS_EXPOSITION_TEXT);
  int status = system (
      ("/usr/bin/promtool check metrics < " + path + " > " + path + ".out 2>&1").c_str ());
  EXPECT_EQ (status, 0) << ReadFile (path + ".out");
  EXPECT_EQ (ReadFile (path + ".out"), "");
}

} // namespace
} // namespace thriftps_test
