/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/module.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::EndsWith;

std::vector<std::string>
list_paths ()
{
  gchar **paths = tps_module_list_paths ("libx.so", "MODULE_TEST_LIBRARY");
  std::vector<std::string> list (paths, paths + g_strv_length (paths));

  g_strfreev (paths);
  return list;
}

TEST (Module, AVariableNamesTheOnlyPathOrNone)
{
  setenv ("MODULE_TEST_LIBRARY", "/a/b.so", 1);
  EXPECT_THAT (list_paths (), ElementsAre ("/a/b.so"));
  setenv ("MODULE_TEST_LIBRARY", "none", 1);
  EXPECT_THAT (list_paths (), ElementsAre ());
  unsetenv ("MODULE_TEST_LIBRARY");
  EXPECT_THAT (list_paths (), ElementsAre ("libx.so"));
}

/* Not a test: LiesBesideTheProgramOrInLibThriftps runs it in a copy of this program. */
TEST (Module, DISABLED_PrintPaths)
{
  for (const std::string &path : list_paths ())
    printf ("path: %s\n", path.c_str ());
}

TEST (Module, LiesBesideTheProgramOrInLibThriftps)
{
  fs::path folder = fs::path (getenv ("TEST_TMPDIR")) / "installed";
  std::vector<std::string> found;
  char line[4096];

  fs::create_directories (folder / "bin");
  fs::create_directories (folder / "lib/thriftps");
  fs::copy_file ("/proc/self/exe", folder / "bin/program", fs::copy_options::overwrite_existing);
  std::ofstream (folder / "bin/libx.so");
  std::ofstream (folder / "lib/thriftps/libx.so");
  std::string command = (folder / "bin/program").string ()
                        + " --gtest_also_run_disabled_tests --gtest_filter=*PrintPaths";
  FILE *output = popen (command.c_str (), "r");
  while (fgets (line, sizeof line, output) != nullptr)
    if (std::string (line).rfind ("path: ", 0) == 0)
      found.push_back (std::string (line));
  EXPECT_EQ (pclose (output), 0);
  EXPECT_THAT (found, ElementsAre (EndsWith ("/bin/./libx.so\n"),
                                   EndsWith ("/bin/../lib/thriftps/libx.so\n"), "path: libx.so\n"));
}

TEST (Module, NamesEachPathThatCannotBeLoadedWithTheReason)
{
  const gchar *const paths[] = { "/nowhere/a.so", "/nowhere/b.so", nullptr };
  g_autoptr (GString) reasons = g_string_new (nullptr);

  EXPECT_EQ (tps_module_open (paths, reasons), nullptr);
  EXPECT_THAT (reasons->str, testing::StartsWith ("/nowhere/a.so: "));
  EXPECT_THAT (reasons->str, testing::HasSubstr ("; /nowhere/b.so: "));
}

TEST (Module, FindsFunctions)
{
  const gchar *const paths[] = { "/nowhere/a.so", "libc.so.6", nullptr };
  g_autoptr (GString) reasons = g_string_new (nullptr);
  void *module = tps_module_open (paths, reasons);
  int (*absolute) (int) = nullptr;

  ASSERT_NE (module, nullptr);
  EXPECT_TRUE (tps_module_find (module, "abs", &absolute, sizeof absolute));
  EXPECT_EQ (absolute (-3), 3);
  EXPECT_FALSE (tps_module_find (module, "no_such_function", &absolute, sizeof absolute));
}

} /* namespace */
