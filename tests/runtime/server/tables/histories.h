/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Histories: random commands from several threads on the tables of one store, and the records that
 * the observer of the store received. */

#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/machine/tuning.h"
#include "runtime/server/sequencer.h"
#include "tests/runtime/fake_device/fake_device.h"
#include "tests/runtime/server/log/commands.h"
#include "tests/runtime/server/tables/table_state.h"
#include "tests/runtime/server/tables/tables.h"

namespace embedding_test {

using Random = std::mt19937_64;

constexpr int64_t kRows = 24;
inline const char *const kNames[] = { "a", "b", "c", "d" };

inline TpsDevice *
find_fake_device (const gchar *name, GError **)
{
  return tps_fake_device_get (g_str_equal (name, "fake:1") ? 1 : 0);
}

inline unsigned long
number_of (const char *variable, unsigned long otherwise)
{
  const char *text = getenv (variable);

  return text != nullptr ? strtoul (text, nullptr, 10) : otherwise;
}

/* If `cuts`, small pushes and lookups are cut into parts for several threads from now on, as large
 * ones are. No thread may use a store during the call. */
inline void
cut_small_calls (bool cuts)
{
  static const TpsTuning *usual = tps_tuning_get ();
  static const TpsTuning small = [] {
    TpsTuning tuning = *tps_tuning_get ();

    tuning.wake_bytes = tuning.part_bytes = tuning.short_step_bytes = tuning.inline_bytes = 256;
    tuning.max_helpers = 3;
    return tuning;
  }();

  __atomic_store_n (&tps_tuning_chosen, cuts ? &small : usual, __ATOMIC_RELEASE);
}

/* Returns values whose sum depends on the order of the additions. */
inline Floats
rough_floats (Random &random, size_t n)
{
  Floats values (n);

  for (float &value : values)
    value = static_cast<float> (random () % 100000) / 7777.0f - 6.0f;
  return values;
}

/* The tables of a history. Every name has one dim and one shard, so that most pushes fit.
 * Everything else varies. */
class Plan
{
public:
  explicit Plan (Random &random, bool has_devices = true) : has_devices_ (has_devices)
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
        rows[name] = ids_of (shards[name]);
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

    TpsDType dtype = dtypes[random () % 4];

    spec.shard (shards[name]);
    spec.dtype (dtype, dtype != TPS_DTYPE_FLOAT32 && random () % 2 == 0 ? TPS_ROUNDING_STOCHASTIC
                                                                        : TPS_ROUNDING_NEAREST);
    if (random () % 4 == 0 && has_devices_)
      spec.on ("fake:0");
    if (random () % 4 == 0)
      spec.value.tenant = g_strdup ("team/\"ads\"");
    return spec;
  }

  /* Returns a random row. Two rows are hot. */
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
    TpsPooling pooling = static_cast<TpsPooling> (1 + random () % 2);
    Query query = random_query (random, name, kRows, 4, 5, pooling,
                                pooling == TPS_POOLING_SUM && random () % 2 == 0);

    for (int64_t &id : query.indices)
      id = draw_row (random, name);
    return query;
  }

  std::map<std::string, int32_t> dims;
  std::map<std::string, Ids> rows;

private:
  std::map<std::string, TpsShard> shards;
  bool has_devices_;
};

/* A store, its sequencer, and the records that its observer received. If the sequencer is `shared`,
 * the observer of that sequencer must store the records. */
class Server
{
public:
  explicit Server (unsigned n_workers, bool keeps_row_lsns = false, TpsSequencer *shared = nullptr)
      : owns_sequencer_ (shared == nullptr)
  {
    TpsTableStoreOptions options {};

    workers = n_workers > 0 ? tps_worker_pool_new ("tables", n_workers) : nullptr;
    sequencer = shared != nullptr ? shared : make_sequencer ();
    options.sequencer = sequencer;
    options.workers = workers;
    options.find_device = find_fake_device;
    options.keeps_row_lsns = keeps_row_lsns;
    store = tps_table_store_new (&options);
  }

  ~Server ()
  {
    if (workers != nullptr)
      tps_worker_pool_free (workers);
    tps_table_store_free (store);
    if (owns_sequencer_)
      tps_sequencer_free (sequencer);
  }

  std::vector<std::string>
  list ()
  {
    g_auto (TpsTableSpecs) specs = {};
    std::vector<std::string> names;

    EXPECT_TRUE (tps_table_store_list (store, &specs, nullptr));
    for (guint i = 0; i < specs.n_specs; i++)
      names.push_back (specs.specs[i].name);
    return names;
  }

  std::string
  rows_of (const std::string &name, const Ids &ids)
  {
    g_auto (TpsTensor) rows = {};

    EXPECT_TRUE (tps_table_store_lookup_rows (store, nullptr, name.c_str (), view (ids), &rows,
                                              nullptr, nullptr));
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

  /* Changes every row by a value that depends on its state. */
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
  std::vector<std::unique_ptr<thriftps::LoggedCommand>>
      records; /* the observer adds one at a time */

private:
  TpsSequencer *
  make_sequencer ()
  {
    TpsSequencerOptions options {};

    options.workers = workers;
    options.user_data = this;
    options.observe = [] (gpointer self, TpsOrdered *ordered) {
      static_cast<Server *> (self)->records.emplace_back (
          new thriftps::LoggedCommand (ordered->command));
      tps_ordered_release (ordered, nullptr);
    };
    return tps_sequencer_new (&options);
  }

  bool owns_sequencer_;
};

/* The calls of one thread. Other threads may cause errors, which are expected: unknown tables,
 * other sizes. */
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
        case 3:
        case 4:
          push_rows (true);
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

    if (tps_table_store_lookup_bags (server_.store, nullptr, &asked, 1, &output, nullptr))
      tps_tensor_clear (&output);
  }

  /* Sometimes sends the push twice, like a client that has received no reply. */
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
  push_rows (bool is_assignment = false)
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
    request.is_assignment = is_assignment;
    if (is_assignment && random_ () % 2 == 0)
      request.as_of_lsn = tps_sequencer_get_lsn (server_.sequencer)
                          - static_cast<gint64> (random_ () % 20);
    request.as_of_lsn = std::max<gint64> (request.as_of_lsn, 0);
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

inline void
check_lsns (const Server &server)
{
  gint64 lsn = 0;

  for (const auto &record : server.records)
    ASSERT_EQ (record->command.lsn, ++lsn);
  ASSERT_EQ (tps_sequencer_get_lsn (server.sequencer), lsn);
}

inline void
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

inline void
compare (Server &one, Server &other, Plan &plan)
{
  g_auto (TpsTableSpecs) of_one = {}, of_other = {};

  ASSERT_EQ (one.list (), other.list ());
  ASSERT_TRUE (tps_table_store_list (one.store, &of_one, nullptr));
  ASSERT_TRUE (tps_table_store_list (other.store, &of_other, nullptr));
  for (guint i = 0; i < of_one.n_specs; i++)
    {
      g_autofree gchar *difference = tps_table_spec_dup_difference (&of_one.specs[i],
                                                                    &of_other.specs[i]);
      EXPECT_STREQ (difference, nullptr);
      EXPECT_STREQ (of_one.specs[i].tenant, of_other.specs[i].tenant);
    }
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

} // namespace embedding_test
