// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/process/supervisor.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace {

class Supervisor : public testing::Test
{
protected:
  void
  SetUp () override
  {
    supervisor_ = tps_supervisor_new ();
  }
  void
  TearDown () override
  {
    if (supervisor_ != nullptr)
      tps_supervisor_free (supervisor_);
  }

  // Starts a shell. Returns the read end of its output.
  gint
  Start (const char *name, const char *script)
  {
    std::vector<gchar *> argv = { const_cast<gchar *> ("/bin/sh"), const_cast<gchar *> ("-c"),
                                  const_cast<gchar *> (script), nullptr };
    gint out = -1;
    EXPECT_TRUE (tps_supervisor_start (supervisor_, name, argv.data (), nullptr, &out, nullptr));
    return out;
  }

  // Blocks until the other end of the pipe is closed. This happens when the child exits.
  static void
  WaitForEnd (gint fd)
  {
    char c;
    while (read (fd, &c, 1) > 0)
      {
      }
    close (fd);
  }

  // A check may run before the kernel has made the ended child a zombie, so the function repeats
  // the check.
  std::string
  FirstFailure ()
  {
    GError *error = nullptr;
    while (tps_supervisor_check (supervisor_, &error))
      sched_yield ();
    std::string text = error->message;
    g_error_free (error);
    return text;
  }

  TpsSupervisor *supervisor_;
};

TEST_F (Supervisor, NamesTheFailedChildAndItsStatus)
{
  WaitForEnd (Start ("trainer0", "exit 7"));
  EXPECT_NE (FirstFailure ().find ("trainer0"), std::string::npos);
  EXPECT_NE (FirstFailure ().find ("status 7"), std::string::npos);
}

TEST_F (Supervisor, NamesTheSignal)
{
  WaitForEnd (Start ("server2", "kill -KILL $$"));
  EXPECT_NE (FirstFailure ().find ("signal 9"), std::string::npos);
}

TEST_F (Supervisor, StopEndsChildrenThatHandleSigterm)
{
  gint out = Start ("polite", "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done");
  char c;
  ASSERT_EQ (read (out, &c, 1), 1);
  EXPECT_TRUE (tps_supervisor_stop (supervisor_, 5000));
  close (out);
}

TEST_F (Supervisor, StopKillsChildrenThatIgnoreSigterm)
{
  gint out = Start ("deaf", "trap '' TERM; echo up; while :; do sleep 0.01; done");
  char c;
  ASSERT_EQ (read (out, &c, 1), 1);
  EXPECT_FALSE (tps_supervisor_stop (supervisor_, 20));
  close (out);
}

TEST_F (Supervisor, AProgramThatIsNotThereIsNamedAtOnce)
{
  std::vector<gchar *> argv = { const_cast<gchar *> ("/nonexistent/program"), nullptr };
  gint out = -1;
  GError *error = nullptr;
  ASSERT_FALSE (tps_supervisor_start (supervisor_, "ghost", argv.data (), nullptr, &out, &error));
  EXPECT_STREQ (error->message,
                "cannot start ghost: /nonexistent/program: No such file or directory");
  g_error_free (error);
  EXPECT_EQ (out, -1);
  EXPECT_TRUE (tps_supervisor_check (supervisor_, nullptr));
}

TEST_F (Supervisor, APatientCheckWaitsForAnExitInProgress)
{
  WaitForEnd (Start ("trainer1", "kill -KILL $$"));
  GError *error = nullptr;
  EXPECT_FALSE (tps_supervisor_check_patiently (supervisor_, 60000, &error));
  EXPECT_NE (std::string (error->message).find ("trainer1"), std::string::npos) << error->message;
  g_error_free (error);
}

TEST_F (Supervisor, APatientCheckEndsAtItsTimeout)
{
  Start ("idle", "while :; do sleep 0.01; done");
  EXPECT_TRUE (tps_supervisor_check_patiently (supervisor_, 1, nullptr));
}

// If the launcher is killed with SIGKILL, its child must exit, too.
TEST_F (Supervisor, ChildrenDieWithTheLauncher)
{
  gint pipe_fds[2];
  ASSERT_EQ (pipe (pipe_fds), 0);
  pid_t launcher = fork ();
  if (launcher == 0)
    {
      dup2 (pipe_fds[1], STDOUT_FILENO);
      close (pipe_fds[0]);
      close (pipe_fds[1]);
      gchar *argv[] = { const_cast<gchar *> ("/bin/sh"), const_cast<gchar *> ("-c"),
                        const_cast<gchar *> ("echo up; while :; do sleep 0.01; done"), nullptr };
      tps_supervisor_start (supervisor_, "child", argv, nullptr, nullptr, nullptr);
      pause ();
      _exit (0);
    }
  close (pipe_fds[1]);
  char c;
  ASSERT_EQ (read (pipe_fds[0], &c, 1), 1);
  kill (launcher, SIGKILL);
  waitpid (launcher, nullptr, 0);
  WaitForEnd (pipe_fds[0]); // returns only after launcher and child have exited
}

} // namespace
