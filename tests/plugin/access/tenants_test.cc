/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/access/rules.h"

#include <gtest/gtest.h>
#include <json-glib/json-glib.h>

#include <string>

#include "runtime/base/error.h"

namespace {

/* The result of parsing a text: its entries, or the error message. */
struct Parsed
{
  explicit Parsed (const std::string &text)
  {
    g_autoptr (GError) error = nullptr;
    JsonNode *culprit = nullptr;

    json_parser_load_from_data (parser, text.c_str (), -1, nullptr);
    entries = tps_tenants_parse (json_parser_get_root (parser), &culprit, &error);
    EXPECT_EQ (entries == nullptr, error != nullptr);
    EXPECT_EQ (entries == nullptr, culprit != nullptr);
    if (error == nullptr)
      return;
    EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
    problem = error->message;
  }
  ~Parsed ()
  {
    g_clear_pointer (&entries, g_array_unref);
    g_object_unref (parser);
  }

  const TpsTenantEntry &
  operator[] (guint i) const
  {
    return g_array_index (entries, TpsTenantEntry, i);
  }

  JsonParser *parser = json_parser_new ();
  GArray *entries = nullptr;
  std::string problem;
};

TEST (Tenants, HaveEveryLimit)
{
  Parsed parsed (R"({
    "ads": { "calls_per_s": 1, "calls_burst": 2, "rows_per_s": 3, "rows_burst": 4,
             "bytes_in_per_s": 5, "bytes_in_burst": 6, "bytes_out_per_s": 7,
             "bytes_out_burst": 8, "calls_in_flight": 9, "table_bytes": 9000000000000 },
    "*": {} })");
  static const TpsTenantLimits none = {};

  ASSERT_NE (parsed.entries, nullptr) << parsed.problem;
  ASSERT_EQ (parsed.entries->len, 2u);
  EXPECT_STREQ (parsed[0].name, "ads");
  for (guint i = 0; i < TPS_N_RATES; i++)
    {
      EXPECT_EQ (parsed[0].limits.rates[i].per_s, 2 * i + 1);
      EXPECT_EQ (parsed[0].limits.rates[i].burst, 2 * i + 2);
    }
  EXPECT_EQ (parsed[0].limits.calls_in_flight, 9u);
  EXPECT_EQ (parsed[0].limits.table_bytes, 9000000000000u);
  EXPECT_STREQ (parsed[1].name, "*");
  EXPECT_EQ (memcmp (&parsed[1].limits, &none, sizeof none), 0);
}

} // namespace
