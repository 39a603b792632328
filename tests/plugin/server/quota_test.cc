// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests limits of tenants over real sockets. The clock of the limits stands still unless a test
// advances it, so every count is exact.

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "plugin/access/access.h"
#include "tests/plugin/server/test_service.h"

namespace thriftps_test {
namespace {

constexpr int kExhausted = 7;
constexpr gint64 kSecond = 1000000000;

std::atomic<gint64> clock_ns { kSecond };

gint64
GetNow ()
{
  return clock_ns;
}

class QuotaTest : public ServerTest
{
protected:
  TpsServerOptions
  Options () override
  {
    TpsQuotasOptions quotas = {};
    quotas.tenants.get_now_ns = GetNow;
    clock_ns = 100 * kSecond;
    quotas_ = tps_quotas_new (&quotas);
    TpsServerOptions options = {};
    options.n_workers = 1;
    parts_.quotas = quotas_;
    return options;
  }

  void
  TearDown () override
  {
    ServerTest::TearDown ();
    g_clear_pointer (&quotas_, tps_quotas_unref);
  }

  void
  Limit (const char *tenant, const TpsTenantLimits &limits)
  {
    TpsTenantEntry entry = { tenant, limits };
    tps_quotas_set_limits (quotas_, &entry, 1);
  }

  // The end of a call is counted before its reply is sent, so the status is exact after the reply.
  TpsTenantStatus
  Status (const char *tenant = TPS_ANONYMOUS_TENANT)
  {
    TpsTenantStatus status;
    tps_tenant_get_status (tps_quotas_find (quotas_, tenant), &status);
    return status;
  }

  TpsQuotas *quotas_ = nullptr;
};

// A call of an unknown method costs work, so it must also count.
TEST_F (QuotaTest, CallsOfUnknownMethodsCount)
{
  TpsTenantLimits limits = {};
  RawClient client (tcp_);
  limits.rates[TPS_QUOTA_CALLS] = { 1, 2 };
  Limit ("*", limits);

  EXPECT_EQ (ExceptionKind (client.Call ("Test:nonsense")), 1);
  EXPECT_EQ (ExceptionKind (client.Call ("Nowhere:echo")), 1);
  EXPECT_EQ (ErrorCode (client.Call ("Test:echo", IntField (1))), kExhausted);
  EXPECT_EQ (ExceptionKind (client.Call ("Test:nonsense")), 6); // it has no ServiceError
  // A refusal does not reveal which methods of the contract the server has.
  EXPECT_EQ (ErrorCode (client.Call ("EmbeddingTable:nonsense")), kExhausted);
}

// If a connection closes, its calls end and no longer count.
TEST_F (QuotaTest, CallsOfClosedConnectionsLeaveTheirTenant)
{
  TpsTenantLimits limits = {};
  limits.calls_in_flight = 100;
  Limit ("*", limits);
  {
    RawClient gone (tcp_);
    for (int i = 0; i < 10; i++)
      gone.Send ("Test:work", i, IntField (i));
    service_.WaitForWorking (1);
    while (Status ().n_calls_in_flight < 10)
      std::this_thread::yield ();
  }
  service_.LetGo ();
  while (Status ().n_calls_in_flight > 0)
    std::this_thread::yield ();
}

class OneLoopTest : public QuotaTest
{
protected:
  TpsServerOptions
  Options () override
  {
    TpsServerOptions options = QuotaTest::Options ();
    options.n_io_threads = 1;
    return options;
  }
};

// Workers must serve the tenants in turn, and the connections of each tenant in turn.
class CrowdTest : public ServerTest
{
protected:
  TpsServerOptions
  Options () override
  {
    TpsQuotasOptions quotas = {};
    TpsAccessOptions access = {};
    g_autofree gchar *rules = nullptr;
    close (g_file_open_tmp ("tps-crowd-rules-XXXXXX.json", &rules, nullptr));
    workers_ = tps_worker_pool_new ("crowd", 1);
    quotas.tenants.workers = workers_;
    quotas_ = tps_quotas_new (&quotas);
    EXPECT_TRUE (g_file_set_contents (
        rules,
        R"({ "rules": [ { "principals": ["anonymous"], "rights": ["push"], "tenant": "crowd" },
                        { "principals": ["uid:*"], "rights": ["push"], "tenant": "quiet" } ] })",
        -1, nullptr));
    access.rules_file = rules;
    access_ = tps_access_new (&access, nullptr);
    unlink (rules);
    TpsServerOptions options = {};
    parts_.workers = workers_;
    parts_.quotas = quotas_;
    options.access = access_;
    return options;
  }

  void
  TearDown () override
  {
    ServerTest::TearDown ();
    g_clear_pointer (&access_, tps_access_unref);
    g_clear_pointer (&quotas_, tps_quotas_unref);
    g_clear_pointer (&workers_, tps_worker_pool_free);
  }

  TpsWorkerPool *workers_ = nullptr;
  TpsQuotas *quotas_ = nullptr;
  TpsAccess *access_ = nullptr;
};

TEST_F (CrowdTest, ATenantWithManyConnectionsHasNoMoreTurnsThanOneWithASingleConnection)
{
  constexpr int n_crowd = 12, n_quiet = 3;
  std::vector<std::unique_ptr<RawClient>> crowd;
  RawClient quiet (unix_);

  for (int i = 0; i < n_crowd; i++)
    {
      crowd.push_back (std::make_unique<RawClient> (tcp_));
      crowd.back ()->Send ("Test:work", 1, IntField (100 + i));
      while (tps_server_get_n_calls (server_) < (guint) i + 1)
        std::this_thread::yield ();
    }
  for (int i = 0; i < n_quiet; i++)
    quiet.Send ("Test:work", i, IntField (i));
  TpsWorkerLoad load = {};
  while (tps_server_get_n_calls (server_) < n_crowd + n_quiet
         || load.n_waiting < n_crowd + n_quiet - 1) // one call is running
    tps_worker_pool_get_load (workers_, &load);
  service_.LetGo ();
  for (int i = 0; i < n_quiet; i++)
    EXPECT_LT (IntResult (quiet.Receive ()), n_quiet);
  for (auto &client : crowd)
    EXPECT_GE (IntResult (client->Receive ()), 100);
  std::vector<gint32> begun = service_.Begun ();
  auto turn = std::find (begun.begin (), begun.end (), n_quiet - 1) - begun.begin ();
  EXPECT_LE (turn, 2 * n_quiet + 1); // every other turn, after the running call
}

// The server has no tokens, so connections stay anonymous.
TEST_F (QuotaTest, AFewAttemptsToLogInPassTheLimits)
{
  TpsTenantLimits limits = {};
  RawClient flood (tcp_), client (tcp_);
  limits.rates[TPS_QUOTA_CALLS] = { 1, 1 };
  Limit ("*", limits);
  EXPECT_EQ (IntResult (flood.Call ("Test:echo", IntField (1))), 1);
  EXPECT_EQ (ErrorCode (flood.Call ("Test:echo", IntField (1))), kExhausted);

  auto log_in = [&] {
    return ErrorCode (client.Call ("Session:authenticate", [] (TpsWriter *out) {
      tps_writer_field (out, 1, TPS_WIRE_BINARY);
      tps_writer_string (out, "tps_token");
    }));
  };
  for (int i = 0; i < TPS_ACCESS_MAX_FAILURES; i++)
    EXPECT_NE (log_in (), kExhausted) << i;
  EXPECT_EQ (log_in (), kExhausted);
}

// Without this rule, a long call would bypass the limits on bytes.
TEST_F (QuotaTest, LongAttemptsToLogInDoNotPassTheLimits)
{
  TpsTenantLimits limits = {};
  RawClient client (tcp_);
  limits.rates[TPS_QUOTA_CALLS] = { 1, 1 };
  Limit ("*", limits);
  EXPECT_EQ (IntResult (client.Call ("Test:echo", IntField (1))), 1);

  auto log_in = [&] (size_t n_bytes) {
    return ErrorCode (client.Call ("Session:authenticate", BinaryField (n_bytes)));
  };
  EXPECT_EQ (log_in (200000), kExhausted);
  EXPECT_NE (log_in (TPS_TOKEN_MAX_BYTES), kExhausted);
}

// One I/O thread serves both connections. The calls of the flood must neither run before those of
// others nor faster than its refusals allow.
TEST_F (OneLoopTest, AFloodThatIgnoresRefusalsDoesNotStarveOthers)
{
  constexpr int n_flood = 1000, n_calls = 50;
  TpsTenantLimits limits = {};
  RawClient flood (tcp_), quiet (unix_);
  std::string calls;
  limits.rates[TPS_QUOTA_CALLS] = { 1, 1 };
  Limit (TPS_ANONYMOUS_TENANT, limits);

  for (int call = 0; call < n_flood; call++)
    calls += MessageBytes ({}, "Test:echo", call, IntField (call));
  gint64 begin_us = g_get_monotonic_time ();
  ASSERT_TRUE (flood.SendBytes (calls));
  EXPECT_EQ (IntResult (flood.Receive ()), 0);
  for (int call = 0; call < n_calls; call++)
    EXPECT_EQ (IntResult (quiet.Call ("Test:echo", IntField (call), call)), call);
  guint64 n_refused = Status ().n_refused[TPS_QUOTA_CALLS];
  gint64 elapsed_us = g_get_monotonic_time () - begin_us;
  EXPECT_LE ((gint64) n_refused, 1 + elapsed_us / 100000);
}

TEST_F (QuotaTest, AConnectionMayCloseWhileItIsNotRead)
{
  TpsTenantLimits limits = {};
  limits.rates[TPS_QUOTA_CALLS] = { 1, 1 };
  Limit ("*", limits);
  {
    RawClient gone (tcp_);
    EXPECT_EQ (IntResult (gone.Call ("Test:echo", IntField (1))), 1);
    EXPECT_EQ (ErrorCode (gone.Call ("Test:echo", IntField (1))), kExhausted);
  }
  while (tps_server_get_n_connections (server_) > 0)
    std::this_thread::yield ();
}

} // namespace
} // namespace thriftps_test
