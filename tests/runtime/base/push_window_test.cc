/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/push_window.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/server/push_digest.h"

namespace thriftps {
namespace {

enum Verdict
{
  NEW = TPS_PUSH_NEW,
  REPEAT = TPS_PUSH_REPEAT,
  RUNNING = TPS_PUSH_RUNNING,
  STALE,
  DUPLICATE,
  EXHAUSTED,
};

struct Ending
{
  gint64 answer = 0;
  int code = -1; /* of the error; -1 = none */
  int n_calls = 0;
};

void
note_ending (gpointer user_data, gint64 answer, const GError *error)
{
  Ending *ending = static_cast<Ending *> (user_data);

  ending->answer = answer;
  ending->code = error != nullptr ? error->code : -1;
  ending->n_calls++;
}

TpsPushDigest
digest_of (gint64 request)
{
  TpsPushHash *hash = tps_push_hash_new ();

  tps_push_hash_add_i64 (hash, request);
  return tps_push_hash_end (hash);
}

class PushWindow : public testing::Test
{
protected:
  explicit PushWindow (TpsPushWindowOptions options = {}) : window (tps_push_window_new (&options))
  {
  }

  ~PushWindow () override
  {
    tps_push_window_free (window);
  }

  Verdict
  begin (const std::string &client, gint64 sequence, gint64 request = 0, Ending *ending = nullptr,
         gint64 incarnation = 0)
  {
    g_autoptr (GError) error = nullptr;
    TpsPushDigest digest = digest_of (request);
    TpsPushRequest asked = { client.c_str (), sequence, &digest, incarnation, note_ending, ending };
    TpsPushVerdict verdict = tps_push_window_begin (window, &asked, &answer, &error);

    EXPECT_EQ (verdict == TPS_PUSH_REFUSED, error != nullptr);
    if (error != nullptr)
      message = error->message;
    if (verdict != TPS_PUSH_REFUSED)
      return static_cast<Verdict> (verdict);
    if (error->code == TPS_ERROR_RESOURCE_EXHAUSTED)
      return EXHAUSTED;
    return error->code == TPS_ERROR_STALE ? STALE : DUPLICATE;
  }

  /* Without a digest. */
  TpsPushVerdict
  begin_unknown (const std::string &client, gint64 sequence)
  {
    g_autoptr (GError) error = nullptr;
    TpsPushRequest asked = { client.c_str (), sequence, nullptr, 0, note_ending, nullptr };

    return tps_push_window_begin (window, &asked, &answer, &error);
  }

  void
  set_request (const std::string &client, gint64 sequence, gint64 request)
  {
    TpsPushDigest digest = digest_of (request);

    tps_push_window_set_digest (window, client.c_str (), sequence, &digest);
  }

  void
  end (const std::string &client, gint64 sequence, gint64 result, gint64 lsn = 0)
  {
    tps_push_window_end (window, client.c_str (), sequence, result, lsn);
  }

  void
  fail (const std::string &client, gint64 sequence)
  {
    g_autoptr (GError) error = g_error_new_literal (TPS_ERROR, TPS_ERROR_NOT_FOUND, "no table");

    tps_push_window_fail (window, client.c_str (), sequence, error);
  }

  /* A push that is applied at once. */
  Verdict
  push (const std::string &client, gint64 sequence, gint64 result)
  {
    Verdict verdict = begin (client, sequence);

    if (verdict == NEW)
      end (client, sequence, result);
    return verdict;
  }

  /* The same by the command `lsn`, to something that was created by the command `incarnation`. */
  Verdict
  push_to (gint64 incarnation, const std::string &client, gint64 sequence, gint64 lsn)
  {
    Verdict verdict = begin (client, sequence, 0, nullptr, incarnation);

    if (verdict == NEW)
      end (client, sequence, 0, lsn);
    return verdict;
  }

  TpsPushWindow *window;
  gint64 answer = 0;
  std::string message;
};

TEST_F (PushWindow, repeatsAreAnsweredAsTheFirstTime)
{
  EXPECT_EQ (push ("a", 5, 55), NEW);
  EXPECT_EQ (push ("b", 5, 66), NEW);
  EXPECT_EQ (begin ("a", 5), REPEAT);
  EXPECT_EQ (answer, 55);
  EXPECT_EQ (begin ("b", 5), REPEAT);
  EXPECT_EQ (answer, 66);
  EXPECT_EQ (begin ("a", 4), NEW);
  fail ("a", 4);
}

TEST_F (PushWindow, twoClientsOfOneNameAreOneAndNeitherGetsTheOthersAnswer)
{
  push ("a", 5, 55);
  EXPECT_EQ (begin ("a", 5, 1), DUPLICATE);
  EXPECT_EQ (message, "push 5 of client a was used for another request");
  EXPECT_EQ (begin ("a", 6), NEW);
  EXPECT_EQ (begin ("a", 6, 1), DUPLICATE); /* the first still runs */
  end ("a", 6, 1);
}

TEST_F (PushWindow, takesAnyOrderInsideTheWindowAndNothingBelow)
{
  push ("a", 5000, 1);
  EXPECT_EQ (begin ("a", 5000 - TPS_PUSH_WINDOW), STALE);
  EXPECT_EQ (message, "push 3976 of client a: only the 1024 up to 5000 are remembered");
  EXPECT_EQ (push ("a", 5000 - TPS_PUSH_WINDOW + 1, 2), NEW);
  EXPECT_EQ (push ("a", 4990, 3), NEW);
  EXPECT_EQ (begin ("a", 5000), REPEAT);
  EXPECT_EQ (answer, 1);
  EXPECT_EQ (begin ("a", 4990), REPEAT);
  EXPECT_EQ (answer, 3);
  push ("a", 5001, 4);
  EXPECT_EQ (begin ("a", 5000 - TPS_PUSH_WINDOW + 1), STALE); /* although it was remembered */
}

TEST_F (PushWindow, remembersTheWholeWindowHoweverFarItMoves)
{
  for (gint64 sequence = 0; sequence < 10000; sequence++)
    ASSERT_EQ (push ("a", sequence, sequence + 7), NEW);
  for (gint64 sequence = 10000 - TPS_PUSH_WINDOW; sequence < 10000; sequence++)
    {
      ASSERT_EQ (begin ("a", sequence), REPEAT);
      ASSERT_EQ (answer, sequence + 7);
    }
}

TEST_F (PushWindow, bearsTheEndsOfTheNumbers)
{
  push ("a", G_MAXINT64, 1);
  EXPECT_EQ (begin ("a", G_MININT64), STALE);
  push ("b", G_MININT64, 2);
  push ("b", G_MININT64 + 1, 2);
  EXPECT_EQ (push ("b", G_MAXINT64, 3), NEW);
  EXPECT_EQ (begin ("b", G_MAXINT64), REPEAT);
  EXPECT_EQ (answer, 3);
  EXPECT_EQ (begin ("b", G_MININT64), STALE);
}

TEST_F (PushWindow, failedPushesAreNotRemembered)
{
  EXPECT_EQ (begin ("a", 9000), NEW);
  fail ("a", 9000);
  EXPECT_EQ (push ("a", 1, 11), NEW); /* nor do they move the window */
  EXPECT_EQ (begin ("a", 9000, 2), NEW);
  end ("a", 9000, 90);
  EXPECT_EQ (begin ("a", 9000, 2), REPEAT);
  EXPECT_EQ (begin ("a", 1), STALE);
}

TEST_F (PushWindow, repeatsOfARunningPushEndWithIt)
{
  Ending endings[3];

  EXPECT_EQ (begin ("a", 1), NEW);
  for (Ending &ending : endings)
    EXPECT_EQ (begin ("a", 1, 0, &ending), RUNNING);
  for (const Ending &ending : endings)
    EXPECT_EQ (ending.n_calls, 0);
  end ("a", 1, 17);
  for (const Ending &ending : endings)
    {
      EXPECT_EQ (ending.n_calls, 1);
      EXPECT_EQ (ending.answer, 17);
      EXPECT_EQ (ending.code, -1);
    }
  EXPECT_EQ (begin ("a", 1), REPEAT);
}

TEST_F (PushWindow, repeatsOfARunningPushFailWithIt)
{
  Ending ending;

  EXPECT_EQ (begin ("a", 1), NEW);
  EXPECT_EQ (begin ("a", 1, 0, &ending), RUNNING);
  fail ("a", 1);
  EXPECT_EQ (ending.n_calls, 1);
  EXPECT_EQ (ending.code, TPS_ERROR_NOT_FOUND);
  EXPECT_EQ (begin ("a", 1), NEW);
  fail ("a", 1);
}

TEST_F (PushWindow, aDigestThatComesLateIsComparedWhenThePushEnds)
{
  Ending same, other, early;

  EXPECT_EQ (begin_unknown ("a", 5), TPS_PUSH_NEW);
  EXPECT_EQ (begin_unknown ("a", 5), TPS_PUSH_UNDECIDED);
  EXPECT_EQ (begin ("a", 5, 1, &same), RUNNING);
  EXPECT_EQ (begin ("a", 5, 2, &other), RUNNING);
  set_request ("a", 5, 1);
  EXPECT_EQ (begin ("a", 5, 2), DUPLICATE);
  EXPECT_EQ (begin ("a", 5, 1, &early), RUNNING);
  end ("a", 5, 55);
  EXPECT_EQ (same.answer, 55);
  EXPECT_EQ (same.code, -1);
  EXPECT_EQ (early.code, -1);
  EXPECT_EQ (other.n_calls, 1);
  EXPECT_EQ (other.code, TPS_ERROR_DUPLICATE);
  EXPECT_EQ (begin_unknown ("a", 5), TPS_PUSH_UNDECIDED);
  EXPECT_EQ (begin ("a", 5, 1), REPEAT);
  EXPECT_EQ (begin ("a", 5, 2), DUPLICATE);
}

TEST_F (PushWindow, aPushWithoutADigestMayFailWithoutOne)
{
  Ending ending;

  EXPECT_EQ (begin_unknown ("a", 5), TPS_PUSH_NEW);
  EXPECT_EQ (begin ("a", 5, 1, &ending), RUNNING);
  fail ("a", 5);
  EXPECT_EQ (ending.code, TPS_ERROR_NOT_FOUND);
  EXPECT_EQ (begin_unknown ("a", 5), TPS_PUSH_NEW);
  fail ("a", 5);
}

TEST_F (PushWindow, belowTheWindowNoDigestIsNeeded)
{
  push ("a", 1, 1);
  push ("a", TPS_PUSH_WINDOW + 1, 2);
  EXPECT_EQ (begin_unknown ("a", 1), TPS_PUSH_REFUSED);
}

TEST_F (PushWindow, aRunningPushThatTheWindowLeftBehindStillEnds)
{
  Ending ending;

  EXPECT_EQ (begin ("a", 1), NEW);
  push ("a", 100000, 5);
  EXPECT_EQ (begin ("a", 1, 0, &ending), RUNNING);
  EXPECT_EQ (begin ("a", 2), STALE);
  end ("a", 1, 6);
  EXPECT_EQ (ending.answer, 6);
  EXPECT_EQ (begin ("a", 1), STALE);
  EXPECT_EQ (begin ("a", 100000), REPEAT);
}

/* ---- bounds --------------------------------------------------------------------------------- */

gint64 now_ns;

TpsPushWindowOptions
small_options ()
{
  TpsPushWindowOptions options = {};

  options.window = 8;
  options.max_clients = 3;
  options.max_remembered = 12;
  options.max_floors = 4;
  options.floor_idle_ns = 1000;
  options.get_now_ns = [] { return now_ns; };
  return options;
}

class SmallPushWindow : public PushWindow
{
protected:
  SmallPushWindow () : PushWindow (small_options ())
  {
    now_ns = 0;
  }
};

/* Its window went; what it had pushed does not become new again. */
TEST_F (SmallPushWindow, theClientLeastRecentlyHeardOfKeepsAFloor)
{
  push ("a", 1, 1);
  push ("b", 5, 2);
  push ("c", 1, 3);
  EXPECT_EQ (begin ("a", 1), REPEAT); /* heard of */
  push ("d", 1, 4);
  EXPECT_EQ (begin ("a", 1), REPEAT);
  EXPECT_EQ (begin ("c", 1), REPEAT);
  EXPECT_EQ (begin ("d", 1), REPEAT);
  EXPECT_EQ (begin ("b", 5), STALE);
  EXPECT_EQ (message, "push 5 of client b: pushes up to 5 are no longer remembered");
  EXPECT_EQ (begin ("b", 1), STALE) << "it may have been applied: nobody knows";
  EXPECT_EQ (push ("b", 6, 5), NEW);
  EXPECT_EQ (begin ("b", 6), REPEAT);
  EXPECT_EQ (begin ("b", 5), STALE);
  EXPECT_EQ (begin ("a", 1), STALE); /* b came in its place */
}

TEST_F (SmallPushWindow, aPushThatFailsLeavesTheFloor)
{
  for (const char *client : { "a", "b", "c", "d" })
    push (client, 5, 1);
  EXPECT_EQ (begin ("a", 6), NEW);
  fail ("a", 6);
  EXPECT_EQ (begin ("a", 5), STALE);
  EXPECT_EQ (push ("a", 6, 1), NEW);
}

TEST_F (SmallPushWindow, newNamesAreRefusedWhenFloorsAreUsedUp)
{
  for (const char *client : { "a", "b", "c", "d", "e", "f", "g" })
    ASSERT_EQ (push (client, 1, 1), NEW);
  EXPECT_EQ (begin ("h", 1), EXHAUSTED);
  EXPECT_EQ (message,
             "client h: no room to remember its pushes, 3 clients and 4 clients of earlier "
             "pushes are remembered; see --push-clients");
  for (const char *client : { "a", "b", "c", "d" })
    EXPECT_EQ (begin (client, 1), STALE);
  for (const char *client : { "e", "f", "g" })
    EXPECT_EQ (begin (client, 1), REPEAT);
  for (const char *client : { "e", "f", "g" })
    EXPECT_EQ (push (client, 2, 1), NEW) << "those that are known go on";
}

TEST_F (SmallPushWindow, floorsExpireWhenTheirClientsAreIdle)
{
  for (const char *client : { "a", "b", "c", "d", "e", "f", "g" })
    {
      push (client, 1, 1);
      now_ns += 10; /* floors of a to d at 30 to 60 */
    }
  now_ns = 1029;
  EXPECT_EQ (begin ("b", 1), STALE); /* heard of */
  EXPECT_EQ (begin ("h", 1), EXHAUSTED);
  now_ns = 1030;
  EXPECT_EQ (push ("h", 1, 1), NEW) << "a is forgotten";
  now_ns = 1060;
  EXPECT_EQ (begin ("b", 1), STALE);
  EXPECT_EQ (push ("c", 1, 1), NEW);
}

TEST_F (SmallPushWindow, forgetsNoneThatRuns)
{
  Ending ending;

  EXPECT_EQ (begin ("a", 1), NEW);
  for (const char *client : { "b", "c", "d", "e", "f" })
    push (client, 1, 1);
  EXPECT_EQ (begin ("a", 1, 0, &ending), RUNNING);
  end ("a", 1, 9);
  EXPECT_EQ (ending.answer, 9);
  EXPECT_EQ (begin ("a", 1), REPEAT);
}

TEST_F (SmallPushWindow, boundsWhatItRemembersInAll)
{
  for (gint64 sequence = 0; sequence < 6; sequence++)
    push ("a", sequence, 1);
  for (gint64 sequence = 0; sequence < 6; sequence++)
    push ("b", sequence, 1);
  EXPECT_EQ (begin ("a", 0), REPEAT);
  push ("c", 0, 1); /* one too many: b was heard of before a */
  EXPECT_EQ (begin ("a", 5), REPEAT);
  EXPECT_EQ (begin ("c", 0), REPEAT);
  EXPECT_EQ (begin ("b", 5), STALE);
}

TEST_F (SmallPushWindow, theOneThatPushesIsKeptWhateverTheBound)
{
  for (gint64 sequence = 0; sequence < 1000; sequence++)
    ASSERT_EQ (push ("a", sequence, sequence), NEW);
  for (gint64 sequence = 992; sequence < 1000; sequence++)
    ASSERT_EQ (begin ("a", sequence), REPEAT);
}

/* The attacks that made pushes new again: more names than windows, more pushes than are remembered. */
TEST_F (PushWindow, sixtyFiveThousandOtherNamesDoNotMakeAPushNewAgain)
{
  push ("victim", 7, 1);
  for (int i = 0; i < TPS_PUSH_MAX_CLIENTS; i++)
    ASSERT_EQ (push ("n" + std::to_string (i), 1, 1), NEW);
  EXPECT_EQ (begin ("victim", 7), STALE);
  EXPECT_EQ (push ("victim", 8, 1), NEW);
}

TEST_F (PushWindow, clientsWithFullWindowsDoNotMakeAPushNewAgain)
{
  push ("victim", 7, 1);
  for (int i = 0; i < 4100; i++)
    for (gint64 sequence = 0; sequence < TPS_PUSH_WINDOW; sequence++)
      ASSERT_EQ (push ("n" + std::to_string (i), sequence, 1), NEW);
  EXPECT_EQ (begin ("victim", 7), STALE);
}

/* ---- budgets -------------------------------------------------------------------------------- */

class BudgetedPushWindow : public PushWindow
{
protected:
  static constexpr gsize max_bytes = 64 << 10;

  BudgetedPushWindow () : BudgetedPushWindow (tps_budget_new (nullptr, "windows", max_bytes))
  {
  }

  explicit BudgetedPushWindow (TpsBudget *budget)
      : PushWindow ({ .budget = budget }), budget_ (budget)
  {
  }

  ~BudgetedPushWindow () override
  {
    tps_push_window_free (window);
    EXPECT_EQ (tps_budget_get_held (budget_), 0u);
    tps_budget_unref (budget_);
    window = tps_push_window_new (nullptr);
  }

  TpsBudget *budget_;
};

TEST_F (BudgetedPushWindow, windowsBecomeFloorsAndThenNamesAreRefused)
{
  int n = 0;

  while (push ("n" + std::to_string (n), 1, 1) == NEW)
    n++;
  EXPECT_GT (n, static_cast<int> (max_bytes / 512));
  EXPECT_LE (tps_budget_get_peak (budget_), max_bytes);
  for (int i = 0; i < n; i++)
    {
      Verdict verdict = begin ("n" + std::to_string (i), 1);

      ASSERT_TRUE (verdict == STALE || verdict == REPEAT) << i << ": " << verdict;
    }
}

/* One that is there goes on, with a window as large as there is room for. */
TEST_F (BudgetedPushWindow, aKnownClientIsNotRefused)
{
  int n = 0;

  ASSERT_EQ (push ("a", 0, 1), NEW);
  while (push ("n" + std::to_string (n), 1, 1) == NEW)
    {
      ASSERT_EQ (begin ("a", 0), REPEAT);
      n++;
    }
  for (gint64 sequence = 1; sequence < 3000; sequence++)
    {
      ASSERT_EQ (push ("a", sequence, sequence), NEW);
      ASSERT_EQ (begin ("a", sequence), REPEAT);
      Verdict verdict = begin ("a", sequence / 2);
      ASSERT_TRUE (verdict == STALE || verdict == REPEAT);
    }
}

/* Another thread takes every byte that becomes free: a window still becomes a floor, since its charge is not given up in between. */
TEST (FullBudget, windowsBecomeFloorsWhileOthersTakeWhatIsFree)
{
  TpsBudget *process = tps_budget_new (nullptr, "process", 64 << 10);
  TpsBudget *windows = tps_budget_new (process, "windows", 0);
  TpsPushWindowOptions options = { .max_clients = 16, .budget = windows };
  TpsPushWindow *window = tps_push_window_new (&options);
  TpsPushDigest digest = digest_of (0);
  std::atomic<bool> stop (false);
  gsize n_taken = 0;
  int n_refused = 0;
  std::thread other ([&] {
    while (!stop)
      if (tps_budget_charge (process, 16, nullptr))
        n_taken += 16;
  });

  for (int i = 0; i < 200000 && n_refused < 2000; i++)
    {
      std::string name = "n" + std::to_string (i);
      TpsPushRequest request = { name.c_str (), 1, &digest, 0, nullptr, nullptr };
      gint64 answer;

      if (tps_push_window_begin (window, &request, &answer, nullptr) == TPS_PUSH_NEW)
        tps_push_window_end (window, name.c_str (), 1, 0, 0);
      else
        n_refused++;
    }
  stop = true;
  other.join ();
  tps_push_window_free (window);
  EXPECT_EQ (tps_budget_get_held (process), n_taken);
  tps_budget_release (process, n_taken);
  tps_budget_unref (windows);
  tps_budget_unref (process);
}

/* ---- incarnations --------------------------------------------------------------------------- */

/* It was admitted after the others had ended, to something that was created after them. */
TEST_F (PushWindow, aRunningPushThatTheWindowLeftBehindIsNotNewAgain)
{
  EXPECT_EQ (begin ("a", 1), NEW);
  EXPECT_EQ (push_to (1, "a", 100000, 10), NEW);
  end ("a", 1, 0, 30);
  EXPECT_EQ (begin ("a", 1, 0, nullptr, 20), STALE);
  EXPECT_EQ (begin ("a", 1, 0, nullptr, 31), NEW) << "created after it";
}

TEST_F (PushWindow, aPushToWhatCameLaterIsNew)
{
  EXPECT_EQ (push_to (1, "a", 5, 10), NEW);
  EXPECT_EQ (begin ("a", 5, 0, nullptr, 1), REPEAT);
  EXPECT_EQ (begin ("a", 5, 0, nullptr, 10), REPEAT);
  EXPECT_EQ (push_to (11, "a", 5, 12), NEW);
  EXPECT_EQ (begin ("a", 5, 0, nullptr, 11), REPEAT);
  EXPECT_EQ (begin ("a", 5, 0, nullptr, 0), REPEAT) << "not said: of whatever it was";
  EXPECT_EQ (begin ("a", 5, 1, nullptr, 11), DUPLICATE);
}

/* The whole of a run again, with the same ids: all are applied, once. */
TEST_F (PushWindow, aRunThatBeginsAnewOnANewTableIsApplied)
{
  gint64 lsn = 0;

  for (gint64 run = 0; run < 3; run++)
    {
      gint64 incarnation = ++lsn;

      for (gint64 sequence = 0; sequence < 5000; sequence++)
        {
          ASSERT_EQ (push_to (incarnation, "a", sequence, ++lsn), NEW) << run << " " << sequence;
          ASSERT_EQ (begin ("a", sequence, 0, nullptr, incarnation), REPEAT);
        }
      EXPECT_EQ (begin ("a", 0, 0, nullptr, incarnation), STALE);
      EXPECT_EQ (begin ("a", 0, 0, nullptr, lsn), STALE);
    }
}

TEST_F (SmallPushWindow, aFloorHoldsForWhatWasThere)
{
  push_to (1, "a", 5, 10);
  for (const char *client : { "b", "c", "d" })
    push_to (1, client, 1, 20);
  EXPECT_EQ (begin ("a", 5, 0, nullptr, 1), STALE);
  EXPECT_EQ (begin ("a", 3, 0, nullptr, 10), STALE);
  EXPECT_EQ (push_to (30, "a", 5, 31), NEW);
  EXPECT_EQ (begin ("a", 5, 0, nullptr, 30), REPEAT);
  EXPECT_EQ (begin ("a", 4, 0, nullptr, 1), STALE);
}

/* ---- against a naive model ------------------------------------------------------------------ */

/* One client, as the header says it. */
class Model
{
public:
  Verdict
  begin (gint64 sequence, gint64 request)
  {
    if (running.count (sequence) > 0)
      return running[sequence] == request ? RUNNING : DUPLICATE;
    if (!done.empty () && done.rbegin ()->first - sequence >= 8)
      return STALE;
    if (done.count (sequence) > 0)
      return done[sequence] == request ? REPEAT : DUPLICATE;
    running[sequence] = request;
    return NEW;
  }

  void
  end (gint64 sequence, bool ok)
  {
    if (ok)
      done[sequence] = running[sequence];
    running.erase (sequence);
  }

  std::map<gint64, gint64> done, running;
};

class RandomPushes : public testing::WithParamInterface<unsigned>, public PushWindow
{
protected:
  RandomPushes () : PushWindow ({ .window = 8 })
  {
  }
};

TEST_P (RandomPushes, areJudgedAsByTheModel)
{
  std::mt19937 random (GetParam ());
  std::map<std::string, Model> models;
  std::uniform_int_distribution<int> percent (0, 99);
  std::uniform_int_distribution<gint64> step (0, 24);
  gint64 base = 0;
  Ending ignored;

  for (int i = 0; i < 20000; i++)
    {
      std::string client (1, static_cast<char> ('a' + percent (random) % 3));
      Model &model = models[client];
      gint64 sequence = base + step (random);

      if (percent (random) < 60 || model.running.empty ())
        {
          gint64 request = percent (random) < 10 ? 1 : 0;

          ASSERT_EQ (begin (client, sequence, request, &ignored), model.begin (sequence, request))
              << "step " << i;
        }
      else
        {
          auto one = std::next (model.running.begin (),
                                percent (random) % static_cast<int> (model.running.size ()));
          gint64 which = one->first;
          bool ok = percent (random) < 70;

          model.end (which, ok);
          if (ok)
            end (client, which, which);
          else
            fail (client, which);
        }
      base += percent (random) < 5 ? 1 : 0;
    }
  for (auto &[client, model] : models)
    while (!model.running.empty ())
      {
        fail (client, model.running.begin ()->first);
        model.running.erase (model.running.begin ());
      }
}

INSTANTIATE_TEST_SUITE_P (Seeds, RandomPushes, testing::Values (1u, 2u, 3u, 4u));

/* ---- threads -------------------------------------------------------------------------------- */

struct Shared
{
  TpsPushWindow *window;
  std::atomic<int> n_applied { 0 };
  std::atomic<int> n_answered { 0 };
};

void
count_answer (gpointer user_data, gint64 answer, const GError *error)
{
  Shared *shared = static_cast<Shared *> (user_data);

  EXPECT_EQ (error, nullptr);
  EXPECT_EQ (answer, 42);
  shared->n_answered++;
}

void
push_everything (Shared *shared)
{
  for (gint64 sequence = 0; sequence < 500; sequence++)
    {
      TpsPushDigest digest = digest_of (sequence);
      TpsPushRequest asked = { "a", sequence, &digest, 0, count_answer, shared };
      gint64 answer = 0;

      switch (tps_push_window_begin (shared->window, &asked, &answer, nullptr))
        {
        case TPS_PUSH_NEW:
          shared->n_applied++;
          tps_push_window_end (shared->window, "a", sequence, 42, 0);
          shared->n_answered++;
          break;
        case TPS_PUSH_REPEAT:
          count_answer (shared, answer, nullptr);
          break;
        default:
          break;
        }
    }
}

TEST_F (PushWindow, threadsThatPushTheSameApplyItOnceAndAreAllAnswered)
{
  Shared shared;
  std::vector<std::thread> threads;

  shared.window = window;
  for (int i = 0; i < 4; i++)
    threads.emplace_back (push_everything, &shared);
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_EQ (shared.n_applied, 500);
  EXPECT_EQ (shared.n_answered, 4 * 500);
}

/* ---- digests -------------------------------------------------------------------------------- */

std::string
hash_parts (const std::vector<std::string> &parts, const std::vector<gint64> &dims, TpsDType dtype)
{
  static const char elements[64] = {};
  TpsPushHash *hash = tps_push_hash_new ();
  TpsTensorView view = {};
  TpsPushDigest digest;

  for (const std::string &part : parts)
    tps_push_hash_add_string (hash, part.c_str ());
  if (dtype != 0)
    tps_shape_init (&view.shape, dtype, static_cast<guint> (dims.size ()), dims.data (), "",
                    nullptr);
  view.data = elements;
  tps_push_hash_add_tensor (hash, view);
  digest = tps_push_hash_end (hash);
  return std::string (reinterpret_cast<char *> (digest.bytes), sizeof digest.bytes);
}

TEST (PushDigest, tellsRequestsApartThatConsistOfTheSameBytes)
{
  const TpsDType none = static_cast<TpsDType> (0);
  std::set<std::string> digests = {
    hash_parts ({ "ab", "c" }, {}, none),
    hash_parts ({ "a", "bc" }, {}, none),
    hash_parts ({ "abc" }, {}, none),
    hash_parts ({ "abc" }, { 0 }, TPS_DTYPE_FLOAT32),
    hash_parts ({ "abc" }, { 4 }, TPS_DTYPE_FLOAT32),
    hash_parts ({ "abc" }, { 2, 2 }, TPS_DTYPE_FLOAT32),
    hash_parts ({ "abc" }, { 2 }, TPS_DTYPE_INT64),
  };

  EXPECT_EQ (digests.size (), 7u);
  EXPECT_EQ (hash_parts ({ "a" }, { 3 }, TPS_DTYPE_INT64),
             hash_parts ({ "a" }, { 3 }, TPS_DTYPE_INT64));
}

} // namespace
} // namespace thriftps
