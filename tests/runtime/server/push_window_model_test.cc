/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Push windows compared with a naive model, and with several threads. */

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "tests/runtime/server/push_window_fixture.h"

using namespace push_window_test;

namespace {

/* ---- against a naive model ------------------------------------------------------------------ */

/* One client according to the specification in the header. */
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
      TpsPushRequest asked = { "a", sequence, &digest, 0, count_answer, shared, nullptr, FALSE };
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

} // namespace
