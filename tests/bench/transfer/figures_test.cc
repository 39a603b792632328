// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/transfer/figures/transfer_figures.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace {

const TpsTransferSystemSpec kOurs = { .name = "thriftps", .transport = "shm", .version = "1" };
const TpsTransferSystemSpec kRaw = { .name = "raw", .transport = "shm", .version = "1" };
const TpsTransferSystemSpec kMemcpy = { .name = "memcpy", .transport = "shm", .version = "1" };
const TpsTransferSystemSpec kOther = { .name = "raw", .transport = "tcp", .version = "1" };

class TransferFigures : public testing::Test
{
protected:
  void
  SetUp () override
  {
    g_autoptr (GPtrArray) specs = g_ptr_array_new ();
    for (const TpsTransferSystemSpec *spec : { &kOurs, &kRaw, &kMemcpy })
      g_ptr_array_add (specs, const_cast<TpsTransferSystemSpec *> (spec));
    figures_ = tps_figures_new (&tps_transfer_figure_style);
    tps_transfer_figures_add_limits (figures_, specs);
    tps_bench_output_init (&output_, "transfer", flags_);
  }
  void
  TearDown () override
  {
    tps_figures_free (figures_);
    tps_transfer_idle_clear (&idle_);
    tps_bench_output_clear (&output_);
    g_ptr_array_unref (flags_);
  }

  // Adds two calls of `ms` each. The client uses `cpu` seconds, and the server uses three times as
  // many.
  void
  Add (const TpsTransferSystemSpec *spec, gdouble ms, gdouble cpu)
  {
    const TpsTransferRow row = { .op = TPS_TRANSFER_PUSH,
                                 .n_bytes = 16 << 20,
                                 .n_connections = 1,
                                 .n_in_flight = 1,
                                 .n_calls = 2,
                                 .is_check = FALSE };
    g_auto (TpsTransferTimes)
        times = { .seconds = 99, .ms = nullptr, .client_cpu = cpu, .server_cpu = 3 * cpu };
    times.ms = g_array_new (FALSE, FALSE, sizeof (gdouble));
    g_array_append_val (times.ms, ms);
    g_array_append_val (times.ms, ms);
    tps_transfer_figures_add_run (figures_, spec, &row, &times);
  }

  std::map<std::string, gdouble>
  Ratios ()
  {
    std::map<std::string, gdouble> ratios;
    for (guint i = 0; i < output_.ratios->len; i++)
      {
        auto ratio = &g_array_index (output_.ratios, TpsBenchRatio, i);
        ratios[ratio->name] = ratio->ours / ratio->peer;
      }
    return ratios;
  }

  gdouble
  Figure (const std::string &name)
  {
    for (guint i = 0; i < output_.ours.figures->len; i++)
      {
        auto figure = &g_array_index (output_.ours.figures, TpsBenchFigure, i);
        if (figure->name == name)
          return g_array_index (figure->samples, gdouble, 0);
      }
    return -1;
  }

  TpsFigures *figures_ = nullptr;
  TpsTransferIdle idle_ = {};
  TpsBenchOutput output_ = {};
  GPtrArray *flags_ = g_ptr_array_new ();
};

TEST_F (TransferFigures, RatiosAreToTheLimitsOfTheSameTransport)
{
  Add (&kOurs, 4, 0.01);
  Add (&kRaw, 3, 0.01);
  Add (&kMemcpy, 2, 0.01);
  Add (&kOther, 1, 0.01);
  tps_figures_output (figures_, &output_);
  std::map<std::string, gdouble> ratios = Ratios ();
  EXPECT_DOUBLE_EQ (ratios["push 16 MiB shm / raw"], 0.75);
  EXPECT_DOUBLE_EQ (ratios["push 16 MiB shm / memcpy"], 0.5);
  EXPECT_EQ (ratios.size (), 2u);
}

TEST_F (TransferFigures, CpuIsOfEachSideForAGigabyte)
{
  Add (&kOurs, 4, 0.01);
  tps_figures_output (figures_, &output_);
  EXPECT_NEAR (Figure ("push 16 MiB shm client CPU"), 0.01 / (2 * 16.777216e-3), 1e-9);
  EXPECT_NEAR (Figure ("push 16 MiB shm server CPU"), 0.03 / (2 * 16.777216e-3), 1e-9);
}

TEST_F (TransferFigures, ARowIsRatesAndTimes)
{
  Add (&kOurs, 4, 0.01);
  tps_figures_output (figures_, &output_);
  EXPECT_NEAR (Figure ("push 16 MiB shm"), 16.777216e-3 / 4e-3, 1e-9);
  EXPECT_EQ (Figure ("push 16 MiB shm time"), 4);
  EXPECT_NEAR (Figure ("push 16 MiB shm calls"), 250, 1e-9);
}

TEST_F (TransferFigures, TableHasTheRatiosInItsLastColumns)
{
  Add (&kOurs, 4, 0.01);
  Add (&kRaw, 3, 0.01);
  g_autofree gchar *table = tps_figures_show (figures_);
  EXPECT_NE (std::string (table).find ("      0.750          -\n"), std::string::npos) << table;
  EXPECT_EQ (std::string (table).find ("idle"), std::string::npos) << table;
}

TEST_F (TransferFigures, IdleConnectionsCostMemoryAndCalls)
{
  const gdouble alone[] = { 100, 200, 300 }, beside[] = { 190, 200, 10 };
  tps_transfer_idle_init (&idle_, 1000);
  g_array_append_vals (idle_.alone, alone, 3);
  g_array_append_vals (idle_.beside, beside, 3);
  idle_.bytes = 5e6;
  tps_transfer_output_idle (&idle_, &output_);
  g_autofree gchar *table = tps_transfer_show_idle (&idle_);
  EXPECT_NE (
      std::string (table).find ("1000 idle connections: 5 MB of the server's memory, 5 KB each"),
      std::string::npos)
      << table;
  EXPECT_DOUBLE_EQ (Ratios ()["small calls, 8 clients, 1000 idle / 0 idle"], 0.95);
  EXPECT_DOUBLE_EQ (Figure ("1000 idle connections, memory"), 5);
  EXPECT_DOUBLE_EQ (Figure ("1000 idle connections, memory of each"), 5);
}

} // namespace
