/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests patterns by examples, and compares random patterns with a regular expression. */

#include "plugin/access/access.h"

#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <string>

namespace thriftps {
namespace {

TEST (Glob, matchesLikeARegularExpression)
{
  std::mt19937 random (20261123);
  const std::string pattern_bytes = "ab.*?", text_bytes = "ab.";
  auto draw = [&random] (const std::string &bytes) {
    std::string text;

    for (unsigned n = random () % 9; n > 0; n--)
      text += bytes[random () % bytes.size ()];
    return text;
  };
  unsigned n_matches = 0;

  for (int i = 0; i < 20000; i++)
    {
      std::string pattern = draw (pattern_bytes), text = draw (text_bytes), regex;

      for (char byte : pattern)
        regex += byte == '*'   ? ".*"
                 : byte == '?' ? "."
                 : byte == '.' ? "\\."
                               : std::string (1, byte);
      bool expected = std::regex_match (text, std::regex (regex));
      n_matches += expected;
      ASSERT_EQ (tps_glob_matches (pattern.c_str (), text.c_str ()), expected)
          << pattern << " " << text;
    }
  EXPECT_GT (n_matches, 1000u);
}

/* Backtracking over all stars would take exponential time. */
TEST (Glob, manyStarsTakeNoLongerThanTheProductOfTheLengths)
{
  std::string pattern, text (4000, 'a');

  for (int i = 0; i < 60; i++)
    pattern += "*a";
  EXPECT_FALSE (tps_glob_matches ((pattern + "b").c_str (), text.c_str ()));
  EXPECT_TRUE (tps_glob_matches (pattern.c_str (), text.c_str ()));
}

} // namespace
} // namespace thriftps
