/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests rule files: the meaning of valid files, and the error messages for broken files. */

#include "plugin/access/rules.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/base/error.h"

namespace thriftps {
namespace {

TEST (Rules, aRuleHasDefaults)
{
  guint n_rules = 0;
  g_autoptr (TpsRules) rules = tps_rules_parse ("rules.json", R"({ "rules": [
    { "principals": ["uid:0"], "rights": ["read", "admin"] },
    { "principals": ["*"], "rights": ["push"], "methods": ["Node", "A:b*", "*"], "tables": ["x"],
      "tenant": "ads" } ] })",
                                                nullptr);

  ASSERT_NE (rules, nullptr);
  const TpsRule *const *all = tps_rules_get (rules, &n_rules);
  ASSERT_EQ (n_rules, 2u);
  EXPECT_EQ (all[0]->rights, (guint) (TPS_RIGHT_READ | TPS_RIGHT_ADMIN));
  EXPECT_STREQ (all[0]->methods[0], "*");
  EXPECT_EQ (all[0]->tables[0], nullptr);
  EXPECT_EQ (all[0]->tenant, nullptr);
  EXPECT_STREQ (all[1]->methods[0], "Node:*");
  EXPECT_STREQ (all[1]->methods[1], "A:b*");
  EXPECT_STREQ (all[1]->methods[2], "*");
  EXPECT_STREQ (all[1]->tenant, "ads");
}

} // namespace
} // namespace thriftps
