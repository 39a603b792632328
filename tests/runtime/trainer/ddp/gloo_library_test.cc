/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Gloo as in installed programs: in a library that is loaded when the first group is created. */

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <unistd.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/trainer/ddp/collectives.h"
#include "tests/runtime/trainer/ddp/fakes.h"

namespace {

const char library[] = "plugin/package/libtps_gloo.so";
const char gloo[] = "/libgloo.so.";

/* Returns TRUE if a file whose path contains `name` is mapped. */
bool
is_mapped (const std::string &name)
{
  std::ifstream mappings ("/proc/self/maps");

  for (std::string line; std::getline (mappings, line);)
    if (line.find (name) != std::string::npos)
      return true;
  return false;
}

/* Exits with code 0 if a group of two is refused and the message contains `word`. */
[[noreturn]] void
exit_refused (const char *path, const char *word)
{
  MemoryStore memory;
  TpsProcessGroupOptions options = {};
  GError *error = nullptr;

  setenv ("THRIFTPS_GLOO_LIBRARY", path, 1);
  options.size = 2;
  options.store = memory.open ();
  options.prefix = "a";
  options.timeout_ns = 1000000000;
  bool is_refused = tps_process_group_new ("gloo", &options, &error) == nullptr;
  _exit (is_refused && g_error_matches (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE)
                 && strstr (error->message, word) != nullptr
             ? 0
             : 1);
}

/* Each case runs in its own process, because a process searches for the library only once. */
TEST (GlooLibrary, IsNamedWithTheReasonWhereItCannotBeLoaded)
{
  EXPECT_EXIT (exit_refused ("/nowhere/libtps_gloo.so", "/nowhere/libtps_gloo.so: cannot open"),
               testing::ExitedWithCode (0), "");
  EXPECT_EXIT (exit_refused ("none", "turned off"), testing::ExitedWithCode (0), "");
  EXPECT_EXIT (exit_refused ("libc.so.6", "no symbol tps_gloo_library"),
               testing::ExitedWithCode (0), "");
}

TEST (GlooLibrary, MakesGroupsAndIsNotLoadedBefore)
{
  EXPECT_FALSE (is_mapped (library));
  EXPECT_FALSE (is_mapped (gloo));
  setenv ("THRIFTPS_GLOO_LIBRARY", library, 1);
  std::vector<TpsProcessGroup *> groups = join_gloo_groups (2);
  std::vector<std::vector<float>> data = { { 1, 2 }, { 10, 20 } };

  run_ranks (2, [&] (guint r) {
    EXPECT_EQ (all_reduce (groups[r], data[r].data (), data[r].size ()), "");
    EXPECT_EQ (data[r], (std::vector<float> { 11, 22 }));
  });
  EXPECT_TRUE (is_mapped (library));
  EXPECT_TRUE (is_mapped (gloo));
  free_groups (groups);
}

} /* namespace */
