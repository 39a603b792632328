/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The state of tables is a function of their commands in LSN order: random commands from many threads are recorded; another
 * store that applies the records one by one has the same bits in all rows and states. Also with --config=tsan.
 *
 *   SEEDS=10000 FIRST_SEED=1     histories, and the first one's seed (--test_env)
 */

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/server/sequencer.h"
#include "tests/runtime/fake_device/fake_device.h"
#include "tests/runtime/server/tables/recorded_command.h"
#include "tests/runtime/server/tables/table_state.h"

using namespace embedding_test;

namespace {

using Random = std::mt19937_64;

constexpr int64_t kRows = 24;
const char *const kNames[] = { "a", "b", "c", "d" };

TpsDevice *
find_device (const gchar *, GError **)
{
  return tps_fake_device_get (0);
}

unsigned long
number_of (const char *variable, unsigned long otherwise)
{
  const char *text = getenv (variable);

  return text != nullptr ? strtoul (text, nullptr, 10) : otherwise;
}

/* Sums of these depend on their order. */
Floats
rough_floats (Random &random, size_t n)
{
  Floats values (n);

  for (float &value : values)
    value = static_cast<float> (random () % 100000) / 7777.0f - 6.0f;
  return values;
}

/* Every name has one dim and one shard for a history, so that pushes mostly fit, and changes everything else. */
class Plan
{
public:
  explicit Plan (Random &random)
  {
    for (const char *name : kNames)
      {
        dims[name] = static_cast<int32_t> (1 + random () % 33);
        switch (random () % 3)
          {
          case 0:
            shards[name] = whole (kRows);
            break;
          case 1:
            shards[name] = range_shard (kRows, 1, 3);
            break;
          default:
            shards[name] = hash_shard (kRows, 0, 2);
            break;
          }
        for (int64_t row = 0; row < kRows; row++)
          if (is_here (name, row))
            rows[name].push_back (row);
      }
  }

  Spec
  draw_spec (Random &random, const std::string &name)
  {
    static const TpsOptimizerKind kinds[] = { TPS_OPTIMIZER_SGD, TPS_OPTIMIZER_ADAGRAD,
                                              TPS_OPTIMIZER_ROWWISE_ADAGRAD, TPS_OPTIMIZER_ADAM,
                                              TPS_OPTIMIZER_FTRL };
    static const TpsDType dtypes[] = { TPS_DTYPE_FLOAT32, TPS_DTYPE_FLOAT32, TPS_DTYPE_FLOAT16,
                                       TPS_DTYPE_BFLOAT16 };
    Spec spec = spec_of (name, kRows, dims[name], kinds[random () % 5]);

    spec.shard (shards[name]);
    if (random () % 4 == 0)
      spec.on ("fake:0");
    else
      spec.dtype (dtypes[random () % 4]);
    return spec;
  }

  /* Two of them are hot. */
  int64_t
  draw_row (Random &random, const std::string &name)
  {
    const Ids &here = rows[name];

    return here[random ()
                % (random () % 2 == 0 ? std::min<size_t> (2, here.size ()) : here.size ())];
  }

  Query
  draw_query (Random &random, const std::string &name)
  {
    TpsPooling pooling = static_cast<TpsPooling> (1 + random () % 3);
    Query query = random_query (random, name, kRows, 4, 5, pooling,
                                pooling == TPS_POOLING_SUM && random () % 2 == 0);

    for (int64_t &id : query.indices)
      id = draw_row (random, name);
    return query;
  }

  std::map<std::string, int32_t> dims;
  std::map<std::string, Ids> rows;

private:
  bool
  is_here (const std::string &name, int64_t row)
  {
    const TpsShard &shard = shards[name];

    return shard.kind == TPS_SHARD_HASH
               ? tps_shard_get_slot (&shard, row) >= 0
               : row >= shard.first_row && row < shard.first_row + shard.n_rows;
  }

  std::map<std::string, TpsShard> shards;
};

/* A store, its sequencer and what its observer was handed. */
class Server
{
public:
  explicit Server (unsigned n_workers)
  {
    TpsTableStoreOptions options {};
    TpsSequencerOptions ordering {};

    workers = n_workers > 0 ? tps_worker_pool_new ("tables", n_workers) : nullptr;
    ordering.workers = workers;
    ordering.user_data = this;
    ordering.observe = [] (gpointer self, TpsOrdered *ordered) {
      static_cast<Server *> (self)->records.emplace_back (new RecordedCommand (ordered->command));
      tps_ordered_release (ordered, nullptr);
    };
    sequencer = tps_sequencer_new (&ordering);
    options.max_bytes = 64 << 20;
    options.sequencer = sequencer;
    options.workers = workers;
    options.find_device = find_device;
    store = tps_table_store_new (&options);
  }

  ~Server ()
  {
    if (workers != nullptr)
      tps_worker_pool_free (workers);
    tps_table_store_free (store);
    tps_sequencer_free (sequencer);
  }

  std::vector<std::string>
  list ()
  {
    g_autoptr (GArray) specs = tps_table_store_list (store);
    std::vector<std::string> names;

    for (guint i = 0; i < specs->len; i++)
      names.push_back (g_array_index (specs, TpsTableSpec, i).name);
    return names;
  }

  std::string
  rows_of (const std::string &name, const Ids &ids)
  {
    g_auto (TpsTensor) rows = {};

    EXPECT_TRUE (tps_table_store_lookup_rows (store, name.c_str (), view (ids), &rows, nullptr));
    return std::string (static_cast<const char *> (tps_tensor_data (&rows)),
                        tps_shape_n_bytes (&rows.shape));
  }

  std::string
  state_of (const std::string &name)
  {
    gsize n_bytes;
    gint64 n_steps;
    g_autofree char *state = static_cast<char *> (
        tps_test_dup_table_state (store, name.c_str (), &n_bytes, &n_steps));

    return std::to_string (n_steps) + " steps, "
           + (state != nullptr ? std::string (state, n_bytes) : "");
  }

  /* Changes every row by what its state says. */
  void
  probe (const std::string &name, const Ids &ids, int32_t dim)
  {
    Floats values (ids.size () * static_cast<size_t> (dim), 0.375f);

    EXPECT_TRUE (
        tps_table_store_apply_rows (store, name.c_str (), view (ids), view (values, dim), nullptr));
  }

  TpsWorkerPool *workers;
  TpsSequencer *sequencer;
  TpsTableStore *store;
  std::vector<std::unique_ptr<RecordedCommand>> records; /* one at a time */
};

/* One thread's calls. Errors that other threads cause are expected: no table of the name, other sizes. */
class Caller
{
public:
  Caller (Server &server, Plan &plan, uint64_t seed, int number)
      : server_ (server), plan_ (plan), random_ (seed), number_ (number)
  {
  }

  void
  run (int n_calls)
  {
    for (int i = 0; i < n_calls; i++)
      switch (random_ () % 20)
        {
        case 0:
          create ();
          break;
        case 1:
          if (random_ () % 2 == 0)
            tps_table_store_drop (server_.store, draw_name ().c_str (), nullptr);
          break;
        case 2:
          look_up ();
          break;
        default:
          if (random_ () % 2 == 0)
            push_rows ();
          else
            push_bags ();
          break;
        }
  }

private:
  std::string
  draw_name ()
  {
    return kNames[random_ () % 4];
  }

  void
  create ()
  {
    Spec spec = plan_.draw_spec (random_, draw_name ());

    tps_table_store_create (server_.store, &spec.value, nullptr);
  }

  void
  look_up ()
  {
    std::string name = draw_name ();
    Query query = plan_.draw_query (random_, name);
    TpsBagQuery asked = query.get ();
    TpsTensor output {};

    if (tps_table_store_lookup_bags (server_.store, &asked, 1, &output, nullptr))
      tps_tensor_clear (&output);
  }

  /* Sometimes twice, as by a client that has heard nothing. */
  void
  push (TpsTablePush *push)
  {
    std::string client = "client" + std::to_string (number_);

    push->may_wait = TRUE;
    push->is_small = random_ () % 2 == 0;
    if (random_ () % 3 == 0)
      {
        push->client = client.c_str ();
        push->sequence = ++sequence_;
      }
    tps_table_store_push_and_wait (server_.store, push, nullptr);
    if (push->client != nullptr && random_ () % 2 == 0)
      tps_table_store_push_and_wait (server_.store, push, nullptr);
  }

  void
  push_rows ()
  {
    std::string name = draw_name ();
    size_t n = random_ () % 60;
    Ids ids (n);
    Floats values = rough_floats (random_, n * static_cast<size_t> (plan_.dims[name]));
    TpsTablePush request {};

    for (int64_t &id : ids)
      id = plan_.draw_row (random_, name);
    request.table = name.c_str ();
    request.indices = view (ids);
    request.values = view (values, plan_.dims[name]);
    push (&request);
  }

  void
  push_bags ()
  {
    size_t n = 1 + random_ () % 4;
    std::vector<Query> queries;
    std::vector<Floats> values;
    std::vector<TpsBagGradient> gradients;
    TpsTablePush request {};

    for (size_t i = 0; i < n; i++)
      {
        std::string name = draw_name ();

        queries.push_back (plan_.draw_query (random_, name));
        values.push_back (
            rough_floats (random_, queries[i].n_bags () * static_cast<size_t> (plan_.dims[name])));
      }
    for (size_t i = 0; i < n; i++)
      gradients.push_back ({ queries[i].get (), view (values[i], plan_.dims[queries[i].table]) });
    request.gradients = gradients.data ();
    request.n_gradients = static_cast<guint> (n);
    push (&request);
  }

  Server &server_;
  Plan &plan_;
  Random random_;
  int number_;
  gint64 sequence_ = 0;
};

void
check_lsns (const Server &server)
{
  gint64 lsn = 0;

  for (const auto &record : server.records)
    ASSERT_EQ (record->command.lsn, ++lsn);
  ASSERT_EQ (tps_sequencer_get_lsn (server.sequencer), lsn);
}

void
replay (const Server &from, Server &to)
{
  for (const auto &record : from.records)
    {
      GError *error = nullptr;

      ASSERT_TRUE (tps_table_store_replay (to.store, &record->command, &error))
          << "lsn " << record->command.lsn << ": " << describe (error);
      ASSERT_EQ (tps_sequencer_get_lsn (to.sequencer), record->command.lsn);
    }
}

void
compare (Server &one, Server &other, Plan &plan)
{
  ASSERT_EQ (one.list (), other.list ());
  for (const std::string &name : one.list ())
    for (int i = 0; i < 3; i++)
      {
        ASSERT_TRUE (one.rows_of (name, plan.rows[name]) == other.rows_of (name, plan.rows[name]))
            << "rows of table " << name << " after " << i << " probes";
        ASSERT_TRUE (one.state_of (name) == other.state_of (name)) << "state of table " << name;
        one.probe (name, plan.rows[name], plan.dims[name]);
        other.probe (name, plan.rows[name], plan.dims[name]);
      }
}

void
run_history (uint64_t seed)
{
  Random random (seed);
  Plan plan (random);
  Server server (static_cast<unsigned> (random () % 4)), other (0);
  std::vector<std::thread> threads;
  int n_threads = 2 + static_cast<int> (random () % 5);

  for (const char *name : kNames)
    {
      Spec spec = plan.draw_spec (random, name);

      ASSERT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
    }
  for (int i = 0; i < n_threads; i++)
    threads.emplace_back ([&server, &plan, seed, i] {
      Plan mine (plan);
      Caller (server, mine, seed * 100 + static_cast<uint64_t> (i), i).run (30);
    });
  for (std::thread &thread : threads)
    thread.join ();
  check_lsns (server);
  replay (server, other);
  compare (server, other, plan);
}

} // namespace

TEST (Replay, HasTheSameBits)
{
  unsigned long first = number_of ("FIRST_SEED", 1);

  for (unsigned long seed = first; seed < first + number_of ("SEEDS", 150); seed++)
    {
      run_history (seed);
      ASSERT_FALSE (HasFailure ()) << "FIRST_SEED=" << seed;
    }
}

/* A record says which rows were the maxima: a replay does not look at rows for them. */
TEST (Replay, TakesTheMaximaOfTheRecord)
{
  Server server (0), other (0);
  Query query { "emb", { 0, 1 }, { 0 }, TPS_POOLING_MAX };
  Floats gradient { 1, 1 };
  TpsBagGradient push = { query.get (), view (gradient, 2) };
  Spec spec = Spec ("emb", 2, 2).zeros ().optimizer (TPS_OPTIMIZER_SGD, 1);
  Floats ahead { 100, 100 };

  ASSERT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
  ASSERT_TRUE (tps_table_store_apply_bags (server.store, &push, 1, nullptr));
  ASSERT_TRUE (tps_table_store_replay (other.store, &server.records[0]->command, nullptr));
  ASSERT_TRUE (tps_table_store_apply_rows (other.store, "emb", view (Ids { 0 }), view (ahead, 2),
                                           nullptr)); /* row 1 is the larger one now */
  ASSERT_TRUE (tps_table_store_replay (other.store, &server.records[1]->command, nullptr));
  EXPECT_EQ (to_floats (other.rows_of ("emb", { 0, 1 }), TPS_DTYPE_FLOAT32),
             (Floats { -101, -101, 0, 0 }));
}

TEST (Replay, RefusesMaximaThatAreNoSlots)
{
  Server server (0), other (0);
  Query query { "emb", { 0, 1 }, { 0 }, TPS_POOLING_MAX };
  Floats gradient { 1, 1 };
  TpsBagGradient push = { query.get (), view (gradient, 2) };
  Spec spec = Spec ("emb", 2, 2);
  const gint64 wrong[] = { 0, 2 };
  const gint64 *maxima[] = { wrong };
  g_autoptr (GError) error = nullptr;

  ASSERT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
  ASSERT_TRUE (tps_table_store_create (other.store, &spec.value, nullptr));
  ASSERT_TRUE (tps_table_store_apply_bags (server.store, &push, 1, nullptr));
  server.records[1]->command.bags.maxima = maxima;
  EXPECT_FALSE (tps_table_store_replay (other.store, &server.records[1]->command, &error));
  EXPECT_STREQ (error->message, "maxima[0][1]: slot 2 is not in [-1, 2) of table emb");
}

/* A push whose device fails has an LSN, and a record that says what it left undone. */
TEST (Replay, LeavesOutWhatAFailedDeviceLeftOut)
{
  Server server (0), other (0);
  Query host_query { "host", { 1 }, { 0 } }, device_query { "dev", { 1 }, { 0 } };
  Floats gradient { 1, 1 };
  TpsBagGradient push[] = { { host_query.get (), view (gradient, 2) },
                            { device_query.get (), view (gradient, 2) } };
  Spec host = spec_of ("host", 2, 2, TPS_OPTIMIZER_ADAM);
  Spec device = spec_of ("dev", 2, 2, TPS_OPTIMIZER_ADAM).on ("fake:0");
  TpsTablePush request {};
  Random random (1);
  Plan plan (random);

  plan.dims = { { "host", 2 }, { "dev", 2 } };
  plan.rows = { { "host", { 0, 1 } }, { "dev", { 0, 1 } } };
  request.client = "c";
  request.sequence = 1;
  request.may_wait = TRUE;
  request.gradients = push;
  request.n_gradients = 2;
  ASSERT_TRUE (tps_table_store_create (server.store, &host.value, nullptr));
  ASSERT_TRUE (tps_table_store_create (server.store, &device.value, nullptr));
  ASSERT_TRUE (tps_table_store_apply_bags (server.store, push, 2, nullptr));
  tps_fake_device_set_lost (tps_fake_device_get (0), TRUE);
  EXPECT_FALSE (tps_table_store_push_and_wait (server.store, &request, nullptr));
  tps_fake_device_set_lost (tps_fake_device_get (0), FALSE);
  tps_table_store_push_and_wait (server.store, &request, nullptr); /* may meet the old stream */
  EXPECT_TRUE (tps_table_store_push_and_wait (server.store, &request, nullptr));
  check_lsns (server);
  ASSERT_GE (server.records.size (), 5u);
  EXPECT_TRUE (server.records[3]->command.has_failed);
  EXPECT_TRUE (server.records[3]->command.tables[0].is_skipped);
  EXPECT_TRUE (server.records[3]->command.tables[1].is_skipped);
  EXPECT_FALSE (server.records.back ()->command.has_failed);
  replay (server, other);
  compare (server, other, plan);
}
