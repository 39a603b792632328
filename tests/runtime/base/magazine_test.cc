// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/base/magazine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeeps = false;
#else
constexpr bool kKeeps = true;
#endif

std::atomic<int> n_alive;

struct Object
{
  Object ()
  {
    n_alive++;
  }
  ~Object ()
  {
    n_alive--;
  }
};

void
Destroy (gpointer object)
{
  delete static_cast<Object *> (object);
}

// Each test has its own depot and magazine, so that it never receives the objects of another test.
#define KIND(name)                                  \
  TpsDepot name##_depot = TPS_DEPOT_INIT (Destroy); \
  thread_local TpsMagazine name##_magazine

KIND (reuse);
KIND (many);
KIND (ending);
KIND (crossing);
TpsDepot busy_depot = TPS_DEPOT_INIT (g_free);
thread_local TpsMagazine busy_magazine;

Object *
Take (TpsMagazine *magazine, TpsDepot *depot)
{
  auto *object = static_cast<Object *> (tps_magazine_take (magazine, depot));
  return object != nullptr ? object : new Object;
}

TEST (Magazine, GivesBackTheLastThatWasPutIn)
{
  EXPECT_EQ (tps_magazine_take (&reuse_magazine, &reuse_depot), nullptr);
  Object *object = new Object;
  tps_magazine_put (&reuse_magazine, &reuse_depot, object);
  if (!kKeeps)
    return;
  EXPECT_EQ (tps_magazine_take (&reuse_magazine, &reuse_depot), object);
  EXPECT_EQ (tps_magazine_take (&reuse_magazine, &reuse_depot), nullptr);
  Destroy (object);
}

TEST (Magazine, KeepsABoundedNumberOfObjects)
{
  int before = n_alive;
  std::thread ([before] {
    for (int i = 0; i < 1000; i++)
      tps_magazine_put (&many_magazine, &many_depot, new Object);
    EXPECT_LE (n_alive - before, kKeeps ? TPS_MAGAZINE_OBJECTS + TPS_DEPOT_OBJECTS : 0);
    EXPECT_GE (n_alive - before, kKeeps ? TPS_DEPOT_OBJECTS : 0);
  }).join ();
  // The end of the thread has freed the objects of its magazine.
  EXPECT_EQ (n_alive - before, kKeeps ? TPS_DEPOT_OBJECTS : 0);
}

TEST (Magazine, GoesWithItsThread)
{
  int before = n_alive;
  std::thread ([] {
    for (int i = 0; i < TPS_MAGAZINE_OBJECTS; i++)
      tps_magazine_put (&ending_magazine, &ending_depot, new Object);
  }).join ();
  EXPECT_EQ (n_alive, before);
}

// One thread only allocates objects, and the other only frees them. The surplus objects of the
// second thread must serve the first.
TEST (Magazine, PassesObjectsFromThreadsThatFreeToThreadsThatMake)
{
  int before = n_alive;
  int most = 0;
  for (int round = 0; round < 100; round++)
    {
      std::vector<Object *> objects;
      for (int i = 0; i < 40; i++)
        objects.push_back (Take (&crossing_magazine, &crossing_depot));
      most = std::max (most, n_alive - before);
      std::thread ([&] {
        for (Object *object : objects)
          tps_magazine_put (&crossing_magazine, &crossing_depot, object);
      }).join ();
    }
  EXPECT_LE (most, 40 + TPS_DEPOT_OBJECTS + TPS_MAGAZINE_OBJECTS);
  EXPECT_EQ (n_alive > before, kKeeps);
}

TEST (Magazine, NeverGivesAnObjectToTwo)
{
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back ([] {
      for (int round = 0; round < 2000; round++)
        {
          std::atomic<int> *mine[24];
          for (auto &counter : mine)
            {
              counter = static_cast<std::atomic<int> *> (
                  tps_magazine_take (&busy_magazine, &busy_depot));
              if (counter == nullptr)
                counter = reinterpret_cast<std::atomic<int> *> (g_new0 (std::atomic<int>, 1));
              EXPECT_EQ (counter->fetch_add (1), 0);
            }
          for (auto &counter : mine)
            {
              EXPECT_EQ (counter->fetch_sub (1), 1);
              tps_magazine_put (&busy_magazine, &busy_depot, counter);
            }
        }
    });
  for (auto &thread : threads)
    thread.join ();
}

} // namespace
