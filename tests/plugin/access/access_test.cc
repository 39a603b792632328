/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compares the decisions of grants with those of an oracle, and checks identities across
 * reloads. */

#include "plugin/access/access.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace thriftps {
namespace {

class Access : public testing::Test
{
protected:
  Access ()
  {
    const char *folder = getenv ("TEST_TMPDIR");

    rules_ = std::string (folder) + "/rules.json";
    tokens_ = std::string (folder) + "/tokens";
    write (rules_, R"({ "rules": [] })");
    write (tokens_, "");
  }

  ~Access () override
  {
    g_clear_pointer (&access_, tps_access_unref);
  }

  static void
  write (const std::string &file, const std::string &text)
  {
    std::ofstream (file) << text;
  }

  void
  open ()
  {
    TpsAccessOptions options = { 0, rules_.c_str (), tokens_.c_str () };

    access_ = tps_access_new (&options, nullptr);
    ASSERT_NE (access_, nullptr);
  }

  TpsGuardedMethod
  method (const char *name, TpsRight right)
  {
    TpsGuardedMethod added = { const_cast<gchar *> (name), right, TPS_METHOD_NO_ID };

    tps_access_add_method (access_, &added);
    return added;
  }

  static TpsGrant *
  shown (TpsIdentity *identity, const char *name)
  {
    tps_identity_show (identity, TPS_PRINCIPAL_UID, name);
    return tps_identity_get_grant (identity);
  }

  std::string rules_, tokens_;
  TpsAccess *access_ = nullptr;
};

struct Drawn
{
  std::vector<std::string> principals, methods, tables;
  guint rights;
};

std::string
quote (const std::vector<std::string> &texts)
{
  std::string all;

  for (const std::string &text : texts)
    all += (all.empty () ? "\"" : ", \"") + text + "\"";
  return "[" + all + "]";
}

bool
any_matches (const std::vector<std::string> &patterns, const std::string &text)
{
  for (const std::string &pattern : patterns)
    if (tps_glob_matches (pattern.c_str (), text.c_str ()))
      return true;
  return false;
}

/* Some rounds have more rules than a word has bits. Each method is checked both with a cached
 * decision (`decided`) and without a cache (`asked`). */
TEST_F (Access, decisionsMatchAReferenceImplementation)
{
  const std::vector<std::string> names = { "S:a", "S:ab", "T:a", "T:b", "U:abc" };
  const std::vector<std::string> principals = { "uid:1", "uid:12", "uid:2", "uid:3" };
  const std::vector<std::string> tables = { "x", "xy", "y" };
  const std::vector<std::string> principal_patterns = { "uid:1", "uid:1*", "uid:2", "none" };
  const std::vector<std::string> method_patterns = { "S:a", "S:*", "*:a*", "T:b", "*" };
  const std::vector<std::string> table_patterns = { "x", "x*", "?", "*" };
  std::mt19937 random (14);
  auto draw = [&random] (const std::vector<std::string> &from) {
    std::vector<std::string> drawn;

    for (unsigned n = 1 + random () % 2; n > 0; n--)
      drawn.push_back (from[random () % from.size ()]);
    return drawn;
  };
  unsigned n_allowed = 0, n_refused = 0;

  for (unsigned round = 0; round < 60; round++)
    {
      std::vector<Drawn> rules;
      std::string text;

      for (unsigned n = random () % (round % 10 == 0 ? 150 : 4); n > 0; n--)
        {
          Drawn rule = { draw (principal_patterns), draw (method_patterns), draw (table_patterns),
                         1 + static_cast<guint> (random () % 7) };
          std::vector<std::string> rights;

          if (rule.rights & TPS_RIGHT_READ)
            rights.push_back ("read");
          if (rule.rights & TPS_RIGHT_PUSH)
            rights.push_back ("push");
          if (rule.rights & TPS_RIGHT_ADMIN)
            rights.push_back ("admin");
          text += (text.empty () ? "{ \"principals\": " : ", { \"principals\": ")
                  + quote (rule.principals) + ", \"methods\": " + quote (rule.methods)
                  + ", \"tables\": " + quote (rule.tables) + ", \"rights\": " + quote (rights)
                  + " }";
          rules.push_back (rule);
        }
      write (rules_, "{ \"rules\": [" + text + "] }");
      g_clear_pointer (&access_, tps_access_unref);
      open ();
      for (const std::string &name : names)
        for (TpsRight right : { TPS_RIGHT_READ, TPS_RIGHT_PUSH, TPS_RIGHT_ADMIN })
          method (name.c_str (), right);
      for (const std::string &principal : principals)
        {
          TpsIdentity identity;

          tps_identity_init (&identity, access_);
          g_autoptr (TpsGrant) grant = shown (&identity, principal.c_str ());
          for (const std::string &name : names)
            for (TpsRight right : { TPS_RIGHT_READ, TPS_RIGHT_PUSH, TPS_RIGHT_ADMIN })
              {
                TpsGuardedMethod decided = method (name.c_str (), right), asked = decided;
                bool may = false;

                asked.id = TPS_METHOD_NO_ID;
                for (const Drawn &rule : rules)
                  may |= any_matches (rule.principals, principal)
                         && any_matches (rule.methods, name) && (rule.rights & right) != 0;
                for (const TpsGuardedMethod *each : { &decided, &asked })
                  ASSERT_EQ (tps_grant_check_method (grant, each, each->name, nullptr), may);
                n_allowed += may;
                n_refused += !may;
                for (const std::string &table : tables)
                  {
                    bool may_use = false;

                    for (const Drawn &rule : rules)
                      may_use |= any_matches (rule.principals, principal)
                                 && any_matches (rule.methods, name) && (rule.rights & right) != 0
                                 && any_matches (rule.tables, table);
                    for (const TpsGuardedMethod *each : { &decided, &asked })
                      ASSERT_EQ (tps_grant_allows_table (grant, each, table.c_str (), right),
                                 may_use);
                  }
              }
          tps_identity_clear (&identity);
        }
    }
  EXPECT_GT (n_allowed, 300u);
  EXPECT_GT (n_refused, 300u);
}

TEST_F (Access, aBrokenFileKeepsTheOldRules)
{
  TpsIdentity identity;
  g_autoptr (GError) error = nullptr;

  write (rules_, R"({ "rules": [ { "principals": ["uid:7"], "rights": ["read"] } ] })");
  open ();
  TpsGuardedMethod look = method ("EmbeddingTable:lookup_rows", TPS_RIGHT_READ);
  tps_identity_init (&identity, access_);
  write (rules_, "{ \"rules\": [\n 1 ] }");
  EXPECT_FALSE (tps_access_reload (access_, &error));
  EXPECT_EQ (std::string (error->message), rules_ + ":2: a rule must be an object");
  g_autoptr (TpsGrant) grant = shown (&identity, "uid:7");
  EXPECT_TRUE (tps_grant_check_method (grant, &look, look.name, nullptr));
  tps_identity_clear (&identity);
}

} // namespace
} // namespace thriftps
