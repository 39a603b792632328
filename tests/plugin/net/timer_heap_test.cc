// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/net/timer_heap.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

namespace {

void
Ignore (gpointer)
{
}

// Removes the timers that are due. Returns their user data in order.
std::vector<gsize>
PopAll (TpsTimerHeap *heap, gint64 now_ns)
{
  std::vector<gsize> popped;
  TpsTimerFunc func;
  gpointer data;
  while (tps_timer_heap_pop (heap, now_ns, &func, &data))
    popped.push_back (GPOINTER_TO_SIZE (data));
  return popped;
}

TEST (TimerHeap, AgreesWithASortedMapUnderRandomUse)
{
  for (unsigned seed = 0; seed < 500; seed++)
    {
      std::mt19937 random (seed);
      TpsTimerHeap heap;
      std::map<std::pair<gint64, guint64>, gsize> model;
      gint64 now_ns = 0;
      tps_timer_heap_init (&heap);
      for (gsize step = 1; step <= 200; step++)
        {
          if (random () % 3 != 0)
            {
              gint64 deadline_ns = now_ns + (gint64) (random () % 50);
              guint64 id = tps_timer_heap_add (&heap, deadline_ns, Ignore, GSIZE_TO_POINTER (step));
              model[{ deadline_ns, id }] = step;
            }
          else if (!model.empty () && random () % 2 == 0)
            {
              auto victim = std::next (model.begin (), (long) (random () % model.size ()));
              EXPECT_TRUE (tps_timer_heap_cancel (&heap, victim->first.second));
              model.erase (victim);
            }
          else
            {
              std::vector<gsize> expected;
              now_ns += (gint64) (random () % 20);
              while (!model.empty () && model.begin ()->first.first <= now_ns)
                {
                  expected.push_back (model.begin ()->second);
                  model.erase (model.begin ());
                }
              ASSERT_EQ (PopAll (&heap, now_ns), expected) << "seed " << seed;
            }
        }
      tps_timer_heap_clear (&heap);
    }
}

} // namespace
