/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tables and a model behind one sequencer, as in a server. Their state is a function of their
 * commands in LSN order: random commands from many threads share one order of LSNs, and other
 * tables and another model that apply the records one by one must have the same bits in all rows,
 * parameters and states. Run this test with --config=tsan too.
 *
 *   SEEDS=1000 FIRST_SEED=1     number of histories, and the first seed (--test_env) */

#include "tests/runtime/server/model/model_histories.h"
#include "tests/runtime/server/tables/histories.h"

namespace {

using embedding_test::Plan;
using embedding_test::Random;
using updating_test::kShapes;

bool
is_of_model (const TpsCommand *command)
{
  return command->kind == TPS_COMMAND_INIT_MODEL || command->kind == TPS_COMMAND_UPDATE_MODEL
         || command->kind == TPS_COMMAND_RESET_MODEL;
}

/* Records all commands in the order of their LSNs. One thread at a time calls the observer. */
class Order
{
public:
  Order ()
  {
    TpsSequencerOptions options {};

    options.workers = workers;
    options.user_data = this;
    options.observe = [] (gpointer self, TpsOrdered *ordered) {
      static_cast<Order *> (self)->records.emplace_back (
          new thriftps::LoggedCommand (ordered->command));
      tps_ordered_release (ordered, nullptr);
    };
    sequencer = tps_sequencer_new (&options);
  }

  ~Order ()
  {
    tps_worker_pool_free (workers);
    tps_sequencer_free (sequencer);
  }

  TpsWorkerPool *workers = tps_worker_pool_new ("order", 1);
  TpsSequencer *sequencer;
  std::vector<std::unique_ptr<thriftps::LoggedCommand>> records;
};

struct Mixed
{
  Mixed (unsigned n_workers, bool keeps_row_lsns, guint n_trainers)
      : tables (n_workers, keeps_row_lsns, order.sequencer), model (n_trainers, order.sequencer)
  {
  }

  void
  replay (const TpsCommand *command)
  {
    g_autoptr (GError) error = nullptr;

    if (is_of_model (command))
      tps_model_server_replay (model.server, command, &error);
    else
      tps_table_store_replay (tables.store, command, &error);
    ASSERT_EQ (error, nullptr) << "lsn " << command->lsn << ": " << error->message;
    ASSERT_EQ (tps_sequencer_get_lsn (order.sequencer), command->lsn);
  }

  Order order;
  embedding_test::Server tables;
  updating_test::Server model;
};

void
run_threads (Mixed *mixed, const Plan &plan, uint32_t seed, guint n_trainers, int n_callers)
{
  std::vector<std::thread> threads;

  for (guint i = 0; i < n_trainers; i++)
    threads.emplace_back (updating_test::train, &mixed->model, static_cast<gint32> (i),
                          seed * 10 + i);
  for (int i = 0; i < n_callers; i++)
    threads.emplace_back ([mixed, &plan, seed, i] {
      Plan mine (plan);

      embedding_test::Caller (mixed->tables, mine, seed * 100 + static_cast<uint64_t> (i), i)
          .run (30);
    });
  for (std::thread &thread : threads)
    thread.join ();
}

/* Returns TRUE if the commands alternated between tables and the model at least twice. */
bool
replay_all (const Order &from, Mixed *to)
{
  gint64 lsn = 0;
  int n_changes = 0;

  for (size_t i = 0; i < from.records.size (); i++)
    {
      const TpsCommand *command = &from.records[i]->command;

      EXPECT_EQ (command->lsn, ++lsn);
      n_changes += i > 0 && is_of_model (command) != is_of_model (&from.records[i - 1]->command);
      to->replay (command);
    }
  return n_changes > 1;
}

bool
run_history (uint32_t seed)
{
  Random random (seed);
  std::mt19937 model_random (seed);
  Plan plan (random);
  guint n_trainers = 1 + random () % 4;
  bool keeps_row_lsns = random () % 2 == 0, is_mixed;
  Mixed mixed (static_cast<unsigned> (random () % 4), keeps_row_lsns, n_trainers);
  Mixed other (0, keeps_row_lsns, n_trainers);

  for (const char *name : embedding_test::kNames)
    {
      embedding_test::Spec spec = plan.draw_spec (random, name);

      EXPECT_TRUE (tps_table_store_create (mixed.tables.store, &spec.value, nullptr));
    }
  mixed.model.init (&model_random);
  embedding_test::cut_small_calls (random () % 2 == 0);
  run_threads (&mixed, plan, seed, n_trainers, static_cast<int> (1 + random () % 5));
  embedding_test::cut_small_calls (false);
  is_mixed = replay_all (mixed.order, &other);
  EXPECT_TRUE (mixed.model.model () == other.model.model ());
  for (int i = 0; i < 2; i++) /* the result depends on the optimizer's state */
    {
      updating_test::Values probe = updating_test::draw_values (kShapes, &model_random);

      EXPECT_EQ (mixed.model.push (0, probe, nullptr, 0), other.model.push (0, probe, nullptr, 0));
      EXPECT_TRUE (mixed.model.model () == other.model.model ()) << "state, probe " << i;
    }
  embedding_test::compare (mixed.tables, other.tables, plan);
  return is_mixed;
}

} // namespace

TEST (MixedReplay, HasTheSameBits)
{
  unsigned long first = embedding_test::number_of ("FIRST_SEED", 1);
  unsigned long n_seeds = embedding_test::number_of ("SEEDS", 100);
  unsigned long n_mixed = 0;

  for (unsigned long seed = first; seed < first + n_seeds; seed++)
    {
      n_mixed += run_history (static_cast<uint32_t> (seed));
      ASSERT_FALSE (testing::Test::HasFailure ()) << "FIRST_SEED=" << seed;
    }
  EXPECT_GT (n_mixed, n_seeds / 2) << "histories in which both kinds alternate";
}
