// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/base/budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "runtime/base/error.h"

namespace {

struct BudgetTest : testing::Test
{
  ~BudgetTest () override
  {
    g_clear_error (&error);
    tps_budget_unref (small);
    tps_budget_unref (large);
    tps_budget_unref (process);
  }

  TpsBudget *process = tps_budget_new (nullptr, "process", 100);
  TpsBudget *small = tps_budget_new (process, "small", 40);
  TpsBudget *large = tps_budget_new (process, "large", 90);
  GError *error = nullptr;
};

TEST_F (BudgetTest, RefusesChargesBeyondItsOwnLimitAndReportsTheHeldBytes)
{
  tps_budget_set_flag (small, "--max-small-mib");
  ASSERT_TRUE (tps_budget_charge (small, 30, nullptr));
  ASSERT_FALSE (tps_budget_charge (small, 11, &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  EXPECT_EQ (tps_error_get_retry_after_ms (error), TPS_RETRY_AFTER_MS);
  EXPECT_STREQ (error->message,
                "the budget of small: no room for 11 bytes, 30 of 40 bytes are held; "
                "see --max-small-mib");
  EXPECT_EQ (tps_budget_get_held (small), 30u);
  EXPECT_EQ (tps_budget_get_held (process), 30u);
  tps_budget_release (small, 30);
}

TEST_F (BudgetTest, LimitsOfSiblingsMayAddUpToMoreThanTheParentsButChargesMayNot)
{
  ASSERT_TRUE (tps_budget_charge (large, 90, nullptr));
  ASSERT_FALSE (tps_budget_charge (small, 11, &error));
  EXPECT_STREQ (error->message,
                "the budget of process: no room for 11 bytes, 90 of 100 bytes are held");
  EXPECT_EQ (tps_error_get_retry_after_ms (error), TPS_RETRY_AFTER_MS);
  EXPECT_EQ (tps_budget_get_held (small), 0u) << "undone";
  EXPECT_EQ (tps_budget_get_held (process), 90u);
  EXPECT_TRUE (tps_budget_charge (small, 10, nullptr));
  tps_budget_release (small, 10);
  tps_budget_release (large, 90);
}

TEST_F (BudgetTest, HeadroomIsLeftForSiblings)
{
  tps_budget_set_headroom (large, 15, 0);
  EXPECT_EQ (tps_budget_get_max (large), 85u);
  ASSERT_FALSE (tps_budget_charge (large, 86, &error));
  EXPECT_STREQ (error->message, "the budget of process: 86 bytes exceed its limit of 85 bytes");
  EXPECT_EQ (tps_error_get_retry_after_ms (error), -1);
  g_clear_error (&error);
  ASSERT_TRUE (tps_budget_charge (large, 80, nullptr));
  ASSERT_FALSE (tps_budget_charge (large, 6, &error));
  EXPECT_STREQ (error->message,
                "the budget of process: no room for 6 bytes, 80 of 85 bytes are held");
  EXPECT_TRUE (tps_budget_charge (small, 20, nullptr));
  EXPECT_FALSE (tps_budget_charge (large, 1, nullptr)) << "the sibling has taken it";
  tps_budget_release (large, 80);
  EXPECT_TRUE (tps_budget_charge (large, 65, nullptr));
  tps_budget_release (large, 65);
  tps_budget_release (small, 20);
}

TEST_F (BudgetTest, SmallChargesMayTakeTheHeadroom)
{
  tps_budget_set_headroom (large, 20, 5);
  ASSERT_TRUE (tps_budget_charge (small, 40, nullptr));
  EXPECT_FALSE (tps_budget_charge (large, 41, nullptr));
  ASSERT_TRUE (tps_budget_charge (large, 40, nullptr));
  EXPECT_FALSE (tps_budget_charge (large, 6, nullptr));
  for (int i = 0; i < 4; i++)
    EXPECT_TRUE (tps_budget_charge (large, 5, nullptr));
  EXPECT_FALSE (tps_budget_charge (large, 1, nullptr));
  tps_budget_release (large, 60);
  tps_budget_release (small, 40);
}

TEST_F (BudgetTest, ChargesThatNeverFitAreRefusedForGood)
{
  TpsBudget *unlimited = tps_budget_new (small, "unlimited", 0);

  ASSERT_FALSE (tps_budget_charge (unlimited, 41, &error));
  EXPECT_STREQ (error->message, "the budget of small: 41 bytes exceed its limit of 40 bytes");
  EXPECT_EQ (tps_error_get_retry_after_ms (error), -1);
  g_clear_error (&error);

  /* The budget is exhausted, and the charge exceeds its limit. The error must report the permanent
   * cause. */
  ASSERT_TRUE (tps_budget_charge (unlimited, 40, nullptr));
  ASSERT_FALSE (tps_budget_charge (unlimited, 101, &error));
  EXPECT_EQ (tps_error_get_retry_after_ms (error), -1);
  g_clear_error (&error);
  ASSERT_FALSE (tps_budget_charge (unlimited, G_MAXSIZE, &error)) << "no overflow";
  EXPECT_EQ (tps_budget_get_held (process), 40u);
  tps_budget_release (unlimited, 40);
  tps_budget_unref (unlimited);
}

// ---- memory kept for reuse ----------------------------------------------------------------------

// Keeps memory in steps of 8 bytes, charged to a budget.
struct Keeper
{
  Keeper (TpsBudget *of, gsize n_bytes) : budget (of), kept (n_bytes)
  {
    EXPECT_TRUE (tps_budget_charge (budget, kept, nullptr));
    id = tps_budget_add_reclaimer (budget, Reclaim, this);
  }
  ~Keeper ()
  {
    tps_budget_remove_reclaimer (budget, id);
    tps_budget_release (budget, kept);
  }
  static gsize
  Reclaim (gpointer user_data, gsize n_bytes)
  {
    auto *self = static_cast<Keeper *> (user_data);
    gsize freed = std::min ((n_bytes + 7) / 8 * 8, self->kept);

    self->n_calls++;
    self->kept -= freed;
    tps_budget_release (self->budget, freed);
    return freed;
  }

  TpsBudget *budget;
  gsize kept;
  guint id;
  int n_calls = 0;
};

TEST_F (BudgetTest, KeptMemoryIsFreedBeforeAChargeIsRefused)
{
  Keeper keeper (large, 80);

  EXPECT_TRUE (tps_budget_charge (small, 20, nullptr));
  EXPECT_EQ (keeper.n_calls, 0) << "it fits";
  EXPECT_TRUE (tps_budget_charge (small, 10, nullptr));
  EXPECT_EQ (keeper.kept, 64u) << "no more than is needed";
  EXPECT_TRUE (tps_budget_charge (large, 70, nullptr));
  EXPECT_EQ (keeper.kept, 0u);
  EXPECT_FALSE (tps_budget_charge (large, 1, nullptr));
  tps_budget_release (large, 70);
  tps_budget_release (small, 30);
}

TEST_F (BudgetTest, KeptMemoryOfOthersIsLeftAloneWhereItDoesNotHelp)
{
  Keeper keeper (large, 16);

  EXPECT_TRUE (tps_budget_charge (small, 40, nullptr));
  EXPECT_FALSE (tps_budget_charge (small, 1, nullptr)) << "its own limit";
  EXPECT_FALSE (tps_budget_charge (large, 200, nullptr)) << "it can never fit";
  EXPECT_EQ (keeper.n_calls, 0);
  tps_budget_release (small, 40);
}

TEST_F (BudgetTest, KeptMemoryIsGivenBackOnRequest)
{
  Keeper keeper (large, 80);

  EXPECT_EQ (tps_budget_reclaim (small, 40), 0u) << "the budget keeps no memory";
  EXPECT_EQ (tps_budget_reclaim (process, 40), 40u);
  EXPECT_EQ (keeper.kept, 40u);
  EXPECT_EQ (tps_budget_reclaim (large, 1000), 40u);
  EXPECT_EQ (tps_budget_get_held (process), 0u);
}

// ---- all budgets --------------------------------------------------------------------------------

TEST_F (BudgetTest, ThreadsNeverHoldMoreThanTheLimitTogether)
{
  std::atomic<bool> over { false };
  std::atomic<gint> n_charged { 0 };
  std::vector<std::thread> threads;

  for (gsize i = 0; i < 4; i++)
    threads.emplace_back ([&, i] {
      TpsBudget *budget = i % 2 ? small : large;

      for (gsize k = 0; k < 20000; k++)
        {
          gsize n_bytes = (k * 7 + i * 13) % 40 + 1;

          if (!tps_budget_charge (budget, n_bytes, nullptr))
            continue;
          n_charged++;
          if (tps_budget_get_held (process) > 100 || tps_budget_get_held (small) > 40)
            over = true;
          tps_budget_release (budget, n_bytes);
        }
    });
  for (auto &thread : threads)
    thread.join ();
  EXPECT_FALSE (over);
  EXPECT_GT (n_charged, 0);
  EXPECT_EQ (tps_budget_get_held (process), 0u);
  EXPECT_EQ (tps_budget_get_held (small), 0u);
  EXPECT_EQ (tps_budget_get_held (large), 0u);
  EXPECT_LE (tps_budget_get_peak (process), 100u);
}

TEST_F (BudgetTest, ALimitMayChangeWhileMoreIsHeld)
{
  ASSERT_TRUE (tps_budget_charge (small, 30, nullptr));
  tps_budget_set_max (small, 20);
  EXPECT_EQ (tps_budget_get_free (small), 0u);
  EXPECT_FALSE (tps_budget_charge (small, 1, nullptr));
  EXPECT_EQ (tps_budget_get_n_refused (small), 1u);
  tps_budget_release (small, 15);
  EXPECT_TRUE (tps_budget_charge (small, 5, nullptr));
  tps_budget_set_max (small, 0);
  EXPECT_TRUE (tps_budget_charge (small, 80, nullptr));
  EXPECT_FALSE (tps_budget_charge (small, 1, nullptr));
  EXPECT_EQ (tps_budget_get_n_refused (small), 1u); /* the parent refused */
  EXPECT_EQ (tps_budget_get_n_refused (process), 1u);
  tps_budget_release (small, 100);
}

} // namespace
