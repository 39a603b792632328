// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/ddp_rpc/epoch_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/report/json_output.h"

namespace {

using testing::HasSubstr;

std::string
take (gchar *text)
{
  std::string copy = text;

  g_free (text);
  return copy;
}

class EpochReport : public testing::Test
{
protected:
  void
  TearDown () override
  {
    tps_bench_results_free (results);
  }

  // Adds one pass: the epochs of each trainer, and its number of samples.
  void
  add_pass (const std::vector<std::vector<double>> &epochs, gint64 samples)
  {
    for (size_t rank = 0; rank < epochs.size (); rank++)
      {
        gint number = static_cast<gint> (rank);

        tps_bench_results_add_role (results, "trainer", number);
        tps_bench_results_add (results, "trainer", number, "epoch_metric,epoch",
                               epochs[rank].data (), static_cast<guint> (epochs[rank].size ()));
        tps_bench_results_count_samples (results, number, samples);
      }
    tps_bench_results_end_pass (results);
  }

  TpsBenchResults *results = tps_bench_results_new ();
};

TEST_F (EpochReport, PercentilesAreNumpys)
{
  g_autoptr (GArray) values = g_array_new (FALSE, FALSE, sizeof (gdouble));

  for (double value : { 40.0, 10.0, 30.0, 20.0 })
    g_array_append_val (values, value);
  EXPECT_DOUBLE_EQ (tps_percentile (values, 50), 25);
  EXPECT_DOUBLE_EQ (tps_percentile (values, 95), 38.5);
  EXPECT_DOUBLE_EQ (tps_percentile (values, 0), 10);
  EXPECT_DOUBLE_EQ (tps_percentile (values, 100), 40);
}

TEST_F (EpochReport, RatesAreAllSamplesOverAllTime)
{
  add_pass ({ { 100, 100 }, { 400, 100 } }, 100);
  add_pass ({ { 300, 300 }, { 100, 400 } }, 100);
  g_autoptr (GArray) rates = tps_epoch_report_list_rates (results);

  ASSERT_EQ (rates->len, 2u);
  EXPECT_DOUBLE_EQ (g_array_index (rates, gdouble, 0), 100 / 0.2 + 100 / 0.5);
  EXPECT_DOUBLE_EQ (g_array_index (rates, gdouble, 1), 100 / 0.6 + 100 / 0.5);
  std::string text = take (tps_epoch_report_format_rates (results));
  EXPECT_THAT (text, HasSubstr ("| Trainer0 |"));
  EXPECT_THAT (text, HasSubstr (" 250 ")) << "200 samples in 0.8 s";
  EXPECT_THAT (text, HasSubstr (" 450 ")) << "and 200 in 1 s";
}

} // namespace
