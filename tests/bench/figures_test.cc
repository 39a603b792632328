// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/report/figures.h"

#include <gtest/gtest.h>

#include <string>

namespace {

gchar *
NameOurs (const gchar *system, const gchar *row)
{
  return g_strdup_printf ("%s on %s", row, system);
}

const TpsQuantity kRate = { "", "GB/s" }, kTime = { " time", "ms" }, kOther = { "", "calls/s" };

const TpsFigureColumn kColumns[] = { { "GB/s", nullptr, "GB/s", 50 },
                                     { "calls/s", nullptr, "calls/s", 50 },
                                     { "p99", " time", nullptr, 99 },
                                     { nullptr, nullptr, nullptr, 0 } };
const TpsFigureStyle kStyle = { NameOurs, NameOurs, kColumns, FALSE };

// One row with a peer and two systems of ThriftPS, one of which also serves as a limit.
class Figures : public testing::Test
{
protected:
  void
  SetUp () override
  {
    const TpsFigureLimit limits[] = { { "slow", "of slow", nullptr },
                                      { "peer", "of peer", "1.2" } };
    for (const TpsFigureLimit &limit : limits)
      tps_figures_add_limit (figures_, &limit);
    for (double sample : { 1.0, 8.0, 6.0 })
      tps_figures_add (figures_, "fast", "row", &kRate, sample);
    tps_figures_add (figures_, "slow", "row", &kRate, 2);
    tps_figures_add (figures_, "peer", "row", &kRate, 12);
    tps_figures_add (figures_, "fast", "row", &kTime, 7);
    tps_figures_add (figures_, "fast", "alone", &kOther, 5);
    tps_bench_output_init (&output_, "test", flags_);
    tps_figures_output (figures_, &output_);
  }
  void
  TearDown () override
  {
    tps_bench_output_clear (&output_);
    g_ptr_array_unref (flags_);
    tps_figures_free (figures_);
  }

  static std::string
  Names (const TpsBenchSystem &system)
  {
    std::string names;
    for (guint i = 0; i < system.figures->len; i++)
      names += std::string (g_array_index (system.figures, TpsBenchFigure, i).name) + ";";
    return names;
  }

  TpsFigures *figures_ = tps_figures_new (&kStyle);
  GPtrArray *flags_ = g_ptr_array_new ();
  TpsBenchOutput output_ = {};
};

TEST_F (Figures, OurFiguresAreNamedByRowAndSystemAndPeersByRow)
{
  EXPECT_EQ (Names (output_.ours), "row on fast;row on slow;row on fast time;alone on fast;");
  ASSERT_EQ (output_.peers->len, 1u);
  EXPECT_EQ (Names (g_array_index (output_.peers, TpsBenchSystem, 0)), "row;");
}

TEST_F (Figures, RatiosAreOfMediansToEveryLimitThatRanTheRow)
{
  ASSERT_EQ (output_.ratios->len, 2u);
  const TpsBenchRatio *slow = &g_array_index (output_.ratios, TpsBenchRatio, 0);
  const TpsBenchRatio *peer = &g_array_index (output_.ratios, TpsBenchRatio, 1);
  EXPECT_STREQ (slow->name, "row on fast / slow");
  EXPECT_EQ (slow->ours / slow->peer, 3);
  EXPECT_STREQ (peer->name, "row on fast / peer");
  EXPECT_EQ (peer->ours / peer->peer, 0.5);
}

} // namespace
