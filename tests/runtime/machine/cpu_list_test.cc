// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/machine/cpu_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

std::vector<guint>
Parse (const char *text)
{
  g_autoptr (GArray) list = tps_cpu_list_parse (text);
  std::vector<guint> numbers;

  for (guint i = 0; list != nullptr && i < list->len; i++)
    numbers.push_back (g_array_index (list, guint, i));
  return numbers;
}

TEST (CpuList, HasNumbersAndRanges)
{
  EXPECT_EQ (Parse ("0"), (std::vector<guint> { 0 }));
  EXPECT_EQ (Parse ("0-3\n"), (std::vector<guint> { 0, 1, 2, 3 }));
  EXPECT_EQ (Parse ("5-5,8,10-11\n"), (std::vector<guint> { 5, 8, 10, 11 }));
  EXPECT_EQ (Parse ("65535"), (std::vector<guint> { 65535 }));
}

TEST (CpuList, IsNoneOfAnyOtherText)
{
  for (const char *text :
       { "", "\n", ",", "0,", ",0", "-", "-1", "1-", "3-1", "a", "0-b", "0 1", "0--1", "1-2-3",
         "65536", "0-4294967295", "99999999999999999999", "0-65535,0-65535" })
    EXPECT_EQ (tps_cpu_list_parse (text), nullptr) << text;
}

} // namespace
