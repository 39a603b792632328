/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests calls that arrive while a push is being applied. A linker wrapper lets the test run between
 * a push and its checks (--wrap, see BUILD). */

#include <gmock/gmock.h>

#include "tests/plugin/service/tables_fixture.h"

namespace {

/* While it is closed, it blocks every application of rows. */
class Gate
{
public:
  void
  pass ()
  {
    std::unique_lock<std::mutex> guard (lock);

    n_inside++;
    changed.notify_all ();
    changed.wait (guard, [&] { return open; });
    n_inside--;
  }

  void
  wait_for_one ()
  {
    std::unique_lock<std::mutex> guard (lock);
    changed.wait (guard, [&] { return n_inside > 0; });
  }

  void
  set_open (bool is_open)
  {
    std::lock_guard<std::mutex> guard (lock);
    open = is_open;
    changed.notify_all ();
  }

private:
  std::mutex lock;
  std::condition_variable changed;
  int n_inside = 0;
  bool open = true;
};

Gate gate;

} // namespace

/* Only the pushes of this test have as many bytes. */
constexpr gsize kManyBytes = 100000;

extern "C"
{
  gboolean __real_tps_sequencer_may_admit (TpsSequencer *sequencer, gsize n_bytes, GError **error);
  gboolean __wrap_tps_sequencer_may_admit (TpsSequencer *sequencer, gsize n_bytes, GError **error);

  gboolean
  __wrap_tps_sequencer_may_admit (TpsSequencer *sequencer, gsize n_bytes, GError **error)
  {
    if (n_bytes > kManyBytes)
      gate.pass ();
    return __real_tps_sequencer_may_admit (sequencer, n_bytes, error);
  }
}

namespace thriftps {
namespace {

/* Pushes of 20,000 rows are large enough to run on a worker, of which there are two. */
class RunningPush : public TablesFixture
{
protected:
  RunningPush ()
  {
    create ("a")->code ();
    gate.set_open (false);
  }

  ~RunningPush () override
  {
    gate.set_open (true);
  }

  Reply
  push (gint64 sequence, bool may_wait = true, const char *table = "a", float value = -1)
  {
    return push_rows (table, std::vector<gint64> (20000, 1), value, "c", sequence, may_wait);
  }

  Reply
  start (gint64 sequence, const char *table = "a")
  {
    Reply first = push (sequence, true, table);

    gate.wait_for_one ();
    return first;
  }
};

TEST_F (RunningPush, repeatsWaitForItWithoutAThread)
{
  Reply first = start (1);
  Reply repeats[] = { push (1), push (1), push (1) };

  /* The other worker must be free. A repeat that waited on a thread would have blocked it. */
  EXPECT_EQ (create ("b")->code (), 0);
  EXPECT_FALSE (first->has_come ());
  for (const Reply &repeat : repeats)
    EXPECT_FALSE (repeat->has_come ());
  gate.set_open (true);
  EXPECT_EQ (first->code (), 0);
  for (const Reply &repeat : repeats)
    EXPECT_EQ (repeat->code (), 0);
  EXPECT_EQ (value_of ("a", 1), 20000);
}

TEST_F (RunningPush, repeatsAreUnavailableWhereTheyMayNotWait)
{
  Reply first = start (1);
  Reply repeat = push (1, false);

  EXPECT_EQ (repeat->code (), 8);
  EXPECT_THAT (repeat->text (), testing::HasSubstr ("push 1 of client c is being applied"));
  gate.set_open (true);
  EXPECT_EQ (first->code (), 0);
  EXPECT_EQ (push (1, false)->code (), 0);
  EXPECT_EQ (value_of ("a", 1), 20000);
}

TEST_F (RunningPush, repeatsFailWithIt)
{
  Reply first = start (1, "none");
  Reply repeat = push (1, true, "none");

  gate.set_open (true);
  EXPECT_EQ (first->code (), 2);
  EXPECT_EQ (repeat->code (), 2);
  EXPECT_EQ (repeat->text (), first->text ());
}

TEST_F (RunningPush, anotherRequestOfItsIdIsADuplicateAtOnce)
{
  Reply first = start (1);

  EXPECT_EQ (push (1, true, "a", -2)->code (), 5);
  EXPECT_FALSE (first->has_come ());
  gate.set_open (true);
  EXPECT_EQ (first->code (), 0);
}

TEST_F (RunningPush, endsAfterTheServiceHasShutDown)
{
  Reply first = start (1);
  Reply repeat = push (1);

  EXPECT_EQ (create ("b")->code (), 0); /* both workers have taken the earlier calls */
  tps_dispatcher_shut_down (dispatcher);
  EXPECT_EQ (push (1)->code (), 8);
  gate.set_open (true);
  EXPECT_EQ (first->code (), 0);
  EXPECT_EQ (repeat->code (), 0);
}

} // namespace
} // namespace thriftps
