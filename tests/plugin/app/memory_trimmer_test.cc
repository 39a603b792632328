/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/memory_trimmer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

namespace {

constexpr size_t n_bytes = size_t { 160 } << 20;
constexpr size_t n_block = 1000;

size_t
ResidentBytes ()
{
  std::ifstream file ("/proc/self/statm");
  size_t n_all = 0, n_resident = 0;

  file >> n_all >> n_resident;
  return n_resident * static_cast<size_t> (sysconf (_SC_PAGESIZE));
}

/* The charge of freed small blocks is at once the charge of a large buffer. */
TEST (MemoryTrimmer, ReturnsBlocksWhoseRoomIsChargedAgainAtOnce)
{
  g_autoptr (TpsBudgets) budgets = tps_budgets_new (nullptr);
  TpsMemoryTrimmer trimmer = tps_memory_trimmer (budgets);
  std::vector<void *> blocks;

  tps_memory_trimmer_set_allocator ();
  tps_memory_trimmer_turn (&trimmer);
  ASSERT_TRUE (tps_budget_charge (budgets->pending, n_bytes, nullptr));
  while (blocks.size () < n_bytes / n_block)
    {
      blocks.push_back (malloc (n_block));
      memset (blocks.back (), 1, n_block);
    }
  tps_memory_trimmer_turn (&trimmer);
  void *last = blocks.back (); /* otherwise, free() would return the blocks below it */
  blocks.pop_back ();
  for (void *block : blocks)
    free (block);
  void *buffer = mmap (nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                       0);
  ASSERT_NE (buffer, MAP_FAILED);
  memset (buffer, 1, n_bytes);
  size_t n_before = ResidentBytes ();
  ASSERT_GT (n_before, 2 * n_bytes * 9 / 10);
  tps_memory_trimmer_turn (&trimmer);
  EXPECT_LT (ResidentBytes (), n_before - n_bytes / 2);
  tps_budget_release (budgets->pending, n_bytes);
  munmap (buffer, n_bytes);
  free (last);
}

} // namespace
