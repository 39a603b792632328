// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/net/spin.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace {

constexpr gint64 kBudget = 50000;
constexpr gint64 kShort = 2 * kBudget;
constexpr gint64 kLong = 2 * kBudget + 1;

TpsSpin
NewSpin (gint64 budget_ns)
{
  TpsSpin spin;
  tps_spin_init (&spin, budget_ns);
  return spin;
}

void
AddWaits (TpsSpin *spin, int n, gint64 waited_ns, TpsSpinResult result = TPS_SPIN_NONE)
{
  for (int i = 0; i < n; i++)
    tps_spin_add_wait (spin, waited_ns, result);
}

TEST (SpinTest, BeginsAfterAFewShortWaits)
{
  TpsSpin spin = NewSpin (kBudget);
  EXPECT_FALSE (tps_spin_is_worthwhile (&spin));
  AddWaits (&spin, 10, kShort);
  EXPECT_TRUE (tps_spin_is_worthwhile (&spin));
}

TEST (SpinTest, NeverWithoutABudget)
{
  TpsSpin spin = NewSpin (0);
  AddWaits (&spin, 100, 0);
  EXPECT_FALSE (tps_spin_is_worthwhile (&spin));
}

TEST (SpinTest, StopsAfterThreeLongWaitsHoweverLongItWentWell)
{
  TpsSpin spin = NewSpin (kBudget);
  AddWaits (&spin, 100000, kShort);
  AddWaits (&spin, 3, kLong);
  EXPECT_FALSE (tps_spin_is_worthwhile (&spin));
}

// For any sequence of waits, the time spun without an event is bounded by the short waits. A loop
// without an imminent event must not spin.
TEST (SpinTest, SpendsLittleOnWaitsThatAreLong)
{
  for (unsigned seed = 0; seed < 200; seed++)
    {
      std::mt19937 dice (seed);
      TpsSpin spin = NewSpin (kBudget);
      std::bernoulli_distribution is_long (std::uniform_real_distribution<> (0.5, 1) (dice));
      gint64 n_short = 0, n_vain = 0;
      for (int i = 0; i < 2000; i++)
        {
          bool wait_is_long = is_long (dice);
          bool in_vain = wait_is_long && tps_spin_is_worthwhile (&spin);
          n_vain += in_vain;
          n_short += !wait_is_long;
          tps_spin_add_wait (&spin, wait_is_long ? kLong : kShort,
                             in_vain ? TPS_SPIN_MISS : TPS_SPIN_NONE);
        }
      EXPECT_LE (n_vain, n_short) << "seed " << seed;
    }
}

TEST (SpinTest, SpinsAtMostAQuarterOfWaitsThatAreALittleTooLong)
{
  TpsSpin spin = NewSpin (kBudget);
  int n_spun = 0;
  for (int i = 0; i < 1000; i++)
    {
      bool spins = tps_spin_is_worthwhile (&spin);
      n_spun += spins;
      tps_spin_add_wait (&spin, kBudget + kBudget / 2, spins ? TPS_SPIN_MISS : TPS_SPIN_NONE);
    }
  EXPECT_GT (n_spun, 0);
  EXPECT_LE (n_spun, 250);
}

// ---- competition for the core -----------------------------------------------------------------

constexpr gint64 kMs = 1000000;

// Simulates a loop that polls every 250 ns from `*now_ns` on for `duration_ns`. Every `period_ns`
// it loses the core for `gap_ns`. Returns the time after which the loop was told to stop spinning,
// or -1.
gint64
Look (TpsSpin *spin, gint64 *now_ns, gint64 duration_ns, gint64 period_ns, gint64 gap_ns)
{
  gint64 start_ns = *now_ns;
  gint64 next_gap_ns = start_ns + period_ns;
  while (*now_ns - start_ns < duration_ns)
    {
      bool is_gap = *now_ns >= next_gap_ns;
      gint64 step_ns = is_gap ? gap_ns : 250;
      *now_ns += step_ns;
      if (is_gap)
        next_gap_ns = *now_ns + period_ns;
      if (!tps_spin_add_gap (spin, *now_ns, step_ns))
        return *now_ns - start_ns;
    }
  return -1;
}

TEST (SpinTest, DoesNotCountTimerInterruptsAsContention)
{
  for (gint64 period_ns : { 1 * kMs, 4 * kMs, 10 * kMs }) // for HZ = 1000, 250 and 100
    {
      TpsSpin spin = NewSpin (kBudget);
      gint64 now_ns = 12345678 * kMs;
      AddWaits (&spin, 10, kShort);
      EXPECT_EQ (Look (&spin, &now_ns, 400 * kMs, period_ns, 50000), -1) << period_ns;
      EXPECT_TRUE (tps_spin_is_worthwhile (&spin));
    }
}

TEST (SpinTest, StopsAtOnceForAThreadThatTakesTheCore)
{
  TpsSpin spin = NewSpin (kBudget);
  AddWaits (&spin, 10, kShort);
  EXPECT_FALSE (tps_spin_add_gap (&spin, 1000 * kMs, 3 * kMs));
  EXPECT_FALSE (tps_spin_is_worthwhile (&spin));
}

TEST (SpinTest, StopsSoonForThreadsThatTakeTheCoreAgainAndAgain)
{
  TpsSpin spin = NewSpin (kBudget);
  gint64 now_ns = 0;
  gint64 stopped_ns = Look (&spin, &now_ns, 1000 * kMs, 50000, 50000);
  EXPECT_GT (stopped_ns, 0);
  EXPECT_LE (stopped_ns, 2 * kMs);
}

TEST (SpinTest, DoesNotAddUpOldGaps)
{
  TpsSpin spin = NewSpin (kBudget);
  for (gint64 second = 0; second < 100; second++)
    EXPECT_TRUE (tps_spin_add_gap (&spin, second * 1000 * kMs, 250000)) << second;
}

void
AddContention (TpsSpin *spin)
{
  EXPECT_FALSE (tps_spin_add_gap (spin, 0, 10 * kMs));
}

TEST (SpinTest, RestsLongerAfterEachContention)
{
  TpsSpin spin = NewSpin (kBudget);
  int last = 0;
  for (int round = 0; round < 5; round++)
    {
      AddWaits (&spin, 10, kShort);
      AddContention (&spin);
      int n_rested = 0;
      for (; !tps_spin_is_worthwhile (&spin); n_rested++)
        tps_spin_add_wait (&spin, kShort, TPS_SPIN_NONE);
      EXPECT_GT (n_rested, last);
      last = n_rested;
    }
  AddWaits (&spin, 1000000, kShort); // while asleep, there is no evidence about the core
  AddContention (&spin);
  AddWaits (&spin, 64 * 256, kShort);
  EXPECT_FALSE (tps_spin_is_worthwhile (&spin));
  AddWaits (&spin, 1000000, kShort, TPS_SPIN_FOUND); // undisturbed, so the next rest is short
  AddContention (&spin);
  AddWaits (&spin, 64, kShort);
  EXPECT_TRUE (tps_spin_is_worthwhile (&spin));
}

TEST (SpinTest, RestsForABoundedNumberOfWaits)
{
  TpsSpin spin = NewSpin (kBudget);
  for (int i = 0; i < 100; i++)
    AddContention (&spin);
  AddWaits (&spin, 65536, kShort);
  EXPECT_TRUE (tps_spin_is_worthwhile (&spin));
}

// ---- durations ------------------------------------------------------------------------------

TEST (SpinTest, TakesTheBudgetThatItIsGiven)
{
  EXPECT_EQ (tps_spin_choose_budget (nullptr, 0), 0);
  EXPECT_EQ (tps_spin_choose_budget (nullptr, 50), 50000);
  EXPECT_EQ (tps_spin_choose_budget ("0", 50), 0);
  EXPECT_EQ (tps_spin_choose_budget ("120", 0), 120000);
  EXPECT_EQ (tps_spin_choose_budget ("much", 40), 40000);
  EXPECT_EQ (tps_spin_choose_budget ("-1", 40), 40000);
}

TEST (SpinnersTest, NeverExceedTheLimit)
{
  g_autoptr (TpsSpinners) spinners = tps_spinners_new (3);
  std::atomic<unsigned> n_inside = 0;
  std::atomic<unsigned> n_entered = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; t++)
    threads.emplace_back ([&] {
      for (int i = 0; i < 20000; i++)
        if (tps_spinners_enter (spinners))
          {
            EXPECT_LE (++n_inside, 3u);
            n_entered++;
            n_inside--;
            tps_spinners_leave (spinners);
          }
    });
  for (auto &thread : threads)
    thread.join ();
  EXPECT_GT (n_entered, 0u);
  for (int i = 0; i < 3; i++)
    EXPECT_TRUE (tps_spinners_enter (spinners));
  EXPECT_FALSE (tps_spinners_enter (spinners));
}

TEST (SpinnersTest, AreCrowdedWhereMoreLoopsHaveWorkThanMaySpin)
{
  for (guint limit : { 1u, 3u, 32u })
    {
      g_autoptr (TpsSpinners) spinners = tps_spinners_new (limit);
      EXPECT_FALSE (tps_spinners_is_crowded (spinners, 0));
      for (guint i = 0; i <= limit; i++)
        {
          EXPECT_FALSE (tps_spinners_is_crowded (spinners, 1000)) << i << " of " << limit;
          tps_spinners_add_event (spinners, tps_spinners_take_slot (spinners), 1000);
        }
      EXPECT_TRUE (tps_spinners_is_crowded (spinners, 1000));
    }
}

TEST (SpinnersTest, AreAloneAgainMomentsAfterTheOthersLastEvents)
{
  g_autoptr (TpsSpinners) spinners = tps_spinners_new (1);
  guint busy = tps_spinners_take_slot (spinners);
  gint64 now_ns = 0;
  for (int i = 0; i < 7; i++)
    tps_spinners_add_event (spinners, tps_spinners_take_slot (spinners), now_ns);
  while (now_ns < TPS_SPINNERS_RECENT_NS)
    {
      tps_spinners_add_event (spinners, busy, now_ns);
      EXPECT_TRUE (tps_spinners_is_crowded (spinners, now_ns));
      now_ns += 10000;
    }
  tps_spinners_add_event (spinners, busy, now_ns);
  EXPECT_FALSE (tps_spinners_is_crowded (spinners, now_ns));
}

TEST (SpinnersTest, HaveSlotsForAnyNumberOfLoops)
{
  g_autoptr (TpsSpinners) spinners = tps_spinners_new (1);
  for (int i = 0; i < 1000; i++)
    tps_spinners_add_event (spinners, tps_spinners_take_slot (spinners), 0);
  EXPECT_TRUE (tps_spinners_is_crowded (spinners, 0));
}

} // namespace
