/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests rule files: the meaning of valid files, and the error messages for broken files. */

#include "plugin/access/rules.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/base/error.h"

namespace thriftps {
namespace {

std::string
refusal (const std::string &text)
{
  g_autoptr (GError) error = nullptr;
  g_autoptr (TpsRules) rules = tps_rules_parse ("rules.json", text.c_str (), &error);

  EXPECT_EQ (rules, nullptr) << text;
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
  return error != nullptr ? error->message : "";
}

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

TEST (Rules, aBrokenFileIsRefusedWithLineAndReason)
{
  EXPECT_EQ (refusal (""),
             "rules.json:1: expected an object with the array \"rules\", and at most \"tenants\" "
             "beside it");
  EXPECT_EQ (refusal ("{ \"rule\": [] }"),
             "rules.json:1: expected an object with the array \"rules\", and at most \"tenants\" "
             "beside it");
  EXPECT_EQ (
      refusal ("{ \"rules\": [\n {\n  \"principals\": [\"a\"],\n  \"rihgts\": [\"read\"] } ] }"),
      "rules.json:4: \"rihgts\" is unknown: a rule has principals, rights, methods, tables, "
      "tenant");
  EXPECT_EQ (refusal ("{ \"rules\": [\n { \"principals\": [\"a\"], \"rights\": [\"write\"] } ] }"),
             "rules.json:2: \"write\" is not a right, expected read, push or admin");
  EXPECT_EQ (refusal ("{ \"rules\": [\n\n { \"principals\": [\"a\"] } ] }"),
             "rules.json:3: a rule must have \"principals\" and \"rights\"");
  EXPECT_EQ (refusal ("{ \"rules\": [\n { \"principals\": [], \"rights\": [\"read\"] } ] }"),
             "rules.json:2: \"principals\" must be a non-empty array of strings");
  EXPECT_EQ (refusal ("{ \"rules\": [\n { \"principals\": [\n7], \"rights\": [\"read\"] } ] }"),
             "rules.json:3: \"principals\" has an element that is not a string");
  EXPECT_EQ (refusal ("{ \"rules\": [ 5 ] }"), "rules.json:1: a rule must be an object");
  EXPECT_EQ (refusal ("{ \"rules\": [ { \"tenant\": 5 } ] }"),
             "rules.json:1: \"tenant\" must be a string");
}

/* If an object has two members with the same name, json-glib keeps the last. A person who reads the
 * file may overlook this. */
TEST (Rules, aMemberMustNotStandTwice)
{
  EXPECT_EQ (refusal ("{ \"rules\": [ { \"principals\": [\"a\"],\n \"tables\": [\"a\"],\n"
                      " \"tables\": [\"*\"], \"rights\": [\"read\"] } ] }"),
             "rules.json:3: \"tables\" occurs twice");
}

TEST (Rules, textThatIsNoJsonIsRefused)
{
  EXPECT_NE (refusal ("{ \"rules\": [\n { ] }").find ("rules.json:2: it is not JSON: "),
             std::string::npos);
  EXPECT_NE (refusal (std::string (16384, '[')).find ("it is not JSON: "), std::string::npos);
  for (const char *beginning : { "", "/* \" */", "// \"\n", "\"\\u0\"\"," })
    EXPECT_EQ (refusal (beginning + std::string (500000, '[')),
               "rules.json:0: it has more than 16384 brackets");
}

TEST (Rules, aFileThatIsNotThereIsNamed)
{
  g_autoptr (GError) error = nullptr;

  EXPECT_EQ (tps_rules_read ("/nowhere/rules.json", &error), nullptr);
  ASSERT_NE (error, nullptr);
  EXPECT_STREQ (error->message, "/nowhere/rules.json:0: No such file or directory");
}

TEST (Rules, onlyRegularFilesAreRead)
{
  g_autoptr (GError) error = nullptr;

  EXPECT_EQ (tps_rules_read ("/dev/zero", &error), nullptr);
  ASSERT_NE (error, nullptr);
  EXPECT_STREQ (error->message, "/dev/zero:0: it is not a regular file");
}

} // namespace
} // namespace thriftps
