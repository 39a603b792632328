// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/server/budgets.h"

#include <gtest/gtest.h>

#include "runtime/machine/machine.h"
#include "tests/runtime/base/readings.h"

namespace thriftps_test {
namespace {

/* A client of one service must not fill the memory for the push ids of another. */
TEST (BudgetsTest, PushWindowsDoNotDependOnEachOther)
{
  constexpr gsize kMib = 1 << 20;
  TpsBudgetLimits limits = { .max_memory_bytes = 12 * kMib };
  g_autoptr (TpsBudgets) budgets = tps_budgets_new (&limits);
  TpsBudget *const all[] = { budgets->rendezvous_windows, budgets->model_windows,
                             budgets->table_windows };
  const gsize n_mib[] = { 3, 3, 5 }; /* the headroom takes a part of the last one */

  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    for (gsize n = 0; n < 1000; n++)
      EXPECT_TRUE (tps_budget_charge (all[i], kMib, nullptr) || n >= n_mib[i])
          << tps_budget_get_name (all[i]) << " " << n;
  for (TpsBudget *budget : all)
    tps_budget_release (budget, tps_budget_get_held (budget));
}

/* Even if lasting state and large requests have used up their shares, calls that release or inspect
 * memory must find room. */
TEST (BudgetsTest, SmallRequestsAndRepliesFitWhenOtherBudgetsAreFull)
{
  constexpr gsize kMib = 1 << 20;
  TpsBudgetLimits limits = { .max_memory_bytes = 24 * kMib,
                             .max_pending_bytes = 24 * kMib,
                             .max_table_bytes = 24 * kMib };
  g_autoptr (TpsBudgets) budgets = tps_budgets_new (&limits);

  EXPECT_EQ (tps_budget_get_max (budgets->tables), 22 * kMib);
  ASSERT_TRUE (tps_budget_charge (budgets->tables, 11 * kMib, nullptr));
  ASSERT_TRUE (tps_budget_charge (budgets->pending, 11 * kMib, nullptr));
  EXPECT_FALSE (tps_budget_charge (budgets->tables, 1, nullptr));
  EXPECT_FALSE (tps_budget_charge (budgets->pending, kMib, nullptr));
  EXPECT_FALSE (tps_budget_charge (budgets->replies, kMib, nullptr));
  EXPECT_TRUE (tps_budget_charge (budgets->windows, kMib, nullptr)) << "pushes are remembered";
  EXPECT_FALSE (tps_budget_charge (budgets->windows, kMib, nullptr));
  EXPECT_TRUE (tps_budget_charge (budgets->pending, 5000, nullptr));
  EXPECT_FALSE (tps_budget_charge (budgets->strangers, kMib, nullptr));
  EXPECT_TRUE (tps_budget_charge (budgets->strangers, 5000, nullptr));
  EXPECT_TRUE (tps_budget_charge (budgets->replies, 5000, nullptr));
  tps_budget_release (budgets->tables, 11 * kMib);
  tps_budget_release (budgets->windows, kMib);
  tps_budget_release (budgets->pending, 11 * kMib + 5000);
  tps_budget_release (budgets->strangers, 5000);
  tps_budget_release (budgets->replies, 5000);
}

TEST (BudgetsTest, EveryBudgetHasGauges)
{
  TpsBudgetLimits limits = { .max_memory_bytes = 1000 };
  g_autoptr (TpsCounters) counters = tps_counters_new ();
  guint n_held = 0;

  {
    g_autoptr (TpsBudgets) budgets = tps_budgets_new (&limits);
    tps_budgets_add_gauges (budgets, counters);
    ASSERT_TRUE (tps_budget_charge (budgets->tables, 100, nullptr));
    ForEachNumber (counters, [&] (const TpsFamily &family, const TpsSample &sample) {
      if (g_str_equal (family.name, "memory_refused_total"))
        return;
      bool is_above = g_str_equal (sample.values[0], "the process")
                      || g_str_equal (sample.values[0], "tables");
      EXPECT_EQ (family.kind, TPS_FAMILY_GAUGE);
      EXPECT_STREQ (family.labels[0], "budget");
      if (g_str_equal (family.name, "memory_limit_bytes"))
        EXPECT_LE (sample.number, 1000);
      else
        EXPECT_EQ (sample.number, is_above ? 100 : 0) << sample.values[0];
      n_held += g_str_equal (family.name, "memory_held_bytes");
    });
    tps_budget_release (budgets->tables, 100);
  }
  EXPECT_EQ (n_held, 17u);
  EXPECT_EQ (ListNumbers (counters), "");
}

} // namespace
} // namespace thriftps_test
