/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <fstream>

#include "runtime/base/error.h"

namespace {

struct Seen
{
  TpsMutex lock = TPS_MUTEX_INIT;
  TpsCond changed = PTHREAD_COND_INITIALIZER;
  bool may_look = false, has_looked = false;
  sigset_t blocked {};
  char name[16] = "";

  void
  set (bool *flag)
  {
    tps_mutex_lock (&lock);
    *flag = true;
    tps_cond_broadcast (&changed);
    tps_mutex_unlock (&lock);
  }

  void
  wait (const bool *flag)
  {
    tps_mutex_lock (&lock);
    while (!*flag)
      tps_cond_wait (&changed, &lock);
    tps_mutex_unlock (&lock);
  }
};

/* Waits for the permission to look, because the creator sets the name after the start. */
void *
look (void *data)
{
  Seen *seen = static_cast<Seen *> (data);

  seen->wait (&seen->may_look);
  pthread_sigmask (SIG_BLOCK, nullptr, &seen->blocked);
  pthread_getname_np (pthread_self (), seen->name, sizeof seen->name);
  seen->set (&seen->has_looked);
  return nullptr;
}

TEST (Thread, BlocksSignalsAndHasAName)
{
  Seen seen;
  TpsThread thread;
  sigset_t before, after;

  pthread_sigmask (SIG_BLOCK, nullptr, &before);
  ASSERT_TRUE (tps_thread_start (&thread, "a-name-that-is-long", look, &seen, nullptr));
  pthread_sigmask (SIG_BLOCK, nullptr, &after);
  seen.set (&seen.may_look);
  tps_sync_check (pthread_join (thread, nullptr));
  EXPECT_STREQ (seen.name, "a-name-that-is-");
  for (int number : { SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGUSR1 })
    {
      EXPECT_EQ (sigismember (&seen.blocked, number), 1) << number;
      EXPECT_EQ (sigismember (&after, number), sigismember (&before, number)) << number;
    }
}

TEST (Thread, MayBeDetached)
{
  static Seen seen; /* the thread may still use it after the test */

  ASSERT_TRUE (tps_thread_start_detached ("detached", look, &seen, nullptr));
  seen.set (&seen.may_look);
  seen.wait (&seen.has_looked);
  EXPECT_STREQ (seen.name, "detached");
}

/* Sanitizers reserve more address space than there is memory. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

/* Leaves too little address space for the stack of a thread. */
[[noreturn]] void
start_without_room ()
{
  std::ifstream statm ("/proc/self/statm");
  rlim_t n_pages = 0;
  GError *error = nullptr;
  TpsThread thread;
  Seen seen;

  statm >> n_pages;
  struct rlimit limit = { n_pages * 4096 + (1 << 20), RLIM_INFINITY };
  setrlimit (RLIMIT_AS, &limit);
  if (tps_thread_start (&thread, "tps-test", look, &seen, &error)
      || tps_thread_start_detached ("tps-test", look, &seen, nullptr))
    exit (1);
  fprintf (stderr, "%d: %s", g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED),
           error->message);
  exit (0);
}

TEST (ThreadDeathTest, ThatTheSystemRefusesIsAnError)
{
  EXPECT_EXIT (start_without_room (), testing::ExitedWithCode (0),
               "1: cannot start thread tps-test: Resource temporarily unavailable");
}

#endif

} // namespace
