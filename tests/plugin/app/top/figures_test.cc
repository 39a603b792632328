// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/app/top/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace {

using testing::HasSubstr;

class FiguresTest : public testing::Test
{
protected:
  ~FiguresTest ()
  {
    tps_figures_free (figures_);
  }
  const TpsMethodFigures *
  Method (guint i)
  {
    return static_cast<TpsMethodFigures *> (g_ptr_array_index (figures_->methods, i));
  }
  const TpsTableFigures *
  Table (guint i)
  {
    return static_cast<TpsTableFigures *> (g_ptr_array_index (figures_->tables, i));
  }
  TpsFigures *figures_ = tps_figures_new ();
};

TEST_F (FiguresTest, AddUpSamplesOfAnInterval)
{
  tps_figures_begin (figures_);
  tps_figures_add_sample (figures_, R"({"interval_s": 1.0, "calls": 10, "failures": 1,
    "received_bytes": 100, "sent_bytes": 200,
    "methods": [{"name": "a", "calls": 4, "failures": 1, "p50_ms": 1.5, "p99_ms": 9},
                {"name": "b", "calls": 6, "failures": 0, "p50_ms": null, "p99_ms": null}],
    "tables": [{"name": "t", "lookups": 1, "lookup_rows": 2, "pushes": 3, "push_rows": 4}]})");
  tps_figures_add_sample (figures_, R"({"interval_s": 1.5, "calls": 5, "failures": 0,
    "received_bytes": 50, "sent_bytes": 0,
    "methods": [{"name": "a", "calls": 5, "failures": 0, "p50_ms": 2, "p99_ms": 3}],
    "tables": [{"name": "u", "lookups": 0, "lookup_rows": 0, "pushes": 1, "push_rows": 100},
               {"name": "t", "lookups": 1, "lookup_rows": 1, "pushes": 0, "push_rows": 0}]})");
  tps_figures_end (figures_);
  EXPECT_EQ (figures_->n_samples, 2u);
  EXPECT_EQ (figures_->seconds, 2.5);
  EXPECT_EQ (figures_->calls, 15);
  EXPECT_EQ (figures_->failures, 1);
  EXPECT_EQ (figures_->received_bytes, 150);
  EXPECT_EQ (figures_->sent_bytes, 200);
  ASSERT_EQ (figures_->methods->len, 2u);
  EXPECT_STREQ (Method (0)->name, "a");
  EXPECT_EQ (Method (0)->calls, 9);
  EXPECT_EQ (Method (0)->p50_ms, 2);
  EXPECT_EQ (Method (0)->p99_ms, 9);
  EXPECT_STREQ (Method (1)->name, "b");
  EXPECT_LT (Method (1)->p50_ms, 0);
  ASSERT_EQ (figures_->tables->len, 2u);
  EXPECT_STREQ (Table (0)->name, "u");
  EXPECT_STREQ (Table (1)->name, "t");
  EXPECT_EQ (Table (1)->lookup_rows, 3);

  tps_figures_begin (figures_);
  EXPECT_EQ (figures_->calls, 0);
  EXPECT_EQ (figures_->methods->len, 0u);
  EXPECT_NE (figures_->sample, nullptr);
}

TEST_F (FiguresTest, AcceptAnyBytesFromAServer)
{
  tps_figures_begin (figures_);
  for (const char *json :
       { "", "null", "[]", "{", "7", R"({"calls": "many", "methods": 7, "tables": {}})",
         R"({"calls": -5, "methods": [1, null, [], {}, {"name": 3, "calls": true}]})",
         R"({"calls": 1e300, "interval_s": -1})", R"({"calls": null, "methods": [null]})" })
    tps_figures_add_sample (figures_, json);
  EXPECT_GE (figures_->calls, 0);
  EXPECT_GE (figures_->seconds, 0);
  std::string deep = "/* \" */" + std::string (1 << 20, '[');
  tps_figures_add_sample (figures_, deep.c_str ());
  tps_figures_set_status (figures_, deep.c_str ());
  tps_figures_set_status (figures_, R"({"budgets": 3, "totals": []})");
  tps_figures_end (figures_);
  g_autofree gchar *json = tps_figures_to_json (figures_);
  EXPECT_THAT (json, HasSubstr ("\"status\":{\"budgets\":3"));
}

TEST_F (FiguresTest, KeepABoundedNumberOfNames)
{
  tps_figures_begin (figures_);
  for (int i = 0; i < TPS_FIGURES_MAX_NAMES + 100; i++)
    tps_figures_add_sample (
        figures_,
        ("{\"methods\": [{\"name\": \"m" + std::to_string (i) + "\", \"calls\": 1}]}").c_str ());
  EXPECT_EQ (figures_->methods->len, (guint) TPS_FIGURES_MAX_NAMES);
}

TEST_F (FiguresTest, AreALineOfJsonWithRates)
{
  tps_figures_begin (figures_);
  tps_figures_add_sample (figures_, R"({"time_s": 12.5, "interval_s": 2, "calls": 10,
    "methods": [{"name": "a\"b", "calls": 5, "p50_ms": null}],
    "tables": [{"name": "t", "push_rows": 3}]})");
  tps_figures_set_status (figures_, R"({"name": "ps"})");
  tps_figures_end (figures_);
  g_autofree gchar *json = tps_figures_to_json (figures_);
  EXPECT_EQ (std::string (json).find ('\n'), std::string::npos);
  g_autoptr (JsonParser) parser = json_parser_new ();
  ASSERT_TRUE (json_parser_load_from_data (parser, json, -1, nullptr)) << json;
  JsonObject *root = json_node_get_object (json_parser_get_root (parser));
  EXPECT_EQ (tps_json_number (root, "time_s"), 12.5);
  EXPECT_EQ (tps_json_number (root, "calls_per_s"), 5);
  JsonObject *method = tps_json_element (tps_json_array (root, "methods"), 0);
  EXPECT_STREQ (tps_json_text (method, "name"), "a\"b");
  EXPECT_EQ (tps_json_number (method, "calls_per_s"), 2.5);
  EXPECT_TRUE (json_object_get_null_member (method, "p50_ms"));
  JsonObject *table = tps_json_element (tps_json_array (root, "tables"), 0);
  EXPECT_EQ (tps_json_number (table, "push_rows_per_s"), 1.5);
  EXPECT_STREQ (tps_json_text (tps_json_object (root, "status"), "name"), "ps");
}

} // namespace
