// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/process/child.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

// A shell that executes lines. It answers each line with the last word that it was told to print.
class Child : public testing::Test
{
protected:
  void
  SetUp () override
  {
    std::vector<gchar *> argv = {
      const_cast<gchar *> ("/bin/sh"), const_cast<gchar *> ("-c"),
      const_cast<gchar *> ("while read -r line; do eval \"$line\"; done"), nullptr
    };
    supervisor_ = tps_supervisor_new ();
    child_ = tps_child_start (supervisor_, "shell", argv.data (), nullptr);
    ASSERT_NE (child_, nullptr);
  }
  void
  TearDown () override
  {
    tps_child_free (child_);
    tps_supervisor_free (supervisor_);
  }

  std::string
  Ask (const char *line)
  {
    g_autoptr (GError) error = nullptr;
    g_autofree gchar *answer = tps_child_ask (child_, line, &error);
    return answer != nullptr ? answer : error->message;
  }

  // Returns the state letter of proc(5). T means stopped.
  char
  State (const std::string &pid)
  {
    g_autofree gchar *text = nullptr;
    const std::string path = "/proc/" + pid + "/stat";
    if (!g_file_get_contents (path.c_str (), &text, nullptr, nullptr))
      return '?';
    return std::string (text)[std::string (text).rfind (')') + 2];
  }

  TpsSupervisor *supervisor_ = nullptr;
  TpsChild *child_ = nullptr;
};

TEST_F (Child, StandsStillAndGoesOn)
{
  const std::string pid = Ask ("echo $$");

  tps_child_pause (child_);
  while (State (pid) != 'T') // the signal may arrive later
    sched_yield ();
  ASSERT_TRUE (tps_child_send (child_, "echo later", nullptr));
  EXPECT_EQ (State (pid), 'T');
  EXPECT_TRUE (tps_supervisor_check (supervisor_, nullptr)); // the child has not ended
  tps_child_resume (child_);
  g_autofree gchar *answer = tps_child_receive (child_, nullptr);
  EXPECT_STREQ (answer, "later");
}

TEST_F (Child, ItsDescriptorsAreCounted)
{
  const guint before = (Ask ("echo ready"), tps_child_count_descriptors (child_));

  EXPECT_GE (before, 3u);
  EXPECT_EQ (Ask ("exec 7</dev/null 8</dev/null; echo opened"), "opened");
  EXPECT_EQ (tps_child_count_descriptors (child_), before + 2);
  EXPECT_EQ (Ask ("exec 7<&-; echo closed"), "closed");
  EXPECT_EQ (tps_child_count_descriptors (child_), before + 1);
}

TEST_F (Child, ItsMemoryIsMeasured)
{
  const gsize before = (Ask ("echo ready"), tps_child_get_resident_bytes (child_));

  EXPECT_GT (before, 0u);
  EXPECT_EQ (Ask ("x=$(head -c 20000000 /dev/zero | tr '\\0' x); echo ${#x}"), "20000000");
  EXPECT_GT (tps_child_get_resident_bytes (child_), before + 19000000);
}

TEST_F (Child, ItsPeakIsMeasuredAnew)
{
  EXPECT_EQ (Ask ("x=$(head -c 20000000 /dev/zero | tr '\\0' x); echo ${#x}; x="), "20000000");
  const gsize peak = (Ask ("echo ready"), tps_child_get_peak_bytes (child_));
  EXPECT_GT (peak, 20000000u);
  tps_child_reset_peak (child_);
  EXPECT_LT (tps_child_get_peak_bytes (child_), peak);
}

TEST_F (Child, MayBeKilled)
{
  g_autoptr (GError) error = nullptr;

  tps_child_pause (child_); // killing must work while the child is paused
  tps_child_kill (child_);
  EXPECT_TRUE (tps_supervisor_check (supervisor_, &error)) << error->message;
  EXPECT_EQ (tps_child_get_peak_bytes (child_), 0u);
}

TEST_F (Child, EverythingThatItPrintsIsReceived)
{
  ASSERT_TRUE (tps_child_send (child_, "head -c 200000 /dev/zero | tr '\\0' x; exit 0", nullptr));
  g_autofree gchar *all = tps_child_receive_all (child_, nullptr);
  ASSERT_NE (all, nullptr);
  EXPECT_EQ (std::string (all), std::string (200000, 'x'));
  EXPECT_TRUE (tps_supervisor_check (supervisor_, nullptr)); // the child is no longer watched
}

TEST_F (Child, AnExitStatusIsAnError)
{
  g_autoptr (GError) error = nullptr;

  ASSERT_TRUE (tps_child_send (child_, "echo some; exit 3", nullptr));
  EXPECT_EQ (tps_child_receive_all (child_, &error), nullptr);
  EXPECT_NE (std::string (error->message).find ("ended with status 3"), std::string::npos);
}

} // namespace
