// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the HTTP server next to a TpsServer, with raw bytes over real sockets: rights, limits, and
// hostile input. Other work must not be delayed.

#include "plugin/http/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/worker_pool.h"
#include "tests/plugin/http/http_fixture.h"
#include "tests/plugin/server/raw_client.h"
#include "tests/runtime/base/trace_capture.h"

namespace thriftps_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr int small_buffer = 4096;

// ---- states -------------------------------------------------------------------------------------

TEST (Http, EveryReplyHasTheHeadersThatRestrictBrowsers)
{
  Servers servers;
  for (const char *path : { "/status", "/nope", "/healthz" })
    {
      std::string answer = servers.Get (path);
      EXPECT_THAT (answer, HasSubstr ("Cache-Control: no-store"));
      EXPECT_THAT (answer, HasSubstr ("Content-Security-Policy: default-src 'none'"));
      EXPECT_THAT (answer, HasSubstr ("X-Content-Type-Options: nosniff"));
      EXPECT_THAT (answer, HasSubstr ("Connection: close"));
      EXPECT_THAT (answer, Not (HasSubstr ("Access-Control-Allow-Origin")));
    }
}

TEST (Http, CountsOpenConnections)
{
  Servers servers;
  auto has_open = [&] (int n) {
    std::string line = "\nthriftps_http_connections " + std::to_string (n) + "\n";
    return servers.Get ("/metrics").find (line) != std::string::npos; // counts itself
  };

  {
    Socket silent (servers.url ()), another (servers.url ());
    while (!has_open (3))
      std::this_thread::yield ();
  }
  while (!has_open (1))
    std::this_thread::yield ();
}

TEST (Http, AnEndpointMustNameItsRight)
{
  TpsHttpEndpoint endpoint = {};
  endpoint.path = "/open";
  endpoint.handle = [] (TpsHttpRequest *, gpointer) {};
  Servers servers ({}, { endpoint });
  EXPECT_FALSE (servers.started ());
  EXPECT_THAT (servers.message (), HasSubstr ("/open"));
}

TEST (Http, BodiesAreSmall)
{
  Servers servers;
  for (size_t n : { 2, 4096, 4097 })
    EXPECT_THAT (servers.Exchange (
                     Request ("/status", "Content-Length: " + std::to_string (n) + "\r\n", "POST")
                     + std::string (n, ' ')),
                 StartsWith (n <= 4096 ? "HTTP/1.1 405" : "HTTP/1.1 413"))
        << n;
}

TEST (Http, ABodyWithoutAnEndIsCut)
{
  Servers servers;
  Socket socket (servers.url ());
  socket.Send (Request ("/status", "Transfer-Encoding: chunked\r\n", "POST"));
  const std::string chunk = "4000\r\n" + std::string (0x4000, 'x') + "\r\n";
  for (int i = 0; i < 64; i++) // until the server closes the connection; later sends fail
    socket.Send (chunk);
  socket.Receive ();
  EXPECT_THAT (servers.Get ("/healthz"), StartsWith ("HTTP/1.1 200"));
}

// ---- bounds -------------------------------------------------------------------------------------

TEST (Http, ARequestThatDoesNotComeIsCut)
{
  TraceCapture log;
  TpsHttpOptions options = {};
  options.request_ms = 50;
  Servers servers (options);
  EXPECT_THAT (log.WaitFor ("http_listening"), HasSubstr ("address=" + servers.url ()));
  Socket silent (servers.url ()), slow (servers.url ());
  slow.Send ("GET /healthz HT");
  EXPECT_EQ (silent.Receive (), "");
  EXPECT_THAT (slow.Receive (), Not (HasSubstr ("200")));
  EXPECT_THAT (log.WaitFor ("http_cut", 2), HasSubstr (" peer=127.0.0.1:"));
  // On a busy machine the server may also cut this request.
  while (servers.Get ("/healthz").find ("HTTP/1.1 200") != 0)
    ;
}

constexpr gsize large_bytes = (32 << 20) - 1; // 32 MiB with the final zero

TpsHttpEndpoint
MakeLarge ()
{
  TpsHttpEndpoint large = {};
  large.path = "/large";
  large.right = TPS_RIGHT_OPEN;
  large.handle = [] (TpsHttpRequest *request, gpointer) {
    GString *body = g_string_sized_new (large_bytes);
    g_string_set_size (body, large_bytes);
    memset (body->str, 'x', body->len);
    tps_http_request_reply (request, 200, "text/plain", body);
  };
  return large;
}

gsize
CountHeld (const Servers &servers)
{
  gsize held = 0;
  tps_budget_visit ((servers.plugin ())->budgets->process,
                    [] (TpsBudget *budget, gpointer data) {
                      if (g_str_equal (tps_budget_get_name (budget), "HTTP"))
                        *static_cast<gsize *> (data) = tps_budget_get_held (budget);
                    },
                    &held);
  return held;
}

TEST (Http, AnAnswerThatIsNotReadIsCutAndItsMemoryReleased)
{
  TpsHttpOptions options = {};
  options.answer_ms = 3000;
  Servers servers (options, { MakeLarge () });
  Socket slow (servers.url (), small_buffer);
  slow.Send (Request ("/large"));
  slow.Receive ("\r\n\r\n");
  EXPECT_GT (CountHeld (servers), large_bytes);
  std::string status;
  while (status.find ("\"http\":{\"connections\":1,") == std::string::npos) // only this one is left
    status = servers.Get ("/status");
  EXPECT_LT (CountHeld (servers), gsize { 1 } << 20);
}

TEST (Http, AnswersAreCharged)
{
  TpsHttpOptions options = {};
  Servers servers (options, { MakeLarge () });
  std::vector<std::unique_ptr<Socket>> sockets;
  std::string refused;
  for (int i = 0; i < 8 && refused.empty (); i++) // the limit is 64 MiB in total
    {
      sockets.push_back (std::make_unique<Socket> (servers.url ()));
      sockets.back ()->Send (Request ("/large"));
      std::string head = sockets.back ()->Receive ("\r\n\r\n");
      if (head.find (" 503 ") != std::string::npos)
        refused = head;
    }
  EXPECT_EQ (sockets.size (), 3u); // two replies of 32 MiB fill the budget
  EXPECT_THAT (refused, HasSubstr ("Retry-After:"));
  EXPECT_LE (CountHeld (servers), gsize { 64 } << 20);
}

TEST (Http, HealthIsReportedWithoutMemory)
{
  Servers servers;
  TpsBudget *process = (servers.plugin ())->budgets->process;
  gsize n_bytes = tps_budget_get_free (process);
  ASSERT_TRUE (tps_budget_charge (process, n_bytes, nullptr));
  for (const char *path : { "/healthz", "/" })
    EXPECT_THAT (servers.Get (path), StartsWith ("HTTP/1.1 200")) << path;
  EXPECT_THAT (servers.Get ("/metrics"), StartsWith ("HTTP/1.1 503"));
  tps_budget_release (process, n_bytes);
}

TEST (Http, StreamsDoNotGiveWay)
{
  TraceCapture log;
  TpsHttpOptions options = {};
  options.max_connections = 1;
  options.sample_ms = 10;
  Servers servers (options);
  Socket stream (servers.url ());
  stream.Send (Request ("/events"));
  stream.Receive ("event: hello");
  std::string refused = servers.Get ("/healthz");
  EXPECT_THAT (refused, StartsWith ("HTTP/1.1 503"));
  EXPECT_THAT (refused, HasSubstr ("Retry-After"));
  EXPECT_THAT (log.WaitFor ("http_refused"), HasSubstr ("too many connections"));
}

TEST (Http, TooManyStreamsAreRefused)
{
  TpsHttpOptions options = {};
  options.max_streams = 1;
  options.sample_ms = 10;
  Servers servers (options);
  Socket stream (servers.url ());
  stream.Send (Request ("/events"));
  EXPECT_THAT (stream.Receive ("event: sample"), HasSubstr ("event: hello"));
  EXPECT_THAT (servers.Get ("/events"), StartsWith ("HTTP/1.1 503"));
  stream.Close ();
  std::string head;
  while (head.find (" 200 ") == std::string::npos) // the next event reveals the end of the stream
    {
      Socket next (servers.url ());
      next.Send (Request ("/events"));
      head = next.Receive ("\r\n\r\n");
    }
}

TEST (Http, AStreamThatIsNotReadIsCut)
{
  TpsHttpOptions options = {};
  options.sample_ms = 1;
  Servers servers (options);
  Socket unread (servers.url (), small_buffer);
  unread.Send (Request ("/events"));
  std::string status;
  while (status.find ("\"streams\":1,") == std::string::npos)
    status = servers.Get ("/status");
  while (status.find ("\"streams\":0,") == std::string::npos)
    status = servers.Get ("/status");
}

// libsoup must not get such requests: it would allocate memory for each line and each piece.
TEST (Http, RequestsOfManyPiecesAreRefused)
{
  Servers servers;
  std::string fields, chunks;
  for (int i = 0; i < 1000; i++)
    fields += "a:\r\n";
  for (int i = 0; i < 4000; i++)
    chunks += "1\r\nx\r\n";
  EXPECT_THAT (servers.Get ("/healthz", fields), StartsWith ("HTTP/1.1 431"));
  EXPECT_THAT (servers.Get ("/healthz", "a: " + std::string (8192, 'a') + "\r\n"),
               StartsWith ("HTTP/1.1 431"));
  EXPECT_THAT (servers.Get ("/healthz", "a: b\r\n c\r\n"), StartsWith ("HTTP/1.1 400"));
  EXPECT_THAT (
      servers.Exchange (Request ("/status", "Transfer-Encoding: chunked\r\n", "POST") + chunks),
      StartsWith ("HTTP/1.1 411"));
  EXPECT_THAT (servers.Exchange (Request ("/status") + Request ("/healthz")),
               Not (HasSubstr ("\"alive\"")))
      << "a pipelined request is ignored";
}

TEST (Http, HostileBytesDoNoHarm)
{
  Servers servers;
  const std::string nul (1, '\0');
  for (const std::string &bytes : {
           std::string ("\r\n\r\n"),
           std::string ("\x80\x01\x00\x01garbage\r\n\r\n"),
           std::string ("\x16\x03\x01\x02\x00\x01"),
           "GET /" + nul + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
           std::string ("GET / HTTP/9.9\r\nHost: localhost\r\n\r\n"),
           std::string ("GET /%00%ff%zz?%00=%ff&&&=;a HTTP/1.1\r\nHost: localhost\r\n\r\n"),
           std::string ("GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n"),
           std::string ("GET /\xff\xfe HTTP/1.1\r\nHost: \xff\r\n\r\n"),
           std::string ("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n"),
           std::string ("CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
           std::string ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
           Request ("/events", "Connection: Upgrade\r\nUpgrade: websocket\r\n"),
           Request ("/healthz", "Content-Length: -1\r\n"),
           Request ("/healthz", "Content-Length: 99999999999999999999\r\n"),
           Request ("/healthz", "Transfer-Encoding: chunked\r\n") + "ffffffffffffffff\r\n",
           Request ("/healthz", "A: " + std::string (4 << 20, 'a') + "\r\n"),
           Request ("/" + std::string (1 << 20, 'a')),
           Request ("/connections?limit=" + std::string (1000, '9')),
           Request ("/connections?after=-1&limit=x"),
       })
    {
      Socket socket (servers.url ());
      socket.Send (bytes);
      socket.Close ();
      EXPECT_THAT (servers.Get ("/healthz"), StartsWith ("HTTP/1.1 200")) << bytes.substr (0, 80);
    }
  EXPECT_THAT (servers.Get ("/connections?limit=0"), StartsWith ("HTTP/1.1 400"));
  EXPECT_THAT (servers.Get ("/connections?limit=5%00x"), StartsWith ("HTTP/1.1 400"));
  EXPECT_THAT (servers.Get ("/tables?limit=10001"), HasSubstr ("limit: expected a number from 1"));
}

// ---- blocked handlers ---------------------------------------------------------------------------

// A handler that returns when the test calls Open().
class Latch
{
public:
  static void
  Handle (TpsHttpRequest *request, gpointer data)
  {
    auto *latch = static_cast<Latch *> (data);
    std::unique_lock<std::mutex> lock (latch->mutex_);
    latch->is_here_ = true;
    latch->changed_.notify_all ();
    latch->changed_.wait (lock, [latch] { return latch->is_open_; });
    tps_http_request_reply (request, 200, "text/plain", g_string_new ("done"));
  }

  void
  WaitForHandler ()
  {
    std::unique_lock<std::mutex> lock (mutex_);
    changed_.wait (lock, [this] { return is_here_; });
  }

  void
  Open ()
  {
    std::lock_guard<std::mutex> lock (mutex_);
    is_open_ = true;
    changed_.notify_all ();
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_here_ = false;
  bool is_open_ = false;
};

TEST (Http, CallsGoOnWhileItsThreadIsStuck)
{
  Latch latch;
  TpsHttpEndpoint endpoint = {};
  endpoint.path = "/latch";
  endpoint.right = TPS_RIGHT_OPEN;
  endpoint.handle = Latch::Handle;
  endpoint.user_data = &latch;
  Servers servers ({}, { endpoint });
  servers.StartThrift ();
  Socket stuck (servers.url ());
  stuck.Send (Request ("/latch"));
  latch.WaitForHandler ();
  const std::string address = tps_server_get_addresses (servers.server ())[0];
  for (int i = 0; i < 10; i++) // more connections than event loops
    {
      RawClient client (address);
      for (int seqid = 0; seqid < 20; seqid++)
        {
          ASSERT_TRUE (client.Send ("Node:describe", seqid));
          ASSERT_NE (client.Receive (), nullptr);
        }
    }
  latch.Open ();
  EXPECT_THAT (stuck.Receive (), HasSubstr ("done"));
}

// The watchdog of a service manager uses the same check.
TEST (Http, IsNotHealthyWhileThreadsStandStill)
{
  TraceCapture log;
  std::promise<void> released;
  std::shared_future<void> release = released.get_future ().share ();
  TpsHttpOptions options = {};
  options.stuck_ms = 1;
  Servers servers (options);
  EXPECT_THAT (servers.Get ("/healthz"), HasSubstr (R"({"status":"alive","missing":null})"))
      << "before the start";
  servers.StartThrift ();
  tps_worker_pool_submit (
      (servers.plugin ())->workers,
      [] (gpointer data) { static_cast<std::shared_future<void> *> (data)->wait (); }, &release);
  std::string answer;
  do // The first requests send the beats. On a busy machine an I/O thread may be late, too.
    answer = servers.Get ("/healthz");
  while (answer.find (R"({"status":"stuck","missing":"workers"})") == std::string::npos);
  EXPECT_THAT (answer, StartsWith ("HTTP/1.1 503"));
  EXPECT_THAT (log.WaitFor ("threads_stuck"), HasSubstr (" missing="));
  std::string stuck;
  while (stuck != "workers")
    {
      g_autofree gchar *missing = nullptr;
      ASSERT_FALSE (tps_server_check_threads (servers.server (), 1000000, &missing));
      stuck = missing;
    }
  released.set_value ();
  do
    answer = servers.Get ("/healthz");
  while (answer.find ("HTTP/1.1 200") != 0);
}

TEST (Http, EndsWithRequestsUnderWay)
{
  TpsHttpOptions options = {};
  options.sample_ms = 1;
  auto servers = std::make_unique<Servers> (options);
  Socket silent (servers->url ()), stream (servers->url ());
  stream.Send (Request ("/events"));
  stream.Receive ("event: sample");
  servers.reset ();
  stream.Receive ();
  EXPECT_EQ (silent.Receive (), "");
}

} // namespace
} // namespace thriftps_test
