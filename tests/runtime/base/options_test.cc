// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/base/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

struct Values
{
  gboolean verbose;
  guint count;
  gint64 offset;
  gdouble rate;
  gsize bytes;
  gint64 timeout_ns;
  gchar *name;
  GStrv addresses;
  int color;
};

gboolean
CheckAddress (const gchar *text, GError **error)
{
  if (*text == '!')
    g_set_error_literal (error, 1, 1, "no address");
  return *text == '@';
}

gboolean
ParseColor (const gchar *text, gpointer field)
{
  *static_cast<int *> (field) = g_str_equal (text, "red") ? 1 : 2;
  return g_str_equal (text, "red") || g_str_equal (text, "blue");
}

TpsOption
Option (const char *name, TpsOptionType type, gsize offset, const char *unit, const char *initial)
{
  TpsOption option = {};
  option.name = name;
  option.type = type;
  option.offset = offset;
  option.unit = unit;
  option.initial = initial;
  option.help = "Help of it";
  return option;
}

const TpsOption *
Table ()
{
  static TpsOption table[] = {
    Option ("verbose", TPS_OPTION_FLAG, offsetof (Values, verbose), nullptr, nullptr),
    Option ("n-things", TPS_OPTION_UINT, offsetof (Values, count), "N", "3"),
    Option ("offset", TPS_OPTION_INT, offsetof (Values, offset), "N", nullptr),
    Option ("rate", TPS_OPTION_REAL, offsetof (Values, rate), "R", "0.5"),
    Option ("max-mib", TPS_OPTION_MIB, offsetof (Values, bytes), "MIB", "1"),
    Option ("timeout", TPS_OPTION_SECONDS, offsetof (Values, timeout_ns), "SECONDS", "30"),
    Option ("name", TPS_OPTION_TEXT, offsetof (Values, name), "NAME", "anon"),
    Option ("listen", TPS_OPTION_TEXTS, offsetof (Values, addresses), "ADDRESS", "@home"),
    Option ("color", TPS_OPTION_OTHER, offsetof (Values, color), "COLOR", "red"),
    {},
  };
  table[1].min = 1;
  table[1].max = 9;
  table[2].min = -5;
  table[3].max = 1;
  table[4].meaning = "all of it | or so";
  table[7].check = CheckAddress;
  table[7].expected = "@SOMETHING";
  table[8].parse = ParseColor;
  table[8].expected = "red or blue";
  return table;
}

using Lines = std::vector<std::pair<const char *, const char *>>;

// Returns the parsed values as text, or the error message.
std::string
Parse (std::vector<const char *> argv, const Lines &file = {})
{
  g_autoptr (TpsArguments) arguments = tps_arguments_new (Table ());
  g_autoptr (GError) error = nullptr;
  Values values = {};
  argv.insert (argv.begin (), "program");
  argv.push_back (nullptr);
  bool ok = tps_arguments_add_line (arguments, argv.data (), &error);
  for (auto &line : file)
    ok = ok && tps_arguments_add (arguments, "file", line.first, line.second, &error);
  ok = ok && tps_arguments_apply (arguments, &values, &error);
  g_autofree gchar *addresses = values.addresses != nullptr ? g_strjoinv ("+", values.addresses)
                                                            : nullptr;
  std::string text = ok ? std::to_string (values.verbose) + " " + std::to_string (values.count)
                              + " " + std::to_string (values.offset) + " "
                              + std::to_string (values.rate).substr (0, 4) + " "
                              + std::to_string (values.bytes) + " "
                              + std::to_string (values.timeout_ns) + " " + values.name + " "
                              + addresses + " " + std::to_string (values.color)
                        : error->message;
  tps_options_clear (Table (), &values);
  EXPECT_EQ (values.name, nullptr);
  EXPECT_EQ (values.addresses, nullptr);
  return text;
}

TEST (Options, HaveDefaults)
{
  EXPECT_EQ (Parse ({}), "0 3 0 0.50 1048576 30000000000 anon @home 1");
}

TEST (Options, ComeFromFlagsInBothForms)
{
  EXPECT_EQ (Parse ({ "--verbose", "--n-things=9", "--offset", "-5", "--rate=0.25", "--max_mib=2",
                      "--timeout", "0.0000000011", "--name=", "--listen=@a", "--listen", "@b",
                      "--color=blue" }),
             "1 9 -5 0.25 2097152 2  @a+@b 2");
  EXPECT_EQ (Parse ({ "--name=a", "--name=b_c", "--verbose", "--verbose=false" }),
             "0 3 0 0.50 1048576 30000000000 b_c @home 1");
}

TEST (Options, OfTheCommandLineWinOverThoseOfAFile)
{
  EXPECT_EQ (Parse ({ "--n-things=4", "--listen=@line" }, { { "n_things", "5" },
                                                            { "listen", "@file" },
                                                            { "name", "old" },
                                                            { "name", "new" },
                                                            { "verbose", "true" } }),
             "1 4 0 0.50 1048576 30000000000 new @line 1");
  EXPECT_EQ (Parse ({}, { { "listen", "@a" }, { "listen", "@b" } }),
             "0 3 0 0.50 1048576 30000000000 anon @a+@b 1");
}

TEST (Options, AreListedWithWhereTheyComeFrom)
{
  const gchar *const line[] = { "program", "--n-things=4", "--n-things=5", nullptr };
  g_autoptr (TpsArguments) arguments = tps_arguments_new (Table ());
  gboolean is_from_file = TRUE;

  ASSERT_TRUE (tps_arguments_add_line (arguments, line, nullptr));
  ASSERT_TRUE (tps_arguments_add (arguments, "file", "n_things", "6", nullptr));
  ASSERT_TRUE (tps_arguments_add (arguments, "file", "offset", "7", nullptr));
  g_autoptr (GPtrArray) counts = tps_arguments_list (arguments, &Table ()[1], &is_from_file);
  EXPECT_FALSE (is_from_file);
  ASSERT_EQ (counts->len, 2u);
  EXPECT_STREQ (static_cast<const gchar *> (counts->pdata[1]), "5");
  g_autoptr (GPtrArray) offsets = tps_arguments_list (arguments, &Table ()[2], &is_from_file);
  EXPECT_TRUE (is_from_file);
  ASSERT_EQ (offsets->len, 1u);
  g_autoptr (GPtrArray) none = tps_arguments_list (arguments, &Table ()[0], &is_from_file);
  EXPECT_FALSE (is_from_file);
  EXPECT_EQ (none->len, 0u);
}

TEST (Options, ThatAreBadAreNamedWithTheirValueAndTheExpectedValues)
{
  EXPECT_EQ (Parse ({ "--n_things=10" }), "--n-things=10: expected 1 to 9");
  EXPECT_EQ (Parse ({ "--n-things=" }), "--n-things=: expected 1 to 9");
  EXPECT_EQ (Parse ({ "--n-things= 4" }), "--n-things= 4: expected 1 to 9");
  EXPECT_EQ (Parse ({ "--n-things=4x" }), "--n-things=4x: expected 1 to 9");
  EXPECT_EQ (Parse ({ "--n-things=18446744073709551620" }),
             "--n-things=18446744073709551620: expected 1 to 9");
  EXPECT_EQ (Parse ({ "--offset=-6" }), "--offset=-6: expected -5 or more");
  EXPECT_EQ (Parse ({ "--rate=nan" }), "--rate=nan: expected 0 to 1");
  EXPECT_EQ (Parse ({ "--rate=" }), "--rate=: expected 0 to 1");
  EXPECT_EQ (Parse ({ "--max-mib=9000000000000" }), "--max-mib=9000000000000: expected 0 or more");
  EXPECT_EQ (Parse ({ "--timeout=1e10" }), "--timeout=1e10: expected 0 or more");
  EXPECT_EQ (Parse ({ "--verbose=yes" }), "--verbose=yes: expected true or false");
  EXPECT_EQ (Parse ({ "--listen=x" }), "--listen=x: expected @SOMETHING");
  EXPECT_EQ (Parse ({ "--listen=!" }), "--listen: no address");
  EXPECT_EQ (Parse ({ "--color=green" }), "--color=green: expected red or blue");
  EXPECT_EQ (Parse ({}, { { "n_things", "many" } }), "file: n_things=many: expected 1 to 9");
}

TEST (Options, ThatAreNoneAreRefused)
{
  EXPECT_EQ (Parse ({ "--bogus=1" }), "unknown option \"--bogus=1\" (see --help)");
  EXPECT_EQ (Parse ({ "--name" }), "no value after \"--name\" (see --help)");
  EXPECT_EQ (Parse ({ "stray" }), "unexpected argument \"stray\" (see --help)");
  EXPECT_EQ (Parse ({ "-x" }), "unexpected argument \"-x\" (see --help)");
  EXPECT_EQ (Parse ({ "--" }), "unknown option \"--\" (see --help)");
  EXPECT_EQ (Parse ({ "" }), "unexpected argument \"\" (see --help)");
  EXPECT_EQ (Parse ({ "-h" }), "unknown option \"--help\" (see --help)");
  EXPECT_EQ (Parse ({}, { { "bogus", "1" } }), "file: unknown option \"bogus\"");
}

TEST (Options, AreHelp)
{
  g_autofree gchar *help = tps_options_to_help (Table ());
  EXPECT_THAT (help, testing::StartsWith ("  --verbose          Help of it\n"
                                          "  --n-things=N       Help of it (3)\n"));
  EXPECT_THAT (help, testing::HasSubstr ("Help of it: red or blue (red)\n"));
}

TEST (Options, AreATableInMarkdown)
{
  g_autofree gchar *table = tps_options_to_markdown (Table ());
  EXPECT_THAT (table, testing::HasSubstr ("| `--n-things=N` | 3 | 1 to 9 | Help of it |\n"));
  EXPECT_THAT (table, testing::HasSubstr ("| `--verbose` |  |  | Help of it |\n"));
  EXPECT_THAT (table, testing::HasSubstr ("| all of it \\| or so |"));
}

TEST (Options, ThatDoNotFitTogetherAreRefusedByName)
{
  g_autoptr (TpsArguments) arguments = tps_arguments_new (Table ());
  g_autoptr (GError) error = nullptr;
  EXPECT_FALSE (tps_arguments_refuse (arguments, "n-things", "fewer", &error));
  EXPECT_STREQ (error->message, "--n-things: expected fewer");
  g_clear_error (&error);
  tps_arguments_add (arguments, "file", "n_things", "7", nullptr);
  EXPECT_FALSE (tps_arguments_refuse (arguments, "n-things", "fewer", &error));
  EXPECT_STREQ (error->message, "file: n_things=7: expected fewer");
  EXPECT_STREQ (tps_arguments_get (arguments, "n-things"), "7");
  EXPECT_EQ (tps_arguments_get (arguments, "name"), nullptr);
}

} // namespace
