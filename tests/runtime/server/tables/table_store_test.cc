/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/table_store.h"

#include <malloc.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "runtime/base/error.h"
#include "tests/runtime/base/trace_capture.h"
#include "tests/runtime/server/tables/tables.h"

using namespace embedding_test;

namespace {

/* Returns the error of a call whose second query must fail. */
std::string
lookup_error (Store &store, const Query &query)
{
  return store.lookup ({ { "emb", { 0 }, { 0 } }, query }, nullptr);
}

TpsTensorView
with_shape (TpsTensorView view, TpsDType dtype, std::vector<int64_t> dims)
{
  view.shape.dtype = dtype;
  view.shape.n_dims = static_cast<guint> (dims.size ());
  for (size_t i = 0; i < dims.size (); i++)
    view.shape.dims[i] = dims[i];
  return view;
}

std::string
check (const TpsBagQuery &query)
{
  GError *error = nullptr;
  gboolean ok = tps_bag_query_check (&query, "q", &error);

  EXPECT_EQ (ok, error == nullptr);
  return describe (error);
}

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

/* Returns TRUE if the overhead beyond the rows and their state is small. */
bool
is_about (size_t bytes, size_t payload)
{
  return bytes > payload && bytes < payload + 2048;
}

class Errors : public ::testing::Test
{
protected:
  Errors ()
  {
    EXPECT_EQ (store.create (Spec ("emb", 300, 4).normal (1).optimizer (TPS_OPTIMIZER_ADAM, 0.1)),
               "");
    EXPECT_EQ (store.create (Spec ("part", 300, 4).shard (range_shard (300, 1, 3))), "");
    EXPECT_EQ (store.create (Spec ("hashed", 300, 4).shard (hash_shard (300, 1, 3))), "");
    before = store.dump ("emb", 300);
  }
  ~Errors () override
  {
    EXPECT_EQ (store.dump ("emb", 300), before) << "something changed";
  }

  Store store;
  std::string before;
};

} // namespace

TEST (TableStore, CreatesListsAndDrops)
{
  using Lines = std::vector<std::string>;
  thriftps_test::TraceCapture capture;
  Store store;
  size_t bytes_of_a, bytes_of_b;
  g_auto (TpsTableSpecs) specs = {};

  ASSERT_EQ (store.create (Spec ("b", 10, 4)), "");
  ASSERT_EQ (store.create (Spec ("a", 100, 8).optimizer (TPS_OPTIMIZER_ADAM, 0.1)), "");
  ASSERT_TRUE (tps_table_store_list (store.get (), &specs, nullptr));
  ASSERT_EQ (specs.n_specs, 2u);
  EXPECT_STREQ (specs.specs[0].name, "a");
  bytes_of_a = static_cast<size_t> (specs.specs[0].bytes);
  EXPECT_TRUE (is_about (bytes_of_a, 100 * 8 * 4 * 3));
  EXPECT_EQ (specs.specs[0].optimizer.beta1, 0.9);
  EXPECT_STREQ (specs.specs[1].name, "b");
  bytes_of_b = static_cast<size_t> (specs.specs[1].bytes);
  EXPECT_TRUE (is_about (bytes_of_b, 160));
  EXPECT_EQ (tps_table_store_get_bytes (store.get ()), bytes_of_a + bytes_of_b);

  EXPECT_EQ (store.drop ("b"), "");
  EXPECT_EQ (store.drop ("b"), "NOT_FOUND table: there is no table b");
  EXPECT_EQ (capture.Lines ("table_created"),
             (Lines { "info table_created table=b rows=10 dim=4 dtype=FLOAT32 device=cpu",
                      "info table_created table=a rows=100 dim=8 dtype=FLOAT32 device=cpu" }));
  EXPECT_EQ (capture.Lines ("table_dropped"), (Lines { "info table_dropped table=b" }));
  EXPECT_EQ (tps_table_store_get_bytes (store.get ()), bytes_of_a);
  EXPECT_EQ (store.lookup ({ { "b", { 0 }, { 0 } } }, nullptr),
             "NOT_FOUND queries[0].table: there is no table b");
}

TEST (TableStore, TheSameAgainIsFineAndKeepsTheRows)
{
  Store store;
  Spec spec = Spec ("emb", 10, 2).zeros ().optimizer (TPS_OPTIMIZER_SGD, 1);

  ASSERT_EQ (store.create (spec), "");
  ASSERT_EQ (store.apply_rows ("emb", { 3 }, { 1, 2 }, 2), "");
  EXPECT_EQ (store.create (spec), "");
  EXPECT_EQ (store.row ("emb", TPS_DTYPE_FLOAT32, 3), (Floats { -1, -2 }));
  EXPECT_TRUE (is_about (tps_table_store_get_bytes (store.get ()), 80));
}

TEST (TableStore, ADifferentTableOfTheSameNameIsRefusedWithTheDifference)
{
  Store store;

  ASSERT_EQ (store.create (Spec ("emb", 10, 4)), "");
  EXPECT_EQ (store.create (Spec ("emb", 10, 8)),
             "ALREADY_EXISTS table emb already exists with a different dim: 4, not 8");
  EXPECT_EQ (store.create (Spec ("emb", 20, 4)),
             "ALREADY_EXISTS table emb already exists with a different rows: 10, not 20");
  EXPECT_EQ (store.create (Spec ("emb", 10, 4).normal (5)),
             "ALREADY_EXISTS table emb already exists with a different initializer.seed: 0, not 5");
  EXPECT_TRUE (is_about (tps_table_store_get_bytes (store.get ()), 160));
}

TEST (TableStore, BadSpecificationsAreRefused)
{
  Store store;

  EXPECT_EQ (store.create (Spec ("emb", 10, -1)),
             "INVALID_ARGUMENT spec.dim: -1, expected at least 1");
  EXPECT_EQ (tps_table_store_get_bytes (store.get ()), 0u);
}

TEST (TableStore, TheBoundHoldsForAllTablesTogether)
{
  constexpr int64_t kib = 256; /* rows of one FLOAT32 column in a KiB */
  Store store (0, 100 << 10);
  std::string said;

  ASSERT_EQ (store.create (Spec ("a", 40 * kib, 1)), "");
  said = store.create (Spec ("b", 80 * kib, 1));
  EXPECT_EQ (said.find ("RESOURCE_EXHAUSTED table b: the budget of tables: no room for "), 0u)
      << said;
  EXPECT_NE (said.find (" of 102400 bytes are held; see --max-table-mib"), std::string::npos);
  EXPECT_EQ (store.create (Spec ("c", 40 * kib, 1)), "");
  EXPECT_EQ (store.drop ("a"), "");
  EXPECT_EQ (store.drop ("c"), "");
  EXPECT_EQ (store.create (Spec ("b", 80 * kib, 1)), "");
  EXPECT_EQ (tps_table_store_get_max_bytes (store.get ()), 100u << 10);
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
  EXPECT_TRUE (is_about (tps_table_store_get_bytes (store.get ()), 0));
}

TEST_F (Errors, IdsOutOfRange)
{
  Query query { "emb", Ids (40, 7), { 0, 10 } };

  query.indices[17] = 300;
  EXPECT_EQ (lookup_error (store, query),
             "INVALID_ARGUMENT queries[1].indices[17]: 300 is not in [0, 300) of table emb");
  query.indices[17] = -1;
  EXPECT_EQ (lookup_error (store, query),
             "INVALID_ARGUMENT queries[1].indices[17]: -1 is not in [0, 300) of table emb");
  query.indices[17] = G_MININT64;
  EXPECT_EQ (store.apply_bags ({ { "emb", { 0 }, { 0 } }, query },
                               { Floats (4, 1.0f), Floats (8, 1.0f) }, 4),
             "INVALID_ARGUMENT gradients[1].query.indices[17]: -9223372036854775808 is not in [0, "
             "300) of table emb");
  EXPECT_EQ (store.rows ("emb", { 1, 300 }, nullptr),
             "INVALID_ARGUMENT indices[1]: 300 is not in [0, 300) of table emb");
  EXPECT_EQ (store.apply_rows ("emb", { 1, 300 }, Floats (8, 1.0f), 4),
             "INVALID_ARGUMENT indices[1]: 300 is not in [0, 300) of table emb");
}

TEST_F (Errors, RowsOfOtherShards)
{
  TpsShard shard = hash_shard (300, 1, 3);
  int64_t elsewhere = 0;

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

TEST_F (Errors, UnknownTables)
{
  EXPECT_EQ (lookup_error (store, { "none", { 0 }, { 0 } }),
             "NOT_FOUND queries[1].table: there is no table none");
  EXPECT_EQ (store.rows ("none", { 0 }, nullptr), "NOT_FOUND table: there is no table none");
  EXPECT_EQ (store.apply_rows ("none", { 0 }, Floats (4, 1.0f), 4),
             "NOT_FOUND table: there is no table none");
  EXPECT_EQ (store.apply_bags ({ { "emb", { 0 }, { 0 } }, { "none", { 0 }, { 0 } } },
                               { Floats (4, 1.0f), Floats (4, 1.0f) }, 4),
             "NOT_FOUND gradients[1].query.table: there is no table none");
}

TEST_F (Errors, GradientsOfTheWrongShape)
{
  EXPECT_EQ (store.apply_bags ({ { "emb", { 0 }, { 0 } }, { "emb", { 0, 1 }, { 0, 1 } } },
                               { Floats (4, 1.0f), Floats (4, 1.0f) }, 4),
             "INVALID_ARGUMENT gradients[1].gradient: FLOAT32 [1, 4], expected FLOAT32 [2, 4] for "
             "table emb");
  EXPECT_EQ (store.apply_bags ({ { "emb", { 0 }, { 0 } } }, { Floats (8, 1.0f) }, 8),
             "INVALID_ARGUMENT gradients[0].gradient: FLOAT32 [1, 8], expected FLOAT32 [1, 4] for "
             "table emb");
  EXPECT_EQ (store.apply_rows ("emb", { 0 }, Floats (3, 1.0f), 3),
             "INVALID_ARGUMENT values: FLOAT32 [1, 3], expected FLOAT32 [1, 4] for table emb");
  EXPECT_EQ (store.apply_rows ("emb", { 0 }, Floats (8, 1.0f), 4),
             "INVALID_ARGUMENT values: FLOAT32 [2, 4], expected FLOAT32 [1, 4] for table emb");
}

TEST_F (Errors, GradientsOfTheWrongType)
{
  Ids ids { 0 };
  Floats values (8, 1.0f);
  GError *error = nullptr;
  TpsTensorView halves = with_shape (view (values), TPS_DTYPE_FLOAT16, { 1, 4 });
  Query query { "emb", { 0 }, { 0 } };
  TpsBagGradient gradient { query.get (), halves };

  EXPECT_FALSE (tps_table_store_apply_rows (store.get (), "emb", view (ids), halves, &error));
  EXPECT_EQ (describe (g_steal_pointer (&error)),
             "INVALID_ARGUMENT values: FLOAT16 [1, 4], expected FLOAT32 [1, 4] for table emb");
  EXPECT_FALSE (tps_table_store_apply_bags (store.get (), &gradient, 1, &error));
  EXPECT_EQ (describe (g_steal_pointer (&error)),
             "INVALID_ARGUMENT gradients[0].gradient: FLOAT16 [1, 4], expected FLOAT32 [1, 4] for "
             "table emb");
  EXPECT_FALSE (tps_table_store_apply_rows (store.get (), "emb", view (values), halves, &error));
  EXPECT_EQ (describe (g_steal_pointer (&error)),
             "INVALID_ARGUMENT indices: FLOAT32 [8], expected a vector of INT64");
}

TEST (BagQuery, NamesTheBadField)
{
  Query query { "emb", { 1, 2, 3 }, { 0, 1, 3 } };
  Floats weights (3, 1.0f);
  TpsBagQuery bad;

  EXPECT_EQ (check (query.get ()), "");
  bad = query.get ();
  bad.table = nullptr;
  EXPECT_EQ (check (bad), "INVALID_ARGUMENT q.table: missing");
  bad = query.get ();
  bad.pooling = static_cast<TpsPooling> (4);
  EXPECT_EQ (check (bad), "INVALID_ARGUMENT q.pooling: unknown pooling 4");
  bad = query.get ();
  bad.indices = with_shape (bad.indices, TPS_DTYPE_INT32, { 3 });
  EXPECT_EQ (check (bad), "INVALID_ARGUMENT q.indices: INT32 [3], expected a vector of INT64");
  bad.indices = with_shape (bad.indices, TPS_DTYPE_INT64, { 3, 1 });
  EXPECT_EQ (check (bad), "INVALID_ARGUMENT q.indices: INT64 [3, 1], expected a vector of INT64");
  bad = query.get ();
  bad.offsets = TpsTensorView {};
  EXPECT_EQ (check (bad), "INVALID_ARGUMENT q.offsets: missing, expected a vector of INT64");
}

TEST (BagQuery, NamesTheOffsetThatIsWrong)
{
  EXPECT_EQ (check (Query { "emb", { 1, 2, 3 }, { 1, 2 } }.get ()),
             "INVALID_ARGUMENT q.offsets[0]: 1, expected 0");
  EXPECT_EQ (check (Query { "emb", { 1, 2, 3 }, { 0, 2, 1 } }.get ()),
             "INVALID_ARGUMENT q.offsets[2]: 1 after 2 does not ascend");
  EXPECT_EQ (check (Query { "emb", { 1, 2, 3 }, { 0, -1 } }.get ()),
             "INVALID_ARGUMENT q.offsets[1]: -1 after 0 does not ascend");
  EXPECT_EQ (check (Query { "emb", { 1, 2, 3 }, { 0, 2, 4 } }.get ()),
             "INVALID_ARGUMENT q.offsets[2]: 4 is above the number of indices, 3");
  EXPECT_EQ (check (Query { "emb", { 1, 2, 3 }, {} }.get ()),
             "INVALID_ARGUMENT q.offsets: empty, but there are 3 indices");
  EXPECT_EQ (check (Query { "emb", { 1, 2, 3 }, { 0, 3, 3 } }.get ()), "");
}

TEST (TableStore, MaxIsRefusedByName)
{
  const char *said =
      ".pooling: servers do not pool with MAX; the C and Python clients do, and any other client "
      "must look up the rows of the bags (lookup_rows) and push gradients of the rows that hold "
      "the maxima (apply_row_gradients)";
  Query max { "emb", { 1, 2 }, { 0 }, TPS_POOLING_MAX }, sum { "emb", { 1, 2 }, { 0 } };
  Store store;

  ASSERT_EQ (store.create (Spec ("emb", 10, 4)), "");
  std::string before = store.dump ("emb", 10);
  EXPECT_EQ (store.lookup ({ sum, max }, nullptr),
             std::string ("INVALID_ARGUMENT queries[1]") + said);
  EXPECT_EQ (store.apply_bags ({ sum, max }, { Floats (4, 1), Floats (4, 1) }, 4),
             std::string ("INVALID_ARGUMENT gradients[1].query") + said);
  EXPECT_EQ (store.dump ("emb", 10), before);
}

TEST (BagQuery, WeightsGoWithSumsOnly)
{
  EXPECT_EQ (check (Query { "emb", { 1, 2 }, { 0 }, TPS_POOLING_MEAN, { 1, 2 } }.get ()),
             "INVALID_ARGUMENT q.weights: only SUM takes weights, the pooling is MEAN");
  EXPECT_EQ (check (Query { "emb", { 1, 2 }, { 0 }, TPS_POOLING_MAX, { 1, 2 } }.get ()),
             "INVALID_ARGUMENT q.weights: only SUM takes weights, the pooling is MAX");
  EXPECT_EQ (check (Query { "emb", { 1, 2 }, { 0 }, TPS_POOLING_SUM, { 1, 2, 3 } }.get ()),
             "INVALID_ARGUMENT q.weights: 3 weights for 2 indices");
  EXPECT_EQ (check (Query { "emb", { 1, 2 }, { 0 }, TPS_POOLING_SUM, { 1, 2 } }.get ()), "");
}
