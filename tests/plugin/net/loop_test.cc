// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/net/loop.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <utility>
#include <vector>

namespace {

gint64
NowNs ()
{
  struct timespec now;
  clock_gettime (CLOCK_MONOTONIC, &now);
  return (gint64) now.tv_sec * 1000000000 + now.tv_nsec;
}

class LoopTest : public testing::Test
{
protected:
  void
  SetUp () override
  {
    loop_ = tps_loop_new ("test", nullptr);
    ASSERT_NE (loop_, nullptr);
  }
  void
  TearDown () override
  {
    g_clear_pointer (&loop_, tps_loop_free);
  }

  static void
  RunFunction (gpointer data)
  {
    (*static_cast<std::function<void ()> *> (data)) ();
  }
  static void
  RunAndDelete (gpointer data)
  {
    RunFunction (data);
    delete static_cast<std::function<void ()> *> (data);
  }
  void
  Call (std::function<void ()> function)
  {
    tps_loop_call (loop_, RunFunction, &function);
  }
  void
  Post (std::function<void ()> function)
  {
    tps_loop_post (loop_, RunAndDelete, new std::function<void ()> (std::move (function)));
  }

  TpsLoop *loop_ = nullptr;
};

TEST_F (LoopTest, RunsPendingPostsWhenItIsFreed)
{
  int count = 0;
  Post ([this, &count] {
    count++;
    Post ([this, &count] {
      count++;
      Post ([&count] { count++; });
    });
  });
  tps_loop_free (loop_); // not g_clear_pointer(), because the posts use loop_
  loop_ = nullptr;
  EXPECT_EQ (count, 3);
}

// Removes both watches in its first callback, while both descriptors are ready.
struct Pair
{
  TpsLoop *loop;
  TpsWatch *watches[2];
  int n_events = 0;
  static void
  OnReady (guint32, gpointer data)
  {
    auto *pair = static_cast<Pair *> (data);
    pair->n_events++;
    tps_loop_remove_watch (pair->loop, pair->watches[0]);
    tps_loop_remove_watch (pair->loop, pair->watches[1]);
  }
};

TEST_F (LoopTest, DoesNotCallAWatchRemovedInTheSameTurn)
{
  int fds[2][2];
  Pair pair { loop_, {} };
  for (auto &ends : fds)
    {
      ASSERT_EQ (pipe (ends), 0);
      ASSERT_EQ (write (ends[1], "x", 1), 1);
    }
  Call ([&] {
    for (int i = 0; i < 2; i++)
      pair.watches[i] = tps_loop_add_watch (loop_, fds[i][0], EPOLLIN, Pair::OnReady, &pair,
                                            nullptr);
  });
  Call ([] {});
  Call ([] {});
  EXPECT_EQ (pair.n_events, 1);
  for (auto &ends : fds)
    {
      close (ends[0]);
      close (ends[1]);
    }
}

// Echoes every byte.
struct Echo
{
  int fd;
  static void
  OnReady (guint32, gpointer data)
  {
    char byte;
    int fd = static_cast<Echo *> (data)->fd;
    ASSERT_EQ (read (fd, &byte, 1), 1);
    ASSERT_EQ (write (fd, &byte, 1), 1);
  }
};

struct Ready
{
  int fd;
  std::vector<gboolean> *undisturbed; // the results of tps_loop_is_undisturbed() in all watches
  std::promise<void> done {};

  static void
  OnReady (guint32, gpointer data)
  {
    Ready *self = static_cast<Ready *> (data);
    char byte;

    EXPECT_EQ (read (self->fd, &byte, 1), 1);
    self->undisturbed->push_back (tps_loop_is_undisturbed ());
    self->done.set_value ();
  }
};

TEST_F (LoopTest, IsUndisturbedInATurnWithOneEventOnly)
{
  int fds[2][2];
  std::vector<gboolean> undisturbed;
  TpsWatch *watches[2];

  for (auto &ends : fds)
    {
      ASSERT_EQ (pipe (ends), 0);
      ASSERT_EQ (write (ends[1], "x", 1), 1);
    }
  Ready ready[2] = { { fds[0][0], &undisturbed }, { fds[1][0], &undisturbed } };
  Call ([&] {
    for (int i = 0; i < 2; i++)
      watches[i] = tps_loop_add_watch (loop_, fds[i][0], EPOLLIN, Ready::OnReady, &ready[i],
                                       nullptr);
  });
  for (auto &one : ready)
    one.done.get_future ().wait ();
  Call ([] {}); // the turn with both events is over
  ready[0].done = std::promise<void> ();
  ASSERT_EQ (write (fds[0][1], "x", 1), 1);
  ready[0].done.get_future ().wait ();
  Call ([&] {
    for (auto &watch : watches)
      tps_loop_remove_watch (loop_, watch);
  });
  EXPECT_EQ (undisturbed, (std::vector<gboolean> { FALSE, FALSE, TRUE }));
  EXPECT_FALSE (tps_loop_is_undisturbed ()); // this thread does not run a loop
  for (auto &ends : fds)
    {
      close (ends[0]);
      close (ends[1]);
    }
}

// Sends events one after another, with posts and timers in between. No event may be lost between
// the last poll and the sleep.
TEST_F (LoopTest, MissesNothingWhereEventsComeInQuickSuccession)
{
  int fds[2];
  ASSERT_EQ (socketpair (AF_UNIX, SOCK_STREAM, 0, fds), 0);
  Echo echo { fds[0] };
  TpsWatch *watch = nullptr;
  int n_timers = 0;
  std::function<void ()> count = [&] { n_timers++; };
  Call (
      [&] { watch = tps_loop_add_watch (loop_, fds[0], EPOLLIN, Echo::OnReady, &echo, nullptr); });
  for (int i = 0; i < 5000; i++)
    {
      char sent = (char) i, received = 0;
      ASSERT_EQ (write (fds[1], &sent, 1), 1);
      ASSERT_EQ (read (fds[1], &received, 1), 1);
      ASSERT_EQ (received, sent);
      if (i % 5 == 0)
        Call ([&] {
          if (i % 50 == 0)
            tps_loop_add_timer (loop_, NowNs () + i, RunFunction, &count);
        });
    }
  std::promise<void> done;
  std::function<void ()> last = [&] { done.set_value (); };
  Call ([&] { tps_loop_add_timer (loop_, NowNs () + 1000000, RunFunction, &last); });
  done.get_future ().wait ();
  EXPECT_EQ (n_timers, 100);
  Call ([&] { tps_loop_remove_watch (loop_, watch); });
  close (fds[0]);
  close (fds[1]);
}

} // namespace
