// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Compares the list that `thriftps_server --tuning` prints with the values of this process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/machine/tuning.h"
#include "tests/integration/server/server_process.h"
#include "tests/runtime/base/one_core.h"

namespace thriftps_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Line
{
  std::string value, unit, derived_from;
};

// Splits a line into columns, which are separated by at least two blanks.
std::vector<std::string>
SplitColumns (const std::string &line)
{
  static const std::regex gap (" {2,}");

  return { std::sregex_token_iterator (line.begin (), line.end (), gap, -1), {} };
}

std::map<std::string, Line>
ReadList (const std::vector<std::string> &flags)
{
  ServerProcess server (flags);
  std::istringstream text (server.ReadAll ());
  std::map<std::string, Line> lines;
  std::string line;

  EXPECT_EQ (server.Wait (), 0);
  EXPECT_EQ (server.ReadErrors (), "");
  std::getline (text, line);
  EXPECT_THAT (SplitColumns (line), ElementsAre ("name", "value", "unit", "derived from"));
  while (std::getline (text, line))
    {
      std::vector<std::string> columns = SplitColumns (line);
      EXPECT_EQ (columns.size (), 4u) << line;
      columns.resize (4);
      EXPECT_TRUE (lines.insert ({ columns[0], { columns[1], columns[2], columns[3] } }).second)
          << line;
    }
  return lines;
}

class TuningListTest : public testing::Test
{
protected:
  void
  SetUp () override
  {
    unsetenv ("THRIFTPS_SPIN_US");
  }
  void
  TearDown () override
  {
    unsetenv ("THRIFTPS_SPIN_US");
  }
};

TEST_F (TuningListTest, HasTheCoresAndEveryValueWithItsRule)
{
  std::map<std::string, Line> lines = ReadList ({ "--tuning" });
  const TpsMachine *machine = tps_machine_get ();

  EXPECT_EQ (lines["cores"].value, std::to_string (machine->n_cores));
  EXPECT_EQ (lines.size (), 1 + tps_tuning_count_rows ());
  for (guint i = 0; i < tps_tuning_count_rows (); i++)
    {
      TpsTuningRow row = tps_tuning_get_row (tps_tuning_get (), i);
      const Line &line = lines[row.name];
      EXPECT_EQ (line.value, std::to_string (row.value)) << row.name;
      EXPECT_EQ (line.unit, row.unit) << row.name;
      EXPECT_EQ (line.derived_from, std::string (row.rule) + ": " + row.purpose);
    }
}

TEST_F (TuningListTest, IsDerivedFromTheCoresOfTheProcess)
{
  OneCore one_core;
  std::map<std::string, Line> lines = ReadList ({ "--tuning" });

  EXPECT_EQ (lines["cores"].value, "1");
  EXPECT_THAT (lines["cores"].derived_from, HasSubstr ("affinity mask: 1"));
  EXPECT_EQ (lines["io_threads"].value, "2");
  EXPECT_EQ (lines["workers"].value, "1");
  EXPECT_EQ (lines["spin_us"].value, "0");
}

TEST_F (TuningListTest, HasTheValuesThatTheOperatorHasSet)
{
  setenv ("THRIFTPS_SPIN_US", "120", 1);
  std::map<std::string, Line> lines = ReadList ({ "--tuning", "--io-threads=5", "--workers=3" });

  EXPECT_EQ (lines["io_threads"].value, "5");
  EXPECT_EQ (lines["io_threads"].derived_from, "--io-threads");
  EXPECT_EQ (lines["workers"].value, "3");
  EXPECT_EQ (lines["workers"].derived_from, "--workers");
  EXPECT_EQ (lines["spin_us"].value, "120");
  EXPECT_EQ (lines["spin_us"].derived_from, "THRIFTPS_SPIN_US");
}

TEST_F (TuningListTest, IsNotPrintedWithABadOption)
{
  ServerProcess server ({ "--tuning", "--io-threads=0" });

  EXPECT_EQ (server.ReadAll (), "");
  EXPECT_EQ (server.Wait (), 2);
}

} // namespace
} // namespace thriftps_test
