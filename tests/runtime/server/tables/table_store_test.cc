/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/table_store.h"

#include <malloc.h>
#include <unistd.h>

#include <fstream>

#include "tests/runtime/server/tables/tables.h"

using namespace embedding_test;

namespace {

/* Returns the resident memory of the process in bytes. First returns memory that earlier tests have
 * freed to the system. Otherwise a test could reuse it, or the allocator could return it during the
 * test. */
size_t
resident_bytes ()
{
  malloc_trim (0);
  std::ifstream file ("/proc/self/statm");
  size_t size, resident;

  file >> size >> resident;
  return resident * static_cast<size_t> (sysconf (_SC_PAGESIZE));
}

} // namespace

/* Creates tables of one cell each up to the limit, which must count the overhead of a table as
 * well. */
TEST (TableStore, TablesOfOneCellAreChargedForTheirOverhead)
{
  constexpr size_t max_bytes = 8 << 20;
  Store store (0, { max_bytes });
  [[maybe_unused]] size_t before = resident_bytes ();
  size_t n = 0;

  while (store.create (Spec ("t" + std::to_string (n), 1, 1)) == "")
    n++;
  EXPECT_GT (n, max_bytes / 2048);
  EXPECT_LT (n, max_bytes / 512);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LE (resident_bytes () - before, max_bytes);
#endif
}

/* The table is larger than the system can map. No charge may remain. */
TEST (TableStore, NoMemoryIsAnErrorOfThisRequest)
{
  Store store (0, { G_MAXSIZE });
  std::string said = store.create (Spec ("emb", int64_t { 1 } << 58, 4).zeros ());

  EXPECT_EQ (said, "RESOURCE_EXHAUSTED table emb: the system has no memory for "
                   "4611686018427387904 bytes");
  EXPECT_EQ (tps_budget_get_held ((store.get ())->budget), 0u);
  EXPECT_EQ (store.create (Spec ("emb", 4, 4)), "");
}

/* The memory must not exceed the touched rows and their state by more than a tenth. */
TEST (TableStore, TakesLittleMoreMemoryThanRowsAndState)
{
  constexpr int64_t rows = 400000;
  Store store;
  Ids ids;
  size_t before = resident_bytes (), bytes;

  ASSERT_EQ (
      store.create (Spec ("emb", rows, 16).uniform (0, 1, 1).optimizer (TPS_OPTIMIZER_ADAM, 0.1)),
      "");
  bytes = tps_budget_get_held ((store.get ())->budget);
  EXPECT_GE (bytes, static_cast<size_t> (rows) * 16 * 4 * 3);
  for (int64_t id = 0; id < rows; id += 20000)
    {
      ids.clear ();
      for (int64_t i = id; i < id + 20000; i++)
        ids.push_back (i);
      ASSERT_EQ (store.apply_rows ("emb", ids, Floats (20000 * 16, 1.0f), 16), "");
    }
  EXPECT_GE (resident_bytes () - before, static_cast<size_t> (rows) * 16 * 4 * 3);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LE (resident_bytes () - before, bytes / 10 * 11);
#endif
}
