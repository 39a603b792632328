// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/transfer/plan.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace {

class TransferPlan : public testing::Test
{
protected:
  void
  TearDown () override
  {
    tps_transfer_options_clear (&options_);
    g_clear_error (&error_);
  }

  gboolean
  Parse (std::vector<std::string> arguments)
  {
    std::vector<gchar *> argv = { const_cast<gchar *> ("transfer") };
    for (std::string &argument : arguments)
      argv.push_back (argument.data ());
    tps_transfer_options_clear (&options_);
    return tps_transfer_options_parse (&options_, static_cast<gint> (argv.size ()), argv.data (),
                                       &error_);
  }

  void
  ExpectBad (const std::string &argument, const std::string &part)
  {
    EXPECT_FALSE (Parse ({ argument })) << argument;
    ASSERT_NE (error_, nullptr) << argument;
    EXPECT_NE (std::string (error_->message).find (part), std::string::npos) << error_->message;
    g_clear_error (&error_);
  }

  std::set<std::string>
  Titles ()
  {
    g_autoptr (GArray) rows = tps_transfer_plan_rows (&options_);
    std::set<std::string> titles;
    for (guint i = 0; i < rows->len; i++)
      {
        g_autofree gchar *title = tps_transfer_row_to_title (
            &g_array_index (rows, TpsTransferRow, i));
        titles.insert (title);
      }
    return titles;
  }

  std::set<std::string>
  Described ()
  {
    g_autoptr (GPtrArray)
        described = tps_command_line_describe (&tps_transfer_command_line, &options_);
    std::set<std::string> lines;
    for (guint i = 0; i < described->len; i++)
      lines.insert (static_cast<const gchar *> (described->pdata[i]));
    return lines;
  }

  // Returns the systems, such as "thriftps tcp", or none with `error_` set.
  std::vector<std::string>
  Systems ()
  {
    g_autoptr (GPtrArray) specs = tps_transfer_plan_systems (&options_, &error_);
    std::vector<std::string> names;
    for (guint i = 0; specs != nullptr && i < specs->len; i++)
      {
        auto spec = static_cast<const TpsTransferSystemSpec *> (specs->pdata[i]);
        names.push_back (std::string (spec->name) + " " + spec->transport);
      }
    return names;
  }

  TpsTransferOptions options_ = {};
  GError *error_ = nullptr;
};

TEST_F (TransferPlan, UsualRowsAreThoseOfTheFigures)
{
  ASSERT_TRUE (Parse ({}));
  std::set<std::string> titles = Titles ();
  for (const char *op : { "push", "pull", "echo" })
    for (const char *size : { "64 B", "1 KiB", "64 KiB", "1 MiB", "16 MiB", "64 MiB" })
      EXPECT_EQ (titles.count (std::string (op) + " " + size), 1u) << op << size;
  EXPECT_EQ (titles.count ("push 1 MiB /4"), 1u);
  EXPECT_EQ (titles.count ("push 256 MiB"), 0u);
  EXPECT_EQ (options_.idle, 0);
  EXPECT_EQ (options_.run.repeats, 5);
}

TEST_F (TransferPlan, OneRowHasTheValuesOfItsFlags)
{
  ASSERT_TRUE (
      Parse ({ "--op=pull", "--bytes=65536", "--connections=3", "--in_flight=2", "--calls=7" }));
  g_autoptr (GArray) rows = tps_transfer_plan_rows (&options_);
  ASSERT_EQ (rows->len, 1u);
  g_autofree gchar *line = tps_transfer_row_to_line (&g_array_index (rows, TpsTransferRow, 0));
  EXPECT_STREQ (line, "pull 65536 3 2 7");
  EXPECT_EQ (tps_transfer_plan_max_bytes (rows), 131072u);
}

TEST_F (TransferPlan, ARowWithoutAnOperationIsOneOfEach)
{
  const struct
  {
    const char *argument, *row;
  } cases[] = { { "--bytes=65536", " 64 KiB" },
                { "--connections=8", " 16 MiB x8" },
                { "--in-flight=2", " 16 MiB /2" } };
  for (const auto &one : cases)
    {
      ASSERT_TRUE (Parse ({ one.argument }));
      EXPECT_EQ (Titles (), (std::set<std::string> { std::string ("push") + one.row,
                                                     std::string ("pull") + one.row,
                                                     std::string ("echo") + one.row }));
    }
}

TEST_F (TransferPlan, FlagsOfARowAreRecorded)
{
  ASSERT_TRUE (Parse ({ "--op=pull", "--bytes=65536", "--connections=3", "--in-flight=2",
                        "--calls=7", "--smoke" }));
  std::set<std::string> lines = Described ();
  for (const char *line :
       { "op=pull", "bytes=65536", "connections=3", "in-flight=2", "calls=7", "smoke=true" })
    EXPECT_EQ (lines.count (line), 1u) << line;
  ASSERT_TRUE (Parse ({}));
  lines = Described ();
  EXPECT_EQ (lines.count ("bytes=16777216"), 0u); // the table covers many sizes instead
  EXPECT_EQ (lines.count ("calls=0"), 1u);
}

TEST_F (TransferPlan, EveryTransportHasItsLimit)
{
  ASSERT_TRUE (Parse ({}));
  EXPECT_EQ (Systems (),
             (std::vector<std::string> { "thriftps tcp", "raw tcp", "thriftps unix", "raw unix",
                                         "thriftps shm", "raw shm", "memcpy shm" }));
}

TEST_F (TransferPlan, PeersAreListedWithTheirTransport)
{
  ASSERT_TRUE (Parse ({ "--peers", "--transport=shm" }));
  EXPECT_EQ (Systems (), (std::vector<std::string> { "thriftps shm", "raw shm", "memcpy shm",
                                                     "tensorpipe shm" }));
  ASSERT_TRUE (Parse ({ "--peers", "--system=C GLib" }));
  EXPECT_EQ (Systems (), std::vector<std::string> { "C GLib tcp" });
}

TEST_F (TransferPlan, NoSystemIsAnError)
{
  ASSERT_TRUE (Parse ({ "--system=memcpy", "--transport=tcp" }));
  EXPECT_TRUE (Systems ().empty ());
  ASSERT_NE (error_, nullptr);
  EXPECT_NE (std::string (error_->message).find ("--system=memcpy: expected thriftps"),
             std::string::npos)
      << error_->message;
}

TEST_F (TransferPlan, BadFlagsAreRefusedWithTheExpectedValues)
{
  ExpectBad ("--transport=carrier", "tcp or unix or shm");
  ExpectBad ("--op=pour", "push or pull or echo");
  ExpectBad ("--bytes=6", "a multiple of 4");
  ExpectBad ("--bytes=268435460", "4 to 268435456");
  ExpectBad ("--bytes=0", "4 to 268435456");
  ExpectBad ("--connections=65", "1 to 64");
  ExpectBad ("--connections=0", "1 to 64");
  ExpectBad ("--in-flight=33", "1 to 32");
  ExpectBad ("--seconds=-1", "from 0 up");
  ExpectBad ("--idle=100000000", "--idle=100000000: expected 0 to ");
}

TEST_F (TransferPlan, IdleConnectionsNeedCalls)
{
  EXPECT_FALSE (Parse ({ "--idle=5", "--seconds=0" }));
}

TEST_F (TransferPlan, SmallCallsNeedOurServerOverTcp)
{
  for (const char *alone : { "--transport=unix", "--transport=shm", "--system=raw" })
    {
      for (const char *flag : { "--idle=5", "--seconds=2" })
        {
          EXPECT_FALSE (Parse ({ alone, flag })) << alone << flag;
          ASSERT_NE (error_, nullptr);
          EXPECT_NE (
              std::string (error_->message).find (std::string (flag) + ": expected ThriftPS"),
              std::string::npos)
              << error_->message;
          g_clear_error (&error_);
        }
      ASSERT_TRUE (Parse ({ alone, "--seconds=0" })) << alone;
      ASSERT_TRUE (Parse ({ alone })) << alone;
      EXPECT_EQ (options_.seconds, 0) << alone;
      EXPECT_EQ (options_.idle, 0) << alone;
    }
  ASSERT_TRUE (Parse ({ "--transport=tcp", "--system=thriftps", "--idle=5" }));
  EXPECT_EQ (options_.seconds, 1);
}

TEST_F (TransferPlan, EverySystemHasAnExpectation)
{
  ASSERT_TRUE (Parse ({ "--peers", "--tls" }));
  g_autoptr (GPtrArray) specs = tps_transfer_plan_systems (&options_, &error_);
  TpsTransferRow row = { .op = TPS_TRANSFER_PUSH,
                         .n_bytes = 1 << 20,
                         .n_connections = 1,
                         .n_in_flight = 1,
                         .n_calls = 100,
                         .is_check = FALSE };
  for (guint i = 0; i < specs->len; i++)
    {
      auto spec = static_cast<const TpsTransferSystemSpec *> (specs->pdata[i]);
      gdouble seconds = tps_transfer_plan_seconds (spec, &row);
      EXPECT_GT (seconds, 0.005) << spec->name;
      EXPECT_LT (seconds, 1) << spec->name;
    }
}

TEST_F (TransferPlan, AWarmUpIsAFewCallsOnEachConnection)
{
  TpsTransferRow row = { .op = TPS_TRANSFER_PUSH,
                         .n_bytes = 64,
                         .n_connections = 1,
                         .n_in_flight = 1,
                         .n_calls = 100,
                         .is_check = FALSE };
  EXPECT_EQ (tps_transfer_plan_warm_up (&row).n_calls, 8u);
  row.n_connections = 16;
  EXPECT_EQ (tps_transfer_plan_warm_up (&row).n_calls, 16u);
  row.n_connections = 1;
  row.n_calls = 4;
  EXPECT_EQ (tps_transfer_plan_warm_up (&row).n_calls, 4u);
}

} // namespace
