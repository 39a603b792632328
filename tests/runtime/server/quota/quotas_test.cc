/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/quota/quotas.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

namespace {

constexpr gint64 second = 1000000000;

std::atomic<gint64> clock_ns { second };

gint64
get_now_ns ()
{
  return clock_ns;
}

struct QuotasTest : testing::Test
{
  QuotasTest ()
  {
    TpsQuotasOptions options = {};

    clock_ns = 1000 * second;
    options.tenants = { tables, nullptr, get_now_ns };
    options.max_unlisted = 3;
    quotas = tps_quotas_new (&options);
  }

  ~QuotasTest () override
  {
    g_clear_error (&error);
    tps_quotas_unref (quotas);
    tps_budget_unref (tables);
  }

  void
  set_limits (const gchar *name, const TpsTenantLimits &limits)
  {
    TpsTenantEntry entry = { name, limits };

    tps_quotas_set_limits (quotas, &entry, 1);
  }

  /* Returns tenant a, with this limit alone. */
  TpsTenant *
  limit_rate (TpsQuotaKind kind, const TpsRateLimit &rate)
  {
    TpsTenantLimits limits = {};

    limits.rates[kind] = rate;
    set_limits ("a", limits);
    return tps_quotas_find (quotas, "a");
  }

  /* Returns the limit that refused a call of `n_bytes`. "" = the call was admitted and is still
   * running. */
  std::string
  begin (TpsTenant *tenant, gsize n_bytes = 100)
  {
    g_clear_error (&error);
    if (tps_tenant_begin_call (tenant, n_bytes, 0, &error))
      return "";
    EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
    EXPECT_GT (tps_error_get_retry_after_ms (error), 0);
    for (guint i = 0; i < TPS_N_QUOTAS; i++)
      if (strstr (error->message, tps_quota_kind_name ((TpsQuotaKind) i)) != nullptr)
        return tps_quota_kind_name ((TpsQuotaKind) i);
    return error->message;
  }

  std::string
  call (TpsTenant *tenant, gsize n_bytes_in = 100, gsize n_bytes_out = 100)
  {
    std::string refused = begin (tenant, n_bytes_in);

    if (refused.empty ())
      tps_tenant_end_call (tenant, n_bytes_out, 0);
    return refused;
  }

  TpsTenantStatus
  status (TpsTenant *tenant)
  {
    TpsTenantStatus status;

    tps_tenant_get_status (tenant, &status);
    return status;
  }

  TpsBudget *tables = tps_budget_new (nullptr, "tables", 1000);
  TpsQuotas *quotas;
  GError *error = nullptr;
};

TEST_F (QuotasTest, CallsAreLimitedAndARefusalHasARetryTime)
{
  TpsTenant *tenant = limit_rate (TPS_QUOTA_CALLS, { 10, 2 });

  EXPECT_EQ (call (tenant), "");
  EXPECT_EQ (call (tenant), "");
  EXPECT_EQ (call (tenant), "calls_per_s");
  EXPECT_STREQ (error->message, "tenant a: the limit calls_per_s is reached, 10 with a burst of 2; "
                                "try again in 100 ms");
  EXPECT_EQ (tps_error_get_retry_after_ms (error), 100);
  EXPECT_EQ (status (tenant).n_calls_in_flight, 0u);
  EXPECT_EQ (status (tenant).n_refused[TPS_QUOTA_CALLS], 1u);
  EXPECT_EQ (status (tenant).throttled_ms, 100u);
  clock_ns += second / 10;
  EXPECT_EQ (call (tenant), "");
  EXPECT_EQ (call (tps_quotas_find (quotas, "b")), "");
}

/* ---- times that callers know ----------------------------------------------------------------- */

/* These tests use the system's clock. A time in the future is later than any time that the tenant
 * reads. */
struct TimesOfCallers : testing::Test
{
  TimesOfCallers ()
  {
    TpsTenantEntry entry = { "a", {} };
    TpsQuotasOptions options = {};

    entry.limits.rates[TPS_QUOTA_CALLS] = { 10, 2 };
    entry.limits.rates[TPS_QUOTA_ROWS] = { 10, 10 };
    entry.limits.rates[TPS_QUOTA_BYTES_OUT] = { 10, 10 };
    quotas = tps_quotas_new (&options);
    tps_quotas_set_limits (quotas, &entry, 1);
    tenant = tps_quotas_find (quotas, "a");
  }
  ~TimesOfCallers () override
  {
    tps_quotas_unref (quotas);
  }

  /* Returns the suggested delay in ms if the call is refused; 0 = the call was admitted. */
  gint
  begin (gint64 now_ns)
  {
    g_autoptr (GError) error = nullptr;

    if (tps_tenant_begin_call (tenant, 1, now_ns, &error))
      return 0;
    return tps_error_get_retry_after_ms (error);
  }

  TpsQuotas *quotas;
  TpsTenant *tenant;
  gint64 future_ns = tps_clock_now_ns () + 3600 * second;
};

TEST_F (TimesOfCallers, AreUsedInsteadOfTheClock)
{
  g_autoptr (GError) error = nullptr;

  EXPECT_EQ (begin (future_ns), 0);
  EXPECT_EQ (begin (future_ns), 0);
  EXPECT_EQ (begin (future_ns), 100);
  EXPECT_EQ (begin (future_ns + second / 10), 0);
  EXPECT_TRUE (tps_tenant_add_rows (tenant, 10, future_ns, nullptr));
  EXPECT_FALSE (tps_tenant_add_rows (tenant, 5, future_ns, &error));
  EXPECT_EQ (tps_error_get_retry_after_ms (error), 500);
  EXPECT_TRUE (tps_tenant_add_rows (tenant, 5, future_ns + second / 2, nullptr));
  tps_tenant_end_call (tenant, 30, future_ns);
  EXPECT_EQ (begin (future_ns + second), 1000) << "the debt ends a second later";
  EXPECT_EQ (begin (future_ns + 2 * second), 0);
}

/* The tokens of the last ten seconds are available, although they were not at the time of the
 * arrival. */
TEST_F (TimesOfCallers, RefuseNoCallThatConformsNow)
{
  gint64 arrived_ns = tps_clock_now_ns () - 10 * second;

  EXPECT_EQ (begin (arrived_ns), 0);
  EXPECT_EQ (begin (arrived_ns), 0);
  EXPECT_EQ (begin (arrived_ns), 0);
  EXPECT_TRUE (tps_tenant_add_rows (tenant, 10, arrived_ns, nullptr));
  EXPECT_TRUE (tps_tenant_add_rows (tenant, 10, arrived_ns, nullptr));
  tps_tenant_end_call (tenant, 50, arrived_ns);
  EXPECT_EQ (begin (arrived_ns), 0);
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* Each caller that returns at its turn must be admitted, so that no caller is refused twice. */
TEST_F (QuotasTest, RefusedCallersReturnOneAfterTheOther)
{
  std::multimap<gint64, int> turns;
  TpsTenant *tenant = limit_rate (TPS_QUOTA_CALLS, { 10, 1 });

  EXPECT_EQ (call (tenant), "");
  for (int i = 0; i < 8; i++)
    {
      EXPECT_EQ (call (tenant), "calls_per_s");
      turns.emplace (clock_ns + tps_error_get_retry_after_ms (error) * (second / 1000), i);
    }
  for (auto turn : turns)
    {
      clock_ns = turn.first;
      EXPECT_EQ (call (tenant), "") << turn.second;
    }
  EXPECT_EQ (clock_ns, 1000 * second + 8 * second / 10);
}

/* A caller that never returns must delay others by at most a second. */
TEST_F (QuotasTest, CallersThatNeverReturnDelayOthersByASecondAtMost)
{
  TpsTenant *tenant = limit_rate (TPS_QUOTA_CALLS, { 10, 1 });

  EXPECT_EQ (call (tenant), "");
  for (int i = 0; i < 1000; i++)
    EXPECT_EQ (call (tenant), "calls_per_s");
  EXPECT_EQ (tps_error_get_retry_after_ms (error), 1100);
  clock_ns += 2 * second;
  EXPECT_EQ (call (tenant), "");
  EXPECT_EQ (call (tenant), "calls_per_s");
  EXPECT_EQ (tps_error_get_retry_after_ms (error), 100);
}

TEST_F (QuotasTest, ARefusedCallIsChargedForNothing)
{
  TpsTenantLimits limits = {};
  TpsTenant *tenant;

  limits.rates[TPS_QUOTA_CALLS] = { 10, 2 };
  limits.rates[TPS_QUOTA_BYTES_IN] = { 1000, 1000 };
  set_limits ("a", limits);
  tenant = tps_quotas_find (quotas, "a");
  EXPECT_EQ (call (tenant, 800), "");
  for (int i = 0; i < 5; i++)
    EXPECT_EQ (call (tenant, 800), "bytes_in_per_s");
  EXPECT_EQ (status (tenant).levels[TPS_QUOTA_CALLS], 1);
  EXPECT_EQ (status (tenant).levels[TPS_QUOTA_BYTES_IN], 200);
  EXPECT_EQ (call (tenant, 200), "");
  EXPECT_EQ (call (tenant, 0), "calls_per_s");
}

TEST_F (QuotasTest, SentBytesLeaveADebtThatLaterCallsWaitFor)
{
  TpsTenant *tenant = limit_rate (TPS_QUOTA_BYTES_OUT, { 1000, 1000 });

  EXPECT_EQ (call (tenant, 1, 5000), "");
  EXPECT_EQ (status (tenant).levels[TPS_QUOTA_BYTES_OUT], -4000);
  EXPECT_EQ (call (tenant), "bytes_out_per_s");
  EXPECT_EQ (tps_error_get_retry_after_ms (error), 4000);
  clock_ns += 4 * second;
  EXPECT_EQ (call (tenant), "");
}

TEST_F (QuotasTest, TheNumberOfTenantsWithoutAnEntryIsBounded)
{
  TpsTenantLimits limits = {};
  TpsTenant *others;
  g_autoptr (GArray) list = nullptr;

  for (const gchar *name : { "a", "b", "c" })
    EXPECT_STREQ (tps_tenant_get_name (tps_quotas_find (quotas, name)), name);
  others = tps_quotas_find (quotas, "d");
  EXPECT_STREQ (tps_tenant_get_name (others), TPS_QUOTAS_OTHERS_NAME);
  EXPECT_EQ (tps_quotas_find (quotas, "e"), others);
  EXPECT_STREQ (tps_tenant_get_name (tps_quotas_find (quotas, "b")), "b");
  set_limits ("e", limits);
  EXPECT_STREQ (tps_tenant_get_name (tps_quotas_find (quotas, "e")), "e");
  list = tps_quotas_list (quotas);
  ASSERT_EQ (list->len, 5u);
  EXPECT_STREQ (g_array_index (list, TpsTenantStatus, 0).name, TPS_QUOTAS_OTHERS_NAME);
  EXPECT_STREQ (g_array_index (list, TpsTenantStatus, 4).name, "e");
}

/* Returns the samples of a reading, as exporters print them. */
std::map<std::string, gint64>
samples_of (TpsCounters *counters)
{
  std::map<std::string, gint64> all;
  TpsReading *reading = tps_counters_read (counters);
  guint n_families;
  const TpsFamilyReading *families = tps_reading_get_families (reading, &n_families);

  for (guint i = 0; i < n_families; i++)
    for (guint j = 0; j < families[i].samples->len; j++)
      {
        const TpsSample *sample = &g_array_index (families[i].samples, TpsSample, j);

        all[std::string (families[i].family->name) + "{" + sample->labels + "}"] = sample->number;
      }
  tps_reading_free (reading);
  return all;
}

TEST_F (QuotasTest, TenantsAreAmongTheMetrics)
{
  g_autoptr (TpsCounters) counters = tps_counters_new ();
  TpsTenantLimits limits = {};
  guint id = tps_counters_add_collector (counters, tps_quotas_collect, quotas);

  limits.rates[TPS_QUOTA_CALLS] = { 10, 2 };
  limits.rates[TPS_QUOTA_BYTES_OUT] = { 1000, 1000 };
  limits.table_bytes = 5000;
  set_limits ("a", limits);
  EXPECT_EQ (call (tps_quotas_find (quotas, "a"), 1, 3000), "");
  EXPECT_EQ (call (tps_quotas_find (quotas, "a")), "bytes_out_per_s");
  EXPECT_EQ (begin (tps_quotas_find (quotas, "b")), "");
  EXPECT_EQ (samples_of (counters),
             (std::map<std::string, gint64> {
                 { R"(tenant_calls_in_flight{tenant="a"})", 0 },
                 { R"(tenant_calls_in_flight{tenant="b"})", 1 },
                 { R"(tenant_limit{tenant="a",limit="bytes_out_per_s"})", 1000 },
                 { R"(tenant_limit{tenant="a",limit="calls_per_s"})", 10 },
                 { R"(tenant_limit{tenant="a",limit="table_bytes"})", 5000 },
                 { R"(tenant_refused_total{tenant="a",limit="bytes_out_per_s"})", 1 },
                 { R"(tenant_refused_total{tenant="a",limit="calls_per_s"})", 0 },
                 { R"(tenant_refused_total{tenant="a",limit="table_bytes"})", 0 },
                 { R"(tenant_table_bytes{tenant="a"})", 0 },
                 { R"(tenant_table_bytes{tenant="b"})", 0 },
                 { R"(tenant_throttled_seconds_total{tenant="a"})", 2000 },
                 { R"(tenant_throttled_seconds_total{tenant="b"})", 0 },
                 { R"(tenant_tokens{tenant="a",limit="bytes_out_per_s"})", -2000 },
                 { R"(tenant_tokens{tenant="a",limit="calls_per_s"})", 1 },
             }));
  tps_tenant_end_call (tps_quotas_find (quotas, "b"), 0, 0);
  tps_counters_remove_collector (counters, id);
  EXPECT_TRUE (samples_of (counters).empty ());
}

/* Threads start and end calls while others replace the limits. No call may be lost, and no call may
 * exceed a limit that is always present. */
TEST_F (QuotasTest, LimitsMayBeReplacedWhileCallsAreDecided)
{
  constexpr guint n_calls = 20000;
  std::atomic<int> n_in_flight { 0 }, n_most { 0 };
  std::vector<std::thread> threads;
  TpsTenant *tenant = tps_quotas_find (quotas, "a");
  TpsTenantLimits limits = {};

  limits.calls_in_flight = 2;
  set_limits ("a", limits);
  for (guint t = 0; t < 3; t++)
    threads.emplace_back ([&] {
      for (guint i = 0; i < n_calls; i++)
        {
          if (!tps_tenant_begin_call (tenant, 10, 0, nullptr))
            continue;
          int n = ++n_in_flight;
          int most = n_most;

          while (n > most && !n_most.compare_exchange_weak (most, n))
            ;
          n_in_flight--;
          tps_tenant_end_call (tenant, 10, 0);
        }
    });
  for (guint i = 0; i < 200; i++)
    {
      limits.rates[TPS_QUOTA_CALLS].per_s = 1000000 + i;
      set_limits ("a", limits);
    }
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_LE (n_most, 2);
  EXPECT_EQ (status (tenant).n_calls_in_flight, 0u);
}

} // namespace
