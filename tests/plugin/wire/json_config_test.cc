/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/json_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/base/error.h"

namespace thriftps {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string
parse (const std::string &text)
{
  g_autoptr (GError) error = nullptr;
  GVariant *values = tps_json_config_parse (text.c_str (), &error);

  if (values == nullptr)
    {
      EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
      return "refused: " + std::string (error->message);
    }
  EXPECT_FALSE (g_variant_is_floating (values));
  g_autofree gchar *printed = g_variant_print (values, TRUE);
  g_variant_unref (values);
  return printed;
}

std::string
parse_model (const std::string &text)
{
  g_autoptr (GError) error = nullptr;
  g_autofree gchar *class_name = nullptr;
  GVariant *values = tps_json_model_config_parse (text.c_str (), &class_name, &error);

  if (values == nullptr)
    return "refused: " + std::string (error->message);
  g_autofree gchar *printed = g_variant_print (values, TRUE);
  g_variant_unref (values);
  return std::string (class_name) + " " + printed;
}

TEST (JsonConfig, scalarsKeepTheirTypes)
{
  EXPECT_EQ (parse ("{\"a\": 1}"), "{'a': <int64 1>}");
  EXPECT_EQ (parse ("{\"a\": 1.5}"), "{'a': <1.5>}");
  EXPECT_EQ (parse ("{\"a\": true}"), "{'a': <true>}");
  EXPECT_EQ (parse ("{\"a\": \"b\"}"), "{'a': <'b'>}");
  EXPECT_EQ (parse ("{}"), "@a{sv} {}");
  EXPECT_EQ (parse (""), "@a{sv} {}");
}

TEST (JsonConfig, otherValuesAreRefused)
{
  EXPECT_EQ (parse ("{\"a\": null}"),
             "refused: a: expected a finite number, a boolean or a string");
  EXPECT_EQ (parse ("{\"a\": [1]}"), "refused: a: expected a finite number, a boolean or a string");
  EXPECT_EQ (parse ("{\"a\": {}}"), "refused: a: expected a finite number, a boolean or a string");
  EXPECT_EQ (parse ("{\"a\": 1e999}"),
             "refused: a: expected a finite number, a boolean or a string");
  EXPECT_EQ (parse ("{\"a\": \"b\\u0000c\"}"), "refused: the JSON text contains \\u0000");
  EXPECT_EQ (parse ("[]"), "refused: not a JSON object");
  EXPECT_EQ (parse ("3"), "refused: not a JSON object");
  EXPECT_EQ (parse (" "), "refused: not a JSON object");
  EXPECT_THAT (parse ("{"), StartsWith ("refused: not JSON: "));
}

TEST (JsonConfig, hostileTextsAreRefused)
{
  EXPECT_THAT (parse (std::string (100000, ' ')), HasSubstr ("longer than 65536 bytes"));
  EXPECT_THAT (parse (std::string (60000, '[')), HasSubstr ("more than 64 brackets"));
  EXPECT_THAT (parse (std::string (60000, '{')), HasSubstr ("more than 64 brackets"));
  EXPECT_THAT (parse ("/* \" */" + std::string (60000, '[')), HasSubstr ("more than 64 brackets"));
  EXPECT_THAT (parse ("{\"a\": \"\\ud800\"}"), StartsWith ("refused: "));
  EXPECT_THAT (parse ("{\"\\ud800\": 1}"), StartsWith ("refused: "));
}

TEST (JsonConfig, aModelIsAClassAndItsConfiguration)
{
  EXPECT_EQ (parse_model ("{\"model_class\": \"DummyModel\", \"configurations\": {\"dim\": 4}}"),
             "DummyModel {'dim': <int64 4>}");
  EXPECT_EQ (parse_model ("{\"model_class\": \"M\"}"), "M @a{sv} {}");
  EXPECT_THAT (parse_model ("{\"model_class\": 3}"), HasSubstr ("expected {\"model_class\""));
  EXPECT_THAT (parse_model ("{\"configurations\": {}}"), HasSubstr ("expected {\"model_class\""));
  EXPECT_THAT (parse_model ("{\"model_class\": \"M\", \"configurations\": 1}"),
               HasSubstr ("expected {\"model_class\""));
  EXPECT_THAT (parse_model ("{\"model_class\": \"M\", \"more\": 1}"),
               HasSubstr ("unknown key \"more\""));
}

TEST (JsonConfig, writtenConfigurationsAreReadAgain)
{
  GVariant *values = g_variant_ref_sink (
      g_variant_new_parsed ("{'i': <int64 -5>, 'd': <0.1>, 'w': <3.0>, 'b': <false>}"));
  g_autofree gchar *text = tps_json_config_to_string (values);
  g_autofree gchar *model = tps_json_model_config_to_string ("M", values);
  g_autofree gchar *class_name = nullptr;
  GVariant *again = tps_json_config_parse (text, nullptr);
  GVariant *model_again = tps_json_model_config_parse (model, &class_name, nullptr);

  EXPECT_TRUE (g_variant_equal (again, values)) << text;
  EXPECT_TRUE (g_variant_equal (model_again, values)) << model;
  EXPECT_STREQ (class_name, "M");
  g_variant_unref (values);
  g_variant_unref (again);
  g_variant_unref (model_again);
}

} // namespace
} // namespace thriftps
