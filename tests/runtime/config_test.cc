/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "runtime/base/error.h"

namespace {

class Config : public testing::Test
{
protected:
  void
  open (const char *text)
  {
    values = g_variant_parse (G_VARIANT_TYPE_VARDICT, text, nullptr, nullptr, nullptr);
    tps_config_init (&config, values, "model M", &error);
  }
  void
  TearDown () override
  {
    g_clear_error (&error);
    g_clear_pointer (&values, g_variant_unref);
  }
  std::string
  message () const
  {
    return error != nullptr ? error->message : "";
  }

  GVariant *values = nullptr;
  GError *error = nullptr;
  TpsConfig config;
};

TEST_F (Config, ReadsEveryKind)
{
  gint64 n;
  gdouble x, y;
  gboolean b;
  g_autofree gchar *s = nullptr;

  open ("{'n': <int64 5>, 'x': <2.5>, 'y': <int64 3>, 'b': <true>, 's': <'text'>}");
  EXPECT_TRUE (
      tps_config_get_int (&config, "n", 1, 5, &n) && tps_config_get_double (&config, "x", 0, 10, &x)
      && tps_config_get_double (&config, "y", 0, 10, &y) && tps_config_get_bool (&config, "b", &b)
      && tps_config_get_string (&config, "s", &s) && tps_config_finish (&config));
  EXPECT_EQ (n, 5);
  EXPECT_EQ (x, 2.5);
  EXPECT_EQ (y, 3);
  EXPECT_TRUE (b);
  EXPECT_STREQ (s, "text");
}

TEST_F (Config, NamesMissingValuesWrongTypesAndValuesOutOfRange)
{
  const struct
  {
    const char *text, *message;
  } cases[] = {
    { "{}", "model M: n: missing" },
    { "{'n': <2.5>}", "model M: n: expected an integer, found a number with a fraction" },
    { "{'n': <true>}", "model M: n: expected an integer, found a boolean" },
    { "{'n': <int64 0>}", "model M: n: 0 is outside [1, 5]" },
    { "{'n': <int64 6>}", "model M: n: 6 is outside [1, 5]" },
    { "{'n': <byte 2>}",
      "model M: n: expected an integer, found neither a number, a boolean nor a string" },
  };

  for (const auto &test : cases)
    {
      gint64 n = 77;

      open (test.text);
      EXPECT_FALSE (tps_config_get_int (&config, "n", 1, 5, &n));
      EXPECT_EQ (message (), test.message);
      EXPECT_EQ (error->code, TPS_ERROR_INVALID_ARGUMENT);
      EXPECT_EQ (n, 77) << "outputs are written on success only";
      TearDown ();
    }
}

TEST_F (Config, RefusesNotANumber)
{
  gdouble x;

  open ("{'x': <nan>}");
  if (values == nullptr)
    {
      values = g_variant_ref_sink (g_variant_new_parsed ("{'x': <%d>}", (gdouble) NAN));
      tps_config_init (&config, values, "model M", &error);
    }
  EXPECT_FALSE (tps_config_get_double (&config, "x", 0, 1, &x));
  EXPECT_EQ (message (), "model M: x: nan is outside [0, 1]");
}

TEST_F (Config, ListsUnknownKeys)
{
  gint64 n;

  open ("{'depth': <int64 1>, 'n': <int64 1>, 'width': <int64 1>}");
  EXPECT_TRUE (tps_config_get_int (&config, "n", 1, 5, &n));
  EXPECT_TRUE (tps_config_has (&config, "depth"));
  EXPECT_FALSE (tps_config_has (&config, "height"));
  EXPECT_FALSE (tps_config_finish (&config));
  EXPECT_EQ (message (), "model M: unknown arguments: depth, width");
}

TEST_F (Config, ReadsAfterAnErrorDoNothing)
{
  gint64 n = 77;

  open ("{'n': <int64 1>}");
  EXPECT_FALSE (tps_config_get_int (&config, "m", 1, 5, &n));
  EXPECT_FALSE (tps_config_get_int (&config, "n", 1, 5, &n));
  EXPECT_FALSE (tps_config_finish (&config));
  EXPECT_EQ (message (), "model M: m: missing");
  EXPECT_EQ (n, 77);
}

TEST_F (Config, ThousandsOfUnknownKeysMakeAShortMessage)
{
  std::string text = "{";

  for (int i = 0; i < 3000; i++)
    text += (i > 0 ? ", 'key" : "'key") + std::to_string (i) + "': <int64 1>";
  open ((text + "}").c_str ());
  EXPECT_FALSE (tps_config_finish (&config));
  EXPECT_EQ (
      message (),
      "model M: unknown arguments: key0, key1, key2, key3, key4, key5, key6, key7 and 2992 more");
}

TEST_F (Config, NoDictionaryIsAnEmptyOne)
{
  tps_config_init (&config, nullptr, "model M", &error);
  EXPECT_FALSE (tps_config_has (&config, "n"));
  EXPECT_TRUE (tps_config_finish (&config));
}

} // namespace
