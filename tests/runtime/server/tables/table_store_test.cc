/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/table_store.h"

#include <malloc.h>
#include <unistd.h>

#include <fstream>

#include "runtime/base/error.h"
#include "tests/runtime/base/trace_capture.h"
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

TEST (TableStore, LogsTheBeginAndTheEndOfTables)
{
  using Lines = std::vector<std::string>;
  thriftps_test::TraceCapture capture;
  Store store;

  EXPECT_EQ (store.create (Spec ("b", 10, 4)), "");
  EXPECT_EQ (store.drop ("b"), "");
  EXPECT_EQ (capture.Lines ("table_created"),
             Lines { "info table_created table=b rows=10 dim=4 dtype=FLOAT32 device=cpu" });
  EXPECT_EQ (capture.Lines ("table_dropped"), Lines { "info table_dropped table=b" });
}

/* A tenant's tables count against its own limit and the limit of all tables. A limit applies only
 * to new tables: tables of a data directory must be restored even if the limit was lowered. A
 * refusal must not suggest a retry, because no table goes away by itself. */
TEST (TableStore, TablesAreChargedToTheirTenants)
{
  g_autoptr (TpsBudgets) budgets = tps_budgets_new (nullptr);
  TpsQuotasOptions quotas_options = {};
  TpsTenantEntry entry = { "ads", {} };
  TpsTableStoreOptions options = {};

  quotas_options.tenants.tables = budgets->tables;
  g_autoptr (TpsQuotas) quotas = tps_quotas_new (&quotas_options);
  TpsBudget *ads = tps_tenant_get_table_budget (tps_quotas_find (quotas, "ads"));
  entry.limits.table_bytes = 10000;
  tps_quotas_set_limits (quotas, &entry, 1);
  options.budgets = budgets;
  options.quotas = quotas;
  {
    Store store (options);
    Spec recovered ("recovered", 1000, 4), large ("large", 1000, 4), free ("unlimited", 1000, 4);

    recovered.value.tenant = g_strdup ("ads");
    large.value.tenant = g_strdup ("ads");
    EXPECT_EQ (store.create (recovered), "");
    EXPECT_GT (tps_budget_get_held (ads), 16000u);
    tps_quotas_enforce_table_bytes (quotas);
    std::string refused = store.create (large);
    EXPECT_NE (refused.find ("RESOURCE_EXHAUSTED"), std::string::npos) << refused;
    EXPECT_NE (refused.find ("tables of tenant ads"), std::string::npos) << refused;
    EXPECT_EQ (store.create (free), "");
    EXPECT_EQ (tps_budget_get_held (budgets->tables), 2 * tps_budget_get_held (ads));
    EXPECT_EQ (store.drop ("recovered"), "");
    EXPECT_EQ (tps_budget_get_held (ads), 0u);
    Spec small ("small", 100, 4);
    small.value.tenant = g_strdup ("ads");
    EXPECT_EQ (store.create (small), "");
  }
  EXPECT_EQ (tps_budget_get_held (ads), 0u);
}

TEST (TableStore, FullTablesAreNotWaitedFor)
{
  Store store (0, 100 << 10);
  Spec spec ("a", 20000, 1);
  g_autoptr (GError) error = nullptr;

  ASSERT_EQ (store.create (spec), "");
  g_free (spec.value.name);
  spec.value.name = g_strdup ("b");
  EXPECT_FALSE (tps_table_store_create (store.get (), &spec.value, &error));
  EXPECT_EQ (tps_error_get_retry_after_ms (error), -1);
}

/* Creates tables of one cell each up to the limit, which must count the overhead of a table as
 * well. */
TEST (TableStore, TablesOfOneCellAreChargedForTheirOverhead)
{
  constexpr size_t max_bytes = 8 << 20;
  Store store (0, max_bytes);
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
  Store store (0, G_MAXSIZE);
  std::string said = store.create (Spec ("emb", int64_t { 1 } << 58, 4).zeros ());

  EXPECT_EQ (said, "RESOURCE_EXHAUSTED table emb: the system has no memory for "
                   "4611686018427387904 bytes");
  EXPECT_EQ (tps_table_store_get_bytes (store.get ()), 0u);
  EXPECT_EQ (store.create (Spec ("emb", 4, 4)), "");
}

TEST (TableStore, TheDefaultBoundIsWithinTheMemoryOfTheMachine)
{
  size_t memory = static_cast<size_t> (sysconf (_SC_PHYS_PAGES))
                  * static_cast<size_t> (sysconf (_SC_PAGESIZE));
  Store store (0, 0);

  EXPECT_GT (tps_table_store_get_default_max_bytes (), 0u);
  EXPECT_LE (tps_table_store_get_default_max_bytes (), memory / 10 * 8 + 10);
  EXPECT_EQ (tps_table_store_get_max_bytes (store.get ()),
             tps_table_store_get_default_max_bytes ());
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
  bytes = tps_table_store_get_bytes (store.get ());
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

TEST (TableStore, EstimatesTheBytesThatCallsReadAndWrite)
{
  Store store;
  Query query { "emb", { 1, 2, 3 }, { 0, 1 } };
  Query unknown { "nothing", { 1, 2, 3 }, { 0, 1 } };
  TpsBagQuery queries[] = { query.get (), unknown.get (), query.get () };

  ASSERT_EQ (store.create (Spec ("emb", 10, 8)), "");
  EXPECT_EQ (tps_table_store_estimate_bags (store.get (), queries, 3),
             2 * (3u * (32 + 8) + 2u * 32));
  EXPECT_EQ (tps_table_store_estimate_rows (store.get (), "emb", 5), 5u * (32 + 8 + 32));
  EXPECT_EQ (tps_table_store_estimate_rows (store.get (), "nothing", 5), 0u);
  EXPECT_EQ (tps_table_store_estimate_rows (store.get (), "emb", -5), 0u);
}

TEST (TableStore, ShardsWithoutRowsServeNothing)
{
  Store store;

  ASSERT_EQ (store.create (Spec ("emb", 2, 4).shard (hash_shard (2, 2, 3))), "");
  EXPECT_EQ (store.pooled (Query { "emb", {}, { 0 } }), Floats (4, 0.0f));
  EXPECT_NE (store.rows ("emb", { 0 }, nullptr), "");
  EXPECT_EQ (store.apply_rows ("emb", {}, {}, 4), "");
  EXPECT_EQ (tps_table_store_get_rows (store.get (), "emb"), 2);
  EXPECT_EQ (tps_table_store_get_rows (store.get (), "none"), 0);
  EXPECT_GT (tps_table_store_get_bytes (store.get ()), 0u);
  EXPECT_LT (tps_table_store_get_bytes (store.get ()), 2048u) << "the overhead";
}

TEST (TableStore, RowsOfOtherShardsAreNamed)
{
  TpsShard shard = hash_shard (300, 1, 3);
  int64_t elsewhere = 0;
  Store store;

  ASSERT_EQ (store.create (Spec ("part", 300, 4).shard (range_shard (300, 1, 3))), "");
  ASSERT_EQ (store.create (Spec ("hashed", 300, 4).shard (shard)), "");
  EXPECT_EQ (
      store.rows ("part", { 100, 199, 200 }, nullptr),
      "INVALID_ARGUMENT indices[2]: 200 is not in [100, 200), the shard of table part on this "
      "server");
  EXPECT_EQ (
      store.rows ("part", { 99 }, nullptr),
      "INVALID_ARGUMENT indices[0]: 99 is not in [100, 200), the shard of table part on this "
      "server");
  EXPECT_EQ (store.rows ("part", { 300 }, nullptr),
             "INVALID_ARGUMENT indices[0]: 300 is not in [0, 300) of table part");
  while (tps_shard_get_slot (&shard, elsewhere) >= 0)
    elsewhere++;
  EXPECT_EQ (store.rows ("hashed", { elsewhere }, nullptr),
             "INVALID_ARGUMENT indices[0]: " + std::to_string (elsewhere) + " is in shard "
                 + std::to_string (tps_shard_permute (elsewhere, 300) % 3)
                 + " of table hashed, this server holds shard 1 of 3");
  EXPECT_EQ (store.rows ("hashed", { -4 }, nullptr),
             "INVALID_ARGUMENT indices[0]: -4 is not in [0, 300) of table hashed");
}
