// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/report/grid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace {

const gchar *const kHeaders[] = { "name", "min", "max", "mean", "variance", "stdev" };

std::string
Text (TpsGrid *grid)
{
  g_autofree gchar *text = tps_grid_free_to_string (grid);
  return text;
}

// The expected texts are the output of tabulate 0.8.9 for the same cells.

TEST (Grid, LinesUpDecimalPointsAsTabulateDoes)
{
  const gdouble rows[3][5] = { { 0.00188041, 0.00735664, 0.00389835, 1.3609e-06, 0.00116658 },
                               { 1.0, 2.33333333, 1e-07, 7.669361234e-06, 123456789.0 },
                               { 12.0, 3.0, 100.0, 0.5, 1e20 } };
  TpsGrid *grid = tps_grid_new (kHeaders, 6);

  tps_grid_add_row (grid, "backward_metric,backward", rows[0]);
  tps_grid_add_row (grid, "a,b", rows[1]);
  tps_grid_add_row (grid, "c,d", rows[2]);
  EXPECT_EQ (
      Text (grid),
      "+--------------------------+-------------+------------+--------------+-------------+-------------+\n"
      "| name                     |         min |        max |         mean |    variance |       stdev |\n"
      "+==========================+=============+============+==============+=============+=============+\n"
      "| backward_metric,backward |  0.00188041 | 0.00735664 |   0.00389835 | 1.3609e-06  | 0.00116658  |\n"
      "+--------------------------+-------------+------------+--------------+-------------+-------------+\n"
      "| a,b                      |  1          | 2.33333    |   1e-07      | 7.66936e-06 | 1.23457e+08 |\n"
      "+--------------------------+-------------+------------+--------------+-------------+-------------+\n"
      "| c,d                      | 12          | 3          | 100          | 0.5         | 1e+20       |\n"
      "+--------------------------+-------------+------------+--------------+-------------+-------------+\n");
}

TEST (Grid, WithoutRowsHasTwoRulesUnderTheHeader)
{
  EXPECT_EQ (Text (tps_grid_new (kHeaders, 6)),
             "+--------+-------+-------+--------+------------+---------+\n"
             "| name   | min   | max   | mean   | variance   | stdev   |\n"
             "+========+=======+=======+========+============+=========+\n"
             "+--------+-------+-------+--------+------------+---------+\n");
}

TEST (Grid, PrintsADashWhereThereIsNoNumber)
{
  const gdouble row[5] = { 1.5, 1.5, 1.5, NAN, NAN };
  TpsGrid *grid = tps_grid_new (kHeaders, 6);

  tps_grid_add_row (grid, "x", row);
  EXPECT_NE (Text (grid).find ("|          - |       - |"), std::string::npos);
}

} // namespace
