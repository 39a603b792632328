/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/phases.h"

#include <gtest/gtest.h>

namespace thriftps {
namespace {

gint64 now_ns;
int n_reads;

gint64
read_clock ()
{
  n_reads++;
  return now_ns;
}

class PhasesTest : public testing::Test
{
protected:
  void
  begin (gboolean is_detailed)
  {
    now_ns = 1000;
    n_reads = 0;
    tps_phases_begin (&phases_, TPS_PHASE_DECODE, read_clock, now_ns, is_detailed);
  }

  gint64
  sum (TpsPhase phase)
  {
    gint64 sums[TPS_N_PHASES];

    tps_phases_sum (&phases_, sums);
    return sums[phase];
  }

  TpsPhases phases_ = {};
};

TEST_F (PhasesTest, shortWorkReadsNoClockAndIsOnePhase)
{
  begin (FALSE);
  tps_phases_enter (&phases_, TPS_PHASE_APPLY);
  now_ns += 500;
  tps_phases_enter (&phases_, TPS_PHASE_REPLY);
  tps_phases_end (&phases_, now_ns);
  EXPECT_EQ (n_reads, 0);
  EXPECT_EQ (tps_phases_get_total_ns (&phases_), 500);
  EXPECT_EQ (sum (TPS_PHASE_APPLY), 500);
}

TEST_F (PhasesTest, workInDetailHasAllItsPhasesAndTheyAddUp)
{
  begin (TRUE);
  now_ns += 1;
  tps_phases_enter (&phases_, TPS_PHASE_APPLY);
  now_ns += 20;
  tps_phases_enter (&phases_, TPS_PHASE_APPLY); /* the same phase continues */
  tps_phases_enter_long (&phases_, TPS_PHASE_WAIT);
  now_ns += 300;
  tps_phases_enter_long (&phases_, TPS_PHASE_APPLY);
  now_ns += 4000;
  tps_phases_enter (&phases_, TPS_PHASE_REPLY);
  now_ns += 50000;
  tps_phases_end (&phases_, now_ns);
  EXPECT_EQ (sum (TPS_PHASE_DECODE), 1);
  EXPECT_EQ (sum (TPS_PHASE_APPLY), 4020);
  EXPECT_EQ (sum (TPS_PHASE_WAIT), 300);
  EXPECT_EQ (sum (TPS_PHASE_REPLY), 50000);
  EXPECT_EQ (sum (TPS_PHASE_QUEUE), 0);
  EXPECT_EQ (tps_phases_get_total_ns (&phases_), 54321);
  EXPECT_EQ (n_reads, 4);
}

TEST_F (PhasesTest, aLongPhaseBeginsTheDetail)
{
  begin (FALSE);
  now_ns += 10;
  tps_phases_enter_long (&phases_, TPS_PHASE_QUEUE);
  now_ns += 700;
  tps_phases_enter (&phases_, TPS_PHASE_DECODE);
  now_ns += 3;
  tps_phases_end (&phases_, now_ns);
  EXPECT_EQ (sum (TPS_PHASE_APPLY), 10);
  EXPECT_EQ (sum (TPS_PHASE_QUEUE), 700);
  EXPECT_EQ (sum (TPS_PHASE_DECODE), 3);
}

TEST_F (PhasesTest, aPhaseCanGetItsNameLater)
{
  begin (FALSE);
  now_ns += 9;
  tps_phases_rename (&phases_, TPS_PHASE_WAIT);
  tps_phases_enter_long (&phases_, TPS_PHASE_APPLY);
  now_ns += 1;
  tps_phases_end (&phases_, now_ns);
  EXPECT_EQ (sum (TPS_PHASE_WAIT), 9);
  EXPECT_EQ (sum (TPS_PHASE_APPLY), 1);
}

TEST_F (PhasesTest, moreThanAreKeptApartCountForTheLast)
{
  begin (TRUE);
  for (int i = 0; i < 100; i++)
    {
      now_ns += 1;
      tps_phases_enter (&phases_, i % 2 == 0 ? TPS_PHASE_WAIT : TPS_PHASE_APPLY);
    }
  tps_phases_end (&phases_, now_ns);
  EXPECT_EQ (phases_.n, static_cast<guint> (TPS_PHASES_MAX));
  EXPECT_EQ (tps_phases_get_total_ns (&phases_), 100);
  EXPECT_EQ (sum (TPS_PHASE_DECODE) + sum (TPS_PHASE_WAIT) + sum (TPS_PHASE_APPLY), 100);
}

TEST (Phases, nullIsValid)
{
  tps_phases_begin (nullptr, TPS_PHASE_APPLY, read_clock, 1, TRUE);
  tps_phases_enter (nullptr, TPS_PHASE_APPLY);
  tps_phases_enter_long (nullptr, TPS_PHASE_APPLY);
  tps_phases_rename (nullptr, TPS_PHASE_APPLY);
  tps_phases_end (nullptr, 2);
  for (int i = 0; i < TPS_N_PHASES; i++)
    EXPECT_NE (tps_phase_name (static_cast<TpsPhase> (i)), nullptr);
}

} // namespace
} // namespace thriftps
