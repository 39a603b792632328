/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tables on devices, compared with the same tables on the host. Their bits must be equal after
 * every step. The devices are the CPU through its table of operations, a strict fake device, and
 * the devices of this machine (tests/cuda). */

#include <algorithm>
#include <cstring>

#include "tests/float16/float16.h"
#include "tests/runtime/server/tables/tables.h"
#include "tests/runtime/fake_device/fake_device.h"

using namespace embedding_test;

namespace {

const TpsOptimizerKind kinds[] = { TPS_OPTIMIZER_SGD, TPS_OPTIMIZER_ADAGRAD,
                                   TPS_OPTIMIZER_ROWWISE_ADAGRAD, TPS_OPTIMIZER_ADAM,
                                   TPS_OPTIMIZER_FTRL };
const TpsPooling poolings[] = { TPS_POOLING_SUM, TPS_POOLING_MEAN };

struct Type
{
  TpsDType dtype;
  TpsRounding rounding;
};

const Type types[] = { { TPS_DTYPE_FLOAT32, TPS_ROUNDING_NEAREST },
                       { TPS_DTYPE_FLOAT16, TPS_ROUNDING_NEAREST },
                       { TPS_DTYPE_FLOAT16, TPS_ROUNDING_STOCHASTIC },
                       { TPS_DTYPE_BFLOAT16, TPS_ROUNDING_NEAREST },
                       { TPS_DTYPE_BFLOAT16, TPS_ROUNDING_STOCHASTIC } };

/* Finds "fake:0" and "fake:1", and "ops", which is the CPU through its table of operations. */
TpsDevice *
find_device (const gchar *name, GError **error)
{
  if (g_str_equal (name, "ops"))
    return tps_device_find ("cpu", error);
  if (g_str_equal (name, "fake:0") || g_str_equal (name, "fake:1"))
    return tps_fake_device_get (name[5] == '1' ? 1 : 0);
  return tps_device_find (name, error);
}

struct Place
{
  const char *device;
  bool is_host_memory;
};

const Place fake_place { "fake:0", false };

/* Returns the fake places and those on the devices of this machine. */
std::vector<Place>
all_places ()
{
  std::vector<Place> places { { "ops", false }, fake_place, { "fake:0", true } };
  g_autofree TpsDevice **devices = tps_device_list ();

  for (guint i = 1; devices[i] != nullptr; i++)
    for (bool is_host_memory : { false, true })
      places.push_back ({ devices[i]->name, is_host_memory });
  return places;
}

const std::vector<Place> places = all_places ();

Ids
random_ids (std::mt19937_64 &random, size_t n, int64_t rows)
{
  Ids ids (n);

  for (int64_t &id : ids)
    id = static_cast<int64_t> (random () % static_cast<uint64_t> (rows));
  return ids;
}

bool
same_bits (const std::vector<Floats> &a, const std::vector<Floats> &b)
{
  if (a.size () != b.size ())
    return false;
  for (size_t i = 0; i < a.size (); i++)
    if (a[i].size () != b[i].size ()
        || (!a[i].empty () && memcmp (a[i].data (), b[i].data (), a[i].size () * sizeof (float))))
      return false;
  return true;
}

/* Two stores that receive the same calls. */
class Twins
{
public:
  explicit Twins (unsigned n_workers = 0)
      : host (n_workers), device (n_workers, Devices { find_device })
  {
  }

  void
  create (const Spec &spec, const Place &place)
  {
    ASSERT_EQ (host.create (spec), "");
    ASSERT_EQ (device.create (Spec (spec).on (place.device, place.is_host_memory)), "");
  }

  /* Pushes several gradients, some of them to the same table. */
  void
  push_bags (std::mt19937_64 &random, const std::vector<std::string> &names, int64_t rows,
             size_t dim)
  {
    std::vector<Query> queries;
    std::vector<Floats> gradients;

    for (const std::string &name : names)
      {
        TpsPooling pooling = poolings[random () % 2];
        bool weighted = pooling == TPS_POOLING_SUM && random () % 2 == 0;

        queries.push_back (random_query (random, name, rows, 12, 9, pooling, weighted));
        gradients.push_back (random_floats (random, queries.back ().n_bags () * dim));
      }
    ASSERT_EQ (host.apply_bags (queries, gradients, static_cast<int64_t> (dim)), "");
    ASSERT_EQ (device.apply_bags (queries, gradients, static_cast<int64_t> (dim)), "");
  }

  void
  push_rows (std::mt19937_64 &random, const std::string &name, int64_t rows, size_t dim)
  {
    Ids ids = random_ids (random, random () % 60, rows);
    Floats gradient = random_floats (random, ids.size () * dim);

    ASSERT_EQ (host.apply_rows (name, ids, gradient, static_cast<int64_t> (dim)), "");
    ASSERT_EQ (device.apply_rows (name, ids, gradient, static_cast<int64_t> (dim)), "");
  }

  void
  expect_same_rows (const std::string &name, int64_t rows)
  {
    ASSERT_EQ (host.dump (name, rows), device.dump (name, rows)) << name;
  }

  void
  expect_same_bags (const std::vector<Query> &queries)
  {
    std::vector<Floats> expected, got;

    ASSERT_EQ (host.lookup (queries, &expected), "");
    ASSERT_EQ (device.lookup (queries, &got), "");
    ASSERT_TRUE (same_bits (got, expected));
  }

  Store host, device;
};

} // namespace

TEST (DeviceTables, HaveTheBitsOfTheHostsForEveryOptimizer)
{
  constexpr int64_t rows = 40;
  constexpr size_t dim = 7;

  for (const Place &place : places)
    for (TpsOptimizerKind kind : kinds)
      for (const Type &type : types)
        {
          std::mt19937_64 random (1);
          Twins twins;

          twins.create (spec_of ("emb", rows, dim, kind).dtype (type.dtype, type.rounding), place);
          twins.expect_same_rows ("emb", rows);
          for (int step = 0; step < 12; step++)
            {
              if (step % 3 == 0)
                twins.push_rows (random, "emb", rows, dim);
              else
                twins.push_bags (random, { "emb" }, rows, dim);
              twins.expect_same_rows ("emb", rows);
              ASSERT_FALSE (HasFatalFailure ())
                  << place.device << " " << tps_optimizer_kind_name (kind) << " "
                  << tps_dtype_name (type.dtype) << " " << tps_rounding_name (type.rounding)
                  << " step " << step;
            }
        }
}

/* A gradient of rows may have the type of the table. */
TEST (DeviceTables, TakeGradientsOfTheirType)
{
  constexpr int64_t rows = 20;
  constexpr gint64 dim = 6;

  for (const Place &place : places)
    for (TpsDType dtype : { TPS_DTYPE_FLOAT16, TPS_DTYPE_BFLOAT16 })
      {
        std::mt19937_64 random (11);
        Twins twins;

        twins.create (
            spec_of ("emb", rows, dim, TPS_OPTIMIZER_ADAM).dtype (dtype, TPS_ROUNDING_STOCHASTIC),
            place);
        for (int step = 0; step < 6; step++)
          {
            Ids ids = random_ids (random, random () % 70, rows);
            std::vector<guint16> halves;
            TpsTensorView values = { { dtype, 2, { static_cast<gint64> (ids.size ()), dim } },
                                     nullptr };

            for (float value : random_floats (random, ids.size () * dim))
              halves.push_back (dtype == TPS_DTYPE_FLOAT16 ? tps_float16_from_float (value)
                                                           : tps_bfloat16_from_float (value));
            values.data = halves.data ();
            for (Store *store : { &twins.host, &twins.device })
              ASSERT_TRUE (
                  tps_table_store_apply_rows (store->get (), "emb", view (ids), values, nullptr));
            twins.expect_same_rows ("emb", rows);
          }
        ASSERT_FALSE (HasFatalFailure ()) << place.device;
      }
}

TEST (DeviceTables, PoolRandomBagsAsTheHostDoes)
{
  std::mt19937_64 random (2);

  for (const Place &place : places)
    for (int32_t dim : { 1, 3, 16, 64, 130 })
      {
        Twins twins (2);

        twins.create (Spec ("emb", 50, dim).uniform (-2, 2, dim).dtype (types[dim % 5].dtype),
                      place);
        for (TpsPooling pooling : poolings)
          for (int round = 0; round < 6; round++)
            twins.expect_same_bags (
                { random_query (random, "emb", 50, 20, 30, pooling,
                                pooling == TPS_POOLING_SUM && round % 2 == 1) });
        twins.expect_same_bags ({ { "emb", {}, {} }, { "emb", {}, { 0, 0 } } });
        for (TpsPooling pooling : poolings) /* each index is a bag of its own */
          twins.expect_same_bags ({ { "emb", { 7, 1, 7, 49, 0 }, { 0, 1, 2, 3, 4 }, pooling } });
        twins.expect_same_bags (
            { { "emb", { 3, 4, 3 }, { 0, 1, 2 }, TPS_POOLING_SUM, { 0.5f, -1.5f, 3.0f } } });
        ASSERT_FALSE (HasFatalFailure ()) << place.device << " dim " << dim;
      }
}

/* Contributions to a row must be added in the order of the list, for any mix of poolings. */
TEST (DeviceTables, SeveralGradientsOfATableAreOneStep)
{
  constexpr int64_t rows = 9;
  constexpr size_t dim = 5;

  for (const Place &place : places)
    for (TpsOptimizerKind kind : { TPS_OPTIMIZER_SGD, TPS_OPTIMIZER_ADAM })
      {
        std::mt19937_64 random (3);
        Twins twins (1);

        twins.create (
            spec_of ("a", rows, dim, kind).dtype (TPS_DTYPE_FLOAT16, TPS_ROUNDING_STOCHASTIC),
            place);
        twins.create (spec_of ("b", rows, dim, kind), place);
        for (int step = 0; step < 15; step++)
          twins.push_bags (random, { "a", "b", "a", "a", "b" }, rows, dim);
        twins.expect_same_rows ("a", rows);
        twins.expect_same_rows ("b", rows);
        ASSERT_FALSE (HasFatalFailure ()) << place.device;
      }
}

/* Tries numbers of contributions on both sides of the threshold from which threads share a row. */
TEST (DeviceTables, HotRowsHaveTheBitsOfTheHostsWithAnyNumberOfThreads)
{
  constexpr int64_t rows = 300;
  const size_t lengths[] = { 2047, 2048, 2049, 1, 33, 3072, 9000 };

  for (size_t dim : { 64, 600, 1025 }) /* few elements are a step of one thread; 1025: wide rows */
    for (unsigned n_workers : { 0, 3 })
      for (bool weighted : { false, true })
        {
          std::mt19937_64 random (4);
          Twins twins (n_workers);
          Query query { "emb", {}, {}, weighted ? TPS_POOLING_SUM : TPS_POOLING_MEAN };

          twins.create (spec_of ("emb", rows, static_cast<int32_t> (dim), TPS_OPTIMIZER_SGD),
                        { "ops", false });
          for (size_t id = 0; id < std::size (lengths); id++)
            query.indices.insert (query.indices.end (), lengths[id], static_cast<int64_t> (7 * id));
          for (int64_t id = 0; id < rows; id++)
            query.indices.push_back (id);
          std::shuffle (query.indices.begin (), query.indices.end (), random);
          for (size_t i = 0; i < query.indices.size (); i += 1 + random () % 4)
            query.offsets.push_back (static_cast<int64_t> (i));
          if (weighted)
            query.weights = random_floats (random, query.indices.size ());
          Floats gradient = random_floats (random, query.n_bags () * dim);
          for (Store *store : { &twins.host, &twins.device })
            ASSERT_EQ (store->apply_bags ({ query }, { gradient }, static_cast<int64_t> (dim)), "");
          twins.expect_same_rows ("emb", rows);
        }
}

TEST (DeviceTables, AndOthersInOneCall)
{
  constexpr int64_t rows = 30;
  constexpr size_t dim = 6;
  const Place mixed[] = {
    { "cpu", false }, { "fake:0", false }, { "fake:1", false }, { "cpu", false }, { "fake:1", true }
  };
  std::mt19937_64 random (4);
  Twins twins (2);
  std::vector<std::string> names;
  std::vector<Query> queries;

  for (const Place &place : mixed)
    {
      names.push_back ("t" + std::to_string (names.size ()));
      twins.create (spec_of (names.back (), rows, dim, TPS_OPTIMIZER_ADAGRAD), place);
    }
  for (int step = 0; step < 5; step++)
    twins.push_bags (random, { names[2], names[0], names[4], names[1], names[3], names[0] }, rows,
                     dim);
  for (int i = 0; i < 12; i++)
    queries.push_back (random_query (random, names[random () % names.size ()], rows, 40, 20,
                                     poolings[i % 2], false));
  queries.push_back ({ names[1], {}, {} });
  twins.expect_same_bags (queries);
  for (const std::string &name : names)
    twins.expect_same_rows (name, rows);
}

TEST (DeviceTables, HoldAnyShard)
{
  constexpr int64_t rows = 101;
  const TpsShard shards[] = { range_shard (rows, 1, 3), hash_shard (rows, 2, 4) };

  for (const Place &place : places)
    for (const TpsShard &shard : shards)
      {
        std::mt19937_64 random (5);
        Twins twins;
        const Ids ids = ids_of (shard);
        std::string expected, got;

        twins.create (spec_of ("emb", rows, 4, TPS_OPTIMIZER_ADAM)
                          .shard (shard)
                          .dtype (TPS_DTYPE_BFLOAT16, TPS_ROUNDING_STOCHASTIC),
                      place);
        for (int step = 0; step < 3; step++)
          {
            Floats gradient = random_floats (random, ids.size () * 4);

            ASSERT_EQ (twins.host.apply_rows ("emb", ids, gradient, 4), "");
            ASSERT_EQ (twins.device.apply_rows ("emb", ids, gradient, 4), "");
          }
        ASSERT_EQ (twins.host.rows ("emb", ids, &expected), "");
        ASSERT_EQ (twins.device.rows ("emb", ids, &got), "");
        EXPECT_EQ (got, expected) << place.device;
        EXPECT_EQ (twins.device.rows ("emb", { 0 }, nullptr),
                   twins.host.rows ("emb", { 0 }, nullptr));
      }
}

TEST (DeviceTables, FirstRowsHaveTheBitsOfTheHosts)
{
  for (const Place &place : places)
    for (int kind = TPS_INITIALIZER_ZEROS; kind <= TPS_INITIALIZER_NORMAL; kind++)
      {
        /* Enough rows for several blocks, some of which are in flight at the same time. */
        int64_t rows = kind == TPS_INITIALIZER_UNIFORM && !place.is_host_memory ? 64000 : 300;
        Twins twins (2);
        Spec spec ("emb", rows, 33);

        spec.value.initializer.kind = static_cast<TpsInitializerKind> (kind);
        spec.value.initializer.seed = kind == TPS_INITIALIZER_ZEROS ? 0 : 8;
        spec.dtype (types[kind].dtype);
        twins.create (spec, place);
        twins.expect_same_rows ("emb", rows);
      }
}

/* Each lookup exceeds one step of the device: one has many bags, and another has a bag that is too
 * large by itself. */
TEST (DeviceTables, AnswerLookupsOfAnySize)
{
  constexpr int64_t rows = 1000;
  std::mt19937_64 random (6);
  Twins twins (1);

  twins.create (Spec ("wide", rows, 256).normal (1), fake_place);
  twins.create (Spec ("thin", rows, 2).normal (2), fake_place);
  twins.create (Spec ("half", rows, 256).normal (3).dtype (TPS_DTYPE_BFLOAT16), fake_place);
  Query many { "wide", random_ids (random, 40000, rows), Ids (34000) };
  Query long_one { "thin", random_ids (random, 2900000, rows), { 0, 5, 2890000 } };
  for (size_t bag = 0; bag < many.offsets.size (); bag++)
    many.offsets[bag] = static_cast<int64_t> (bag + bag / 7);
  long_one.weights = Floats (long_one.indices.size (), 0.5f);
  Query few { "thin", { 1, 2, 3 }, { 0, 2 } };
  twins.expect_same_bags ({ few, many, few, long_one, few });

  /* Lookups of rows: several passes, and outputs that are copied one by one. */
  for (size_t n : { size_t { 100 }, size_t { 50000 } })
    {
      Ids ids = random_ids (random, n, rows);
      std::string expected, got;

      ASSERT_EQ (twins.host.rows ("half", ids, &expected), "");
      ASSERT_EQ (twins.device.rows ("half", ids, &got), "");
      ASSERT_TRUE (got == expected) << n;
    }
}

TEST (DeviceTables, EmptyPushesCountAsSteps)
{
  for (const Place &place : places)
    {
      Twins twins;

      twins.create (spec_of ("emb", 4, 2, TPS_OPTIMIZER_ADAM), place);
      for (Store *store : { &twins.host, &twins.device })
        {
          EXPECT_EQ (store->apply_rows ("emb", { 1 }, { 1, 2 }, 2), "");
          EXPECT_EQ (store->apply_rows ("emb", {}, {}, 2), "");
          EXPECT_EQ (store->apply_bags ({ { "emb", {}, { 0, 0 }, TPS_POOLING_MEAN } },
                                        { { 1, 2, 3, 4 } }, 2),
                     "");
          EXPECT_EQ (
              store->apply_bags ({ { "emb", {}, {} }, { "emb", {}, { 0 } } }, { {}, { 1, 2 } }, 2),
              "");
          EXPECT_EQ (store->apply_rows ("emb", { 1, 1 }, { 1, 2, 3, 4 }, 2), "");
        }
      twins.expect_same_rows ("emb", 4);
    }
}

/* -- listings and counters -- */

/* A tenant's limit counts its tables on devices as well as its tables in host memory. Device memory
 * is not charged to the host's budget of tables, but page-locked host memory is. */
TEST (DeviceTables, AreChargedToTheirTenants)
{
  g_autoptr (TpsBudgets) budgets = tps_budgets_new (nullptr);
  TpsQuotasOptions quotas_options = {};
  TpsTenantEntry entry = { "ads", {} };
  TpsTableStoreOptions options = {};
  constexpr size_t kBytes = 1000 * 4 * sizeof (float);

  quotas_options.tenants.tables = budgets->tables;
  g_autoptr (TpsQuotas) quotas = tps_quotas_new (&quotas_options);
  TpsTenant *ads = tps_quotas_find (quotas, "ads");
  entry.limits.table_bytes = 5 * kBytes / 2;
  tps_quotas_set_limits (quotas, &entry, 1);
  tps_quotas_enforce_table_bytes (quotas);
  options.budgets = budgets;
  options.quotas = quotas;
  options.find_device = find_device;
  auto held = [&] {
    TpsTenantStatus status;
    tps_tenant_get_status (ads, &status);
    return status.n_table_bytes;
  };
  auto of_tenant = [] (const char *name) {
    Spec spec (name, 1000, 4);
    spec.value.tenant = g_strdup ("ads");
    return spec;
  };
  {
    Store store (options);

    EXPECT_EQ (store.create (of_tenant ("device").on ("fake:0")), "");
    EXPECT_GE (held (), kBytes);
    EXPECT_LT (tps_budget_get_held (budgets->tables), kBytes) << "the object alone";
    EXPECT_EQ (store.create (of_tenant ("locked").on ("fake:0", true)), "");
    EXPECT_GE (held (), 2 * kBytes);
    EXPECT_GE (tps_budget_get_held (budgets->tables), kBytes);
    const size_t before = held ();
    const size_t on_devices = tps_budget_get_held ((store.get ())->device_budget);
    for (const char *device : { "fake:1", "cpu" })
      {
        std::string refused = store.create (of_tenant ("more").on (device));
        EXPECT_NE (refused.find ("RESOURCE_EXHAUSTED"), std::string::npos) << refused;
        EXPECT_NE (refused.find ("tables of tenant ads"), std::string::npos) << refused;
        EXPECT_NE (refused.find ("see table_bytes"), std::string::npos) << refused;
      }
    EXPECT_EQ (held (), before) << "a refused table is not charged";
    EXPECT_EQ (tps_budget_get_held ((store.get ())->device_budget), on_devices);
    EXPECT_EQ (store.create (Spec ("unlimited", 1000, 4).on ("fake:1")), "");
    EXPECT_EQ (held (), before);
    EXPECT_EQ (store.drop ("device"), "");
    EXPECT_EQ (store.create (of_tenant ("more").on ("fake:1")), "");
    EXPECT_EQ (store.drop ("locked"), "");
  }
  EXPECT_EQ (held (), 0u);
}
