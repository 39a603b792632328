/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/sequencer.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/worker_pool.h"

namespace thriftps {
namespace {

using Lsns = std::vector<gint64>;

/* A command that takes its turn in some queues. Its run() calls `body`. */
class Command
{
public:
  explicit Command (
      std::vector<TpsTurnQueue *> queues, std::function<void ()> body = [] {},
      const char *tenant = nullptr)
      : body_ (std::move (body)), turns_ (queues.size ())
  {
    for (size_t i = 0; i < queues.size (); i++)
      turns_[i].queue = queues[i];
    both_.self = this;
    both_.ordered.command = &record;
    both_.ordered.turns = turns_.data ();
    both_.ordered.n_turns = static_cast<guint> (turns_.size ());
    both_.ordered.tenant = tenant;
    both_.ordered.refused = [] (TpsOrdered *ordered, const TpsTurn *turn) {
      of (ordered)->closed = turn;
    };
    both_.ordered.run = [] (TpsOrdered *ordered) { of (ordered)->body_ (); };
    both_.ordered.ended = [] (TpsOrdered *ordered, const GError *error) {
      of (ordered)->n_ended++;
      of (ordered)->code = error != nullptr ? error->code : 0;
    };
  }

  TpsOrdered *
  get ()
  {
    return &both_.ordered;
  }

  TpsCommand record {};
  const TpsTurn *closed = nullptr; /* the turn for which it was refused */
  int n_ended = 0;
  int code = 0; /* the code of the error with which it ended */

private:
  struct Both
  {
    TpsOrdered ordered {};
    Command *self = nullptr;
  };

  static Command *
  of (TpsOrdered *ordered)
  {
    return reinterpret_cast<Both *> (ordered)->self;
  }

  std::function<void ()> body_;
  std::vector<TpsTurn> turns_;
  Both both_;
};

class Sequencer : public testing::Test
{
protected:
  void
  start (bool is_observed)
  {
    TpsSequencerOptions options {};

    options.user_data = this;
    if (is_observed)
      options.observe = [] (gpointer user_data, TpsOrdered *ordered) {
        auto *self = static_cast<Sequencer *> (user_data);

        self->observed.push_back (ordered->command->lsn);
        if (self->keeps)
          self->kept.push_back (ordered);
        else
          tps_ordered_release (ordered, nullptr);
      };
    sequencer = tps_sequencer_new (&options);
  }

  ~Sequencer () override
  {
    tps_sequencer_free (sequencer);
  }

  void
  run (Command &command)
  {
    tps_sequencer_run (sequencer, command.get ());
  }

  TpsSequencer *sequencer = nullptr;
  Lsns observed;
  bool keeps = false; /* TRUE: the observer keeps the records */
  std::vector<TpsOrdered *> kept;
  TpsTurnQueue a {}, b {};
};

} // namespace

/* A second command may run concurrently with the first. A third command must wait until the first
 * has ended, even if the second ends earlier. */
TEST_F (Sequencer, twoCommandsThatMayFollowRunAtATime)
{
  Lsns ran;
  Command third ({ &a }, [&] { ran.push_back (3); });
  Command second ({ &a }, [&] {
    EXPECT_TRUE (second.get ()->is_following);
    ran.push_back (2);
    run (third);
    EXPECT_EQ (third.n_ended, 0);
  });
  Command first ({ &a }, [&] {
    run (second);
    EXPECT_EQ (ran, (Lsns { 2 }));
    EXPECT_EQ (second.n_ended, 0) << "the observer sees the first one first";
    ran.push_back (1);
  });

  for (Command *command : { &first, &second, &third })
    command->get ()->may_follow = TRUE;
  start (true);
  run (first);
  EXPECT_EQ (ran, (Lsns { 2, 1, 3 }));
  EXPECT_EQ (observed, (Lsns { 1, 2, 3 }));
  EXPECT_FALSE (third.get ()->is_following) << "both had ended";
  EXPECT_EQ (third.n_ended, 1);
}

/* The second command follows the first one and ends early. The third one would have to follow the
 * first one, but the progress that it reads is that of the second one. */
TEST_F (Sequencer, aCommandFollowsOnlyTheCommandBeforeIt)
{
  Lsns ran;
  Command third ({ &a }, [&] { ran.push_back (3); });
  Command second ({ &a }, [&] { ran.push_back (2); });
  Command first ({ &a }, [&] {
    run (second);
    run (third);
    ran.push_back (1);
  });

  for (Command *command : { &first, &second, &third })
    command->get ()->may_follow = TRUE;
  start (true);
  run (first);
  EXPECT_TRUE (second.get ()->is_following);
  EXPECT_EQ (ran, (Lsns { 2, 1, 3 }));
}

TEST_F (Sequencer, theThirdWaitsForBothBeforeIt)
{
  Lsns ran;
  std::promise<void> first_runs, first_may_end, second_runs, second_may_end;
  Command first ({ &a }, [&] {
    first_runs.set_value ();
    first_may_end.get_future ().wait ();
  });
  Command second ({ &a }, [&] {
    second_runs.set_value ();
    second_may_end.get_future ().wait ();
  });
  Command third ({ &a }, [&] { ran.push_back (third.record.lsn); });

  for (Command *command : { &first, &second, &third })
    command->get ()->may_follow = TRUE;
  start (false);
  std::thread one ([&] { run (first); });
  first_runs.get_future ().wait ();
  std::thread two ([&] { run (second); });
  second_runs.get_future ().wait ();
  run (third);
  EXPECT_EQ (ran, Lsns {});
  first_may_end.set_value ();
  one.join ();
  EXPECT_EQ (ran, Lsns {}) << "the second still runs";
  second_may_end.set_value ();
  two.join ();
  EXPECT_EQ (ran, (Lsns { 3 }));
}

TEST_F (Sequencer, nothingFollowsOrIsFollowedThatMayNot)
{
  Command waits ({ &a });
  Command follower ({ &a });
  Command first ({ &a }, [&] {
    run (waits);
    run (follower);
    EXPECT_EQ (waits.n_ended + follower.n_ended, 0);
  });

  first.get ()->may_follow = follower.get ()->may_follow = TRUE;
  start (false);
  run (first);
  EXPECT_EQ (waits.n_ended + follower.n_ended, 2);
  EXPECT_FALSE (follower.get ()->is_following);
}

TEST_F (Sequencer, aCommandWaitsForAllOfItsTurns)
{
  Lsns ran;
  Command both ({ &a, &b }, [&] { ran.push_back (both.record.lsn); });
  Command last ({ &b }, [&] { ran.push_back (last.record.lsn); });
  Command of_b ({ &b }, [&] {
    run (both);
    run (last);
    ran.push_back (of_b.record.lsn);
  });
  Command of_a ({ &a }, [&] {
    run (of_b);
    EXPECT_EQ (both.n_ended, 0) << "its turn for b has come, not that for a";
    EXPECT_EQ (last.n_ended, 0);
    ran.push_back (of_a.record.lsn);
  });

  start (false);
  run (of_a);
  EXPECT_EQ (ran, (Lsns { 2, 1, 3, 4 }));
}

TEST_F (Sequencer, aClosedObjectRefusesLaterCommands)
{
  Command drop ({}), late ({ &b, &a }), before ({ &a });
  Command holder ({ &a }, [&] {
    run (before);
    tps_sequencer_admit (sequencer, drop.get (), &a);
    tps_sequencer_finish (sequencer, drop.get ());
    run (late);
  });

  start (false);
  run (holder);
  EXPECT_EQ (before.n_ended, 1);
  EXPECT_EQ (late.closed, &late.get ()->turns[1]);
  EXPECT_EQ (late.n_ended, 0);
  EXPECT_EQ (late.record.lsn, 0);
  EXPECT_EQ (drop.record.lsn, 3);
  EXPECT_EQ (tps_sequencer_get_lsn (sequencer), 3);
  EXPECT_EQ (b.first, nullptr);
}

/* A command that waits to enter when its object is closed has no LSN yet. */
TEST_F (Sequencer, aClosedObjectRefusesWaitingCommands)
{
  Command drop ({}), second ({ &a }), waits ({ &b, &a }), after ({ &b });
  Command holder ({ &a }, [&] {
    run (second);
    run (waits);
    tps_sequencer_admit (sequencer, drop.get (), &a);
    tps_sequencer_finish (sequencer, drop.get ());
  });

  start (false);
  run (holder);
  EXPECT_EQ (second.n_ended, 1);
  EXPECT_EQ (waits.closed, &waits.get ()->turns[1]);
  EXPECT_EQ (waits.n_ended, 0);
  run (after);
  EXPECT_EQ (after.record.lsn, 4) << "the refused command has left no gap";
  EXPECT_EQ (a.load + b.load, 0u);
}

/* The crowd fills the queue and has many more commands. Commands of others enter after one of them
 * each. LSNs have no gaps, and agree with the order in which the commands run. */
TEST_F (Sequencer, tenantsTakeTurnsToEnterAQueue)
{
  std::vector<std::unique_ptr<Command>> commands;
  std::string ran;
  auto add = [&] (const char *tenant) {
    size_t i = commands.size ();

    commands.emplace_back (new Command (
        { &a },
        [&, i, tenant] {
          ran += tenant;
          EXPECT_EQ (commands[i]->record.lsn, (gint64) ran.size ());
        },
        tenant));
  };
  for (const char *tenant : { "A", "A", "A", "A", "A", "B", "C", "B" })
    add (tenant);
  Command holder (
      { &a },
      [&] {
        ran += "A";
        for (auto &command : commands)
          run (*command);
        EXPECT_EQ (commands[0]->record.lsn, 2) << "it follows at once";
        EXPECT_EQ (commands[1]->record.lsn, 0);
      },
      "A");

  start (true);
  run (holder);
  EXPECT_EQ (ran, "AAABCABAA");
  EXPECT_EQ (observed, (Lsns { 1, 2, 3, 4, 5, 6, 7, 8, 9 }));
  EXPECT_EQ (a.load, 0u);
}

/* One tenant floods an object, also with commands that touch another one. They hold no place in the
 * queue of the other one while they wait. */
TEST_F (Sequencer, aFloodOfOneObjectDoesNotReachOthers)
{
  std::vector<std::unique_ptr<Command>> flood;
  Command victim (
      { &b }, [] {}, "B"),
      last (
          { &b, &a }, [] {}, "B");
  Command holder (
      { &a },
      [&] {
        for (int i = 0; i < 40; i++)
          {
            flood.emplace_back (new Command (
                i % 2 == 0 ? std::vector<TpsTurnQueue *> { &a }
                           : std::vector<TpsTurnQueue *> { &b, &a },
                [] {}, "A"));
            run (*flood.back ());
          }
        run (victim);
        EXPECT_EQ (victim.n_ended, 0) << "the observer sees the holder first";
        EXPECT_EQ (victim.record.lsn, 3);
        EXPECT_EQ (b.load, 0u);
        run (last);
      },
      "A");

  start (true);
  run (holder);
  EXPECT_EQ (last.record.lsn, 5) << "after one command of the other tenant";
  EXPECT_EQ (observed.size (), 43u);
  EXPECT_EQ (a.load + b.load, 0u);
}

TEST_F (Sequencer, manySmallCommandsEnterAtOnce)
{
  std::vector<std::unique_ptr<Command>> commands;
  Command large ({ &a });
  Command holder ({ &a }, [&] {
    for (int i = 0; i < 20; i++)
      {
        commands.emplace_back (new Command ({ &a }));
        commands.back ()->get ()->is_small = TRUE;
        run (*commands.back ());
      }
    run (large);
    EXPECT_EQ (commands[14]->record.lsn, 16);
    EXPECT_EQ (commands[15]->record.lsn, 0);
  });

  holder.get ()->is_small = TRUE;
  start (false);
  run (holder);
  EXPECT_EQ (commands[19]->record.lsn, 21);
  EXPECT_EQ (large.record.lsn, 22) << "small commands cannot keep it out";
}

/* The observer keeps a record while it writes to a disk. Meanwhile the next command of the object
 * takes effect. No request may be answered before its record is released. */
TEST_F (Sequencer, theObserverMayKeepARecord)
{
  g_autoptr (GError) lost = g_error_new_literal (TPS_ERROR, TPS_ERROR_UNAVAILABLE, "no disk");
  int n_run = 0;
  Command first ({ &a }, [&] { n_run++; }), second ({ &a }, [&] { n_run++; });
  Command third ({}, [] {});

  start (true);
  keeps = true;
  run (first);
  run (second);
  tps_sequencer_admit (sequencer, third.get (), nullptr);
  tps_sequencer_finish (sequencer, third.get ());
  EXPECT_EQ (n_run, 2);
  ASSERT_EQ (observed, (Lsns { 1, 2, 3 }));
  EXPECT_EQ (first.n_ended + second.n_ended + third.n_ended, 0);

  tps_ordered_release (kept[1], lost);
  EXPECT_EQ (second.n_ended, 1);
  EXPECT_EQ (second.code, TPS_ERROR_UNAVAILABLE);
  EXPECT_EQ (first.n_ended + third.n_ended, 0) << "records are released in any order";
  tps_ordered_release (kept[0], nullptr);
  tps_ordered_release (kept[2], nullptr);
  EXPECT_EQ (first.n_ended + second.n_ended + third.n_ended, 3);
  EXPECT_EQ (first.code + third.code, 0);
}

TEST_F (Sequencer, aLongQueueDoesNotGrowTheStack)
{
  std::vector<std::unique_ptr<Command>> waiting;
  int n_run = 0;
  Command first ({ &a }, [&] {
    for (int i = 0; i < 200000; i++)
      {
        waiting.emplace_back (new Command ({ &a }, [&] { n_run++; }));
        run (*waiting.back ());
      }
  });

  start (true);
  run (first);
  EXPECT_EQ (n_run, 200000);
  EXPECT_EQ (observed.size (), 200001u);
}

/* An I/O thread must not observe and end an unlimited number of other threads' commands. */
TEST_F (Sequencer, aWorkerObservesWhenThereIsAlwaysMore)
{
  constexpr int n_commands = 1000;
  struct Observer
  {
    TpsSequencer *sequencer = nullptr;
    std::vector<std::unique_ptr<Command>> commands;
    std::map<std::thread::id, int> n_observed; /* by thread */
    int n = 0;
    std::promise<void> done;
  } observer;
  TpsSequencerOptions options {};

  options.workers = tps_worker_pool_new ("sequencer", 1);
  options.user_data = &observer;
  options.observe = [] (gpointer user_data, TpsOrdered *ordered) {
    auto *self = static_cast<Observer *> (user_data);

    self->n_observed[std::this_thread::get_id ()]++;
    if (++self->n < n_commands) /* the next one, before this one is observed */
      tps_sequencer_run (self->sequencer, self->commands[self->n]->get ());
    tps_ordered_release (ordered, nullptr);
    if (self->n == n_commands)
      self->done.set_value ();
  };
  sequencer = observer.sequencer = tps_sequencer_new (&options);
  for (int i = 0; i < n_commands; i++)
    observer.commands.emplace_back (new Command ({ &a }));
  run (*observer.commands[0]);
  observer.done.get_future ().wait ();
  tps_worker_pool_free (options.workers);
  EXPECT_LE (observer.n_observed[std::this_thread::get_id ()], 16);
  for (const auto &command : observer.commands)
    EXPECT_EQ (command->n_ended, 1);
}

/* Threads use three objects. The commands of each object must have ascending LSNs, and the observer
 * must receive all commands. */
TEST_F (Sequencer, threadsKeepTheOrder)
{
  constexpr size_t n_threads = 4, n_commands = 3000;
  const char *const tenants[] = { nullptr, "A", "B" };
  TpsTurnQueue queues[3] {};
  gint64 last[3] = { 0, 0, 0 }; /* guarded by the turns of the queues */
  std::vector<std::unique_ptr<Command>> commands;
  std::vector<std::thread> threads;

  for (size_t i = 0; i < n_threads * n_commands; i++)
    {
      std::vector<size_t> objects { i % 3 };

      if (i * 7 % 5 % 3 != i % 3)
        objects.push_back (i * 7 % 5 % 3);
      std::vector<TpsTurnQueue *> named;
      for (size_t object : objects)
        named.push_back (&queues[object]);
      commands.emplace_back (new Command (
          named,
          [&, i, objects] {
            for (size_t object : objects)
              {
                EXPECT_LT (last[object], commands[i]->record.lsn);
                last[object] = commands[i]->record.lsn;
              }
          },
          tenants[i / n_threads % 3]));
    }
  start (true);
  for (size_t t = 0; t < n_threads; t++)
    threads.emplace_back ([&, t] {
      for (size_t i = 0; i < n_commands; i++)
        run (*commands[i * n_threads + t]);
    });
  for (std::thread &thread : threads)
    thread.join ();
  ASSERT_EQ (observed.size (), commands.size ());
  for (const TpsTurnQueue &queue : queues)
    EXPECT_EQ (queue.load, 0u);
  for (size_t i = 0; i < observed.size (); i++)
    ASSERT_EQ (observed[i], static_cast<gint64> (i + 1));
  for (const auto &command : commands)
    ASSERT_EQ (command->n_ended, 1);
}

} // namespace thriftps
