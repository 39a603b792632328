// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/report/results.h"

#include <glib/gstdio.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "bench/report/json_output.h"
#include "bench/report/report.h"

namespace {

class Results : public testing::Test
{
protected:
  void
  SetUp () override
  {
    const gdouble first[] = { 1, 2, 9 }, second[] = { 4, 4, 4 }, server[] = { 7 };

    results_ = tps_bench_results_new ();
    tps_bench_results_add_role (results_, "trainer", 0);
    tps_bench_results_add_role (results_, "trainer", 1);
    tps_bench_results_add_role (results_, "server", 2);
    tps_bench_results_add (results_, "trainer", 0, "b,x", first, 3);
    tps_bench_results_add (results_, "trainer", 1, "b,x", second, 3);
    tps_bench_results_add (results_, "trainer", 0, "a,y", second, 3);
    tps_bench_results_add (results_, "server", 2, "s,z", server, 1);
    tps_bench_results_end_pass (results_);
    tps_bench_results_add (results_, "trainer", 0, "b,x", second, 3);
    tps_bench_results_end_pass (results_);
  }
  void
  TearDown () override
  {
    tps_bench_results_free (results_);
  }

  TpsBenchResults *results_;
};

TEST_F (Results, MedianIsOfThePassesMedians)
{
  EXPECT_EQ (tps_bench_series_get_median (tps_bench_results_find (results_, "trainer", 0, "b,x")),
             3);
  EXPECT_EQ (tps_bench_series_get_median (tps_bench_results_find (results_, "trainer", -1, "b,x")),
             4);
}

TEST_F (Results, RowsAreSortedByName)
{
  g_autoptr (GPtrArray) rows = tps_bench_results_get_series (results_, "trainer", 0);

  ASSERT_EQ (rows->len, 2u);
  EXPECT_STREQ (static_cast<TpsBenchSeries *> (rows->pdata[0])->name, "a,y");
}

TEST_F (Results, ReportHasATableForEachRankAndOneForAll)
{
  g_autofree gchar *trainers = tps_bench_report_format (results_, "trainer");
  g_autofree gchar *servers = tps_bench_report_format (results_, "server");
  std::string text = trainers;

  EXPECT_EQ (text.find ("metrics for trainer=0\n+"), 0u);
  EXPECT_NE (text.find ("metrics for trainer=1\n"), std::string::npos);
  EXPECT_NE (text.find ("metrics for all trainer\n"), std::string::npos);
  EXPECT_NE (std::string (servers).find ("metrics for server=2\n"), std::string::npos);
}

TEST_F (Results, OneSampleHasNoDeviation)
{
  g_autofree gchar *servers = tps_bench_report_format (results_, "server");

  EXPECT_NE (std::string (servers).find (
                 "| s,z    |          7 |          7 |           7 |                 - |"),
             std::string::npos)
      << servers;
}

TEST_F (Results, KindsThatAreNotThereAreNotReported)
{
  TpsBenchResults *empty = tps_bench_results_new ();
  g_autofree gchar *servers = tps_bench_report_format (empty, "server");

  EXPECT_STREQ (servers, "");
  tps_bench_results_free (empty);
}

TEST_F (Results, JsonHoldsTheFigures)
{
  g_autofree gchar *folder = g_dir_make_tmp ("results-XXXXXX", nullptr);
  g_autofree gchar *json = g_build_filename (folder, "out.json", nullptr);
  g_autofree gchar *json_text = nullptr;
  g_autoptr (GPtrArray) flags = g_ptr_array_new ();
  g_auto (TpsBenchOutput) output;

  tps_bench_output_init (&output, "parameter_server", flags);
  tps_bench_report_add_figures (results_, &output.ours);
  const guint8 digest[16] = { 0xab };
  tps_bench_results_add_outcome (results_, 0, 6.5, digest);
  tps_bench_report_add_outcome (results_, &output);
  tps_bench_report_add_figures (results_, tps_bench_output_add_peer (&output, "pytorch", "1.13"));
  tps_bench_report_add_ratios (results_, results_, &output);
  ASSERT_TRUE (tps_bench_output_write_json (&output, json, nullptr));
  ASSERT_TRUE (g_file_get_contents (json, &json_text, nullptr, nullptr));
  EXPECT_NE (std::string (json_text).find ("\"name\" : \"all trainer/b,x\""), std::string::npos);
  EXPECT_NE (std::string (json_text).find ("\"trainer=0/parameters_xxh3_128\" : \"ab00"),
             std::string::npos);
  EXPECT_NE (std::string (json_text).find ("\"name\" : \"trainer=0/loss\""), std::string::npos);
  EXPECT_NE (std::string (json_text).find ("\"better\" : \"lower\""), std::string::npos);
}

TEST_F (Results, OutcomeIsOneDigestWhereAllHaveTheSameParameters)
{
  const guint8 digest[16] = { 0xab, 1 };

  tps_bench_results_add_outcome (results_, 0, 6.5, digest);
  tps_bench_results_add_outcome (results_, 1, NAN, digest);
  g_autofree gchar *text = tps_bench_report_format_outcome (results_);
  EXPECT_STREQ (
      text, "loss of the last step: trainer0 6.5, trainer1 -\n"
            "parameters (xxh3-128): ab010000000000000000000000000000, the same on all trainers\n");
}

TEST_F (Results, OutcomeNamesEachTrainerWhereParametersDiffer)
{
  const guint8 a[16] = { 0xaa }, b[16] = { 0xbb };

  tps_bench_results_add_outcome (results_, 0, 1, a);
  tps_bench_results_add_outcome (results_, 1, 2, b);
  g_autofree gchar *text = tps_bench_report_format_outcome (results_);
  EXPECT_NE (std::string (text).find ("trainer0 aa00"), std::string::npos) << text;
  EXPECT_NE (std::string (text).find (", trainer1 bb00"), std::string::npos) << text;
}

TEST_F (Results, OutcomesOfPassesAreCollected)
{
  const guint8 first[16] = { 1 }, second[16] = { 2 };

  tps_bench_results_add_outcome (results_, 0, 1, first);
  tps_bench_results_add_outcome (results_, 0, 0.5, second);
  const GArray *outcomes = tps_bench_results_get_outcomes (results_);
  ASSERT_EQ (outcomes->len, 1u);
  EXPECT_EQ (g_array_index (outcomes, TpsBenchOutcome, 0).losses->len, 2u);
  EXPECT_EQ (g_array_index (outcomes, TpsBenchOutcome, 0).digest[1], '2');
}

} // namespace
