/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The limits of a window: clients, floors, remembered pushes, and its budget. */

#include <thread>

#include "tests/runtime/server/push_window_fixture.h"

using namespace push_window_test;

namespace {

/* After a client has lost its window, its earlier pushes must not become new again. */
TEST_F (SmallPushWindow, theClientLeastRecentlyHeardOfKeepsAFloor)
{
  push ("a", 1, 1);
  push ("b", 5, 2);
  push ("c", 1, 3);
  EXPECT_EQ (begin ("a", 1), REPEAT); /* counts as activity of a */
  push ("d", 1, 4);
  EXPECT_EQ (begin ("a", 1), REPEAT);
  EXPECT_EQ (begin ("c", 1), REPEAT);
  EXPECT_EQ (begin ("d", 1), REPEAT);
  EXPECT_EQ (begin ("b", 5), STALE);
  EXPECT_EQ (message, "push 5 of client b: pushes up to 5 are no longer remembered");
  EXPECT_EQ (begin ("b", 1), STALE) << "it may have been applied";
  EXPECT_EQ (push ("b", 6, 5), NEW);
  EXPECT_EQ (begin ("b", 6), REPEAT);
  EXPECT_EQ (begin ("b", 5), STALE);
  EXPECT_EQ (begin ("a", 1), STALE); /* b's new window has replaced a's */
}

TEST_F (SmallPushWindow, newNamesAreRefusedWhenFloorsAreUsedUp)
{
  for (const char *client : { "a", "b", "c", "d", "e", "f", "g" })
    ASSERT_EQ (push (client, 1, 1), NEW);
  EXPECT_EQ (begin ("h", 1), EXHAUSTED);
  EXPECT_EQ (
      message,
      "client h: no room to remember its pushes: callers without a tenant already used 7 client "
      "names, of at most 7; a name is forgotten after 0 s without a push, or by "
      "Node.forget_push_clients");
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
      now_ns += 10; /* pushes of a to g at 0 to 60, floors of a to d */
    }
  now_ns = 999;
  EXPECT_EQ (begin ("b", 1), STALE); /* counts as activity of b */
  EXPECT_EQ (begin ("h", 1), EXHAUSTED);
  now_ns = 1000;
  EXPECT_EQ (push ("h", 1, 1), NEW) << "a is forgotten";
  now_ns = 1030;
  EXPECT_EQ (begin ("b", 1), STALE);
  EXPECT_EQ (push ("c", 1, 1), NEW);
}

/* These attacks must not make a push new again: more names than windows, and more pushes than the
 * window remembers. */
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

TEST_F (PushWindow, acceptsTheSmallestAndTheLargestNumbers)
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

/* ---- tenants -------------------------------------------------------------------------------- */

/* A share has (30 + 130) / 16 = 10 clients. */
class SharedPushWindow : public PushWindow
{
protected:
  SharedPushWindow () : PushWindow (options ())
  {
    now_ns = 0;
  }

  static TpsPushWindowOptions
  options ()
  {
    TpsPushWindowOptions options = small_options ();

    options.max_clients = 30;
    options.max_remembered = 1000;
    options.max_floors = 130;
    return options;
  }

  /* Pushes with new names until one is refused; returns the number of the others. */
  int
  flood (const char *tenant)
  {
    for (int i = 0; i < 1000; i++)
      if (push_of (tenant, std::string (tenant != nullptr ? tenant : "") + std::to_string (i), 1)
          != NEW)
        return i;
    return -1;
  }
};

TEST_F (SharedPushWindow, aRefusalTellsNoTotals)
{
  EXPECT_EQ (flood (nullptr), 160);
  for (const char *tenant : { "a", "b", "c", "d", "e", "f", "g", "h" })
    ASSERT_EQ (flood (tenant), 10) << tenant;
  EXPECT_EQ (flood ("i"), 1) << "each tenant has some, whatever the others have";
  EXPECT_EQ (flood ("j"), 1);
  EXPECT_NE (message.find ("tenant j already used 1 client names, of at most 10, and other callers "
                           "all that remain; "),
             std::string::npos)
      << message;
}

/* The windows of a tenant become floors only for its own windows, unless it has the most. */
TEST_F (SharedPushWindow, theTenantWithTheLargestWindowsGivesThemUp)
{
  ASSERT_EQ (push_of ("b", "b", 1), NEW);
  EXPECT_EQ (flood (nullptr), 160);
  EXPECT_EQ (begin ("b", 1), REPEAT) << "still a window: 129 other clients have lost theirs";
  for (int i = 0; i < 9; i++)
    {
      ASSERT_EQ (push_of ("b", "b" + std::to_string (i), 1), NEW);
      now_ns++;
    }
  EXPECT_EQ (begin ("b", 1), REPEAT);
  EXPECT_EQ (begin ("b0", 1), REPEAT);
}

TEST_F (SharedPushWindow, aClientWithAFloorAlwaysGetsAWindow)
{
  const char *const tenants[] = { "a", "b", "c", "d" };
  TpsPushWindowSize size;

  for (const char *tenant : tenants)
    ASSERT_EQ (flood (tenant), 10);
  EXPECT_EQ (begin ("a0", 1), STALE) << "a floor";
  for (const char *tenant : tenants) /* pushes run in 40 windows, of at most 30 */
    for (int i = 0; i < 10; i++)
      EXPECT_EQ (begin (tenant + std::to_string (i), 2), NEW);
  EXPECT_EQ (push_of ("e", "new", 1), NEW) << "running pushes of others do not matter";
  for (const char *tenant : tenants)
    for (int i = 0; i < 10; i++)
      end (tenant + std::to_string (i), 2, 0);
  EXPECT_EQ (push ("newer", 1, 1), NEW);
  tps_push_window_get_size (window, &size);
  EXPECT_EQ (size.n_clients, 30u);
  EXPECT_EQ (size.n_floors, 12u);
}

/* The log of a server may have many more names than the server remembered at any time. */
TEST_F (SharedPushWindow, aReplayForgetsClientsAsTheServerDid)
{
  TpsPushDigest digest = digest_of (1);
  TpsPushWindowSize size;
  auto replay = [&] (const std::string &client, gint64 time_ms) {
    TpsPushRequest request = {
      .client = client.c_str (), .sequence = 1, .digest = &digest, .tenant = "a"
    };

    EXPECT_TRUE (tps_push_window_replay (window, &request, time_ms, 0, 1, nullptr));
  };

  /* A millisecond is more than the idle time. */
  for (int day = 1; day <= 100; day++)
    for (int i = 0; i < 5; i++)
      replay (std::to_string (day) + "." + std::to_string (i), 1000 + day);
  replay ("with a clock that was set back", 7);
  replay ("without a time", 0);
  EXPECT_EQ (begin ("100.0", 1, 1), REPEAT);
  tps_push_window_get_size (window, &size);
  EXPECT_LE (size.n_clients + size.n_floors, 10u);
  EXPECT_EQ (push_of ("b", "new of b", 1), NEW);
  now_ns += 1000;
  EXPECT_EQ (push_of ("a", "new of a", 1), NEW);
}

/* The drop of a window is no activity of its client. */
TEST_F (SharedPushWindow, theIdleTimeOfAFloorBeginsWithTheLastPush)
{
  ASSERT_EQ (flood ("a"), 10);
  now_ns = 600;
  for (const char *tenant : { "b", "c", "d" }) /* some clients of a have floors then */
    ASSERT_EQ (flood (tenant), 10);
  EXPECT_EQ (tps_push_window_forget (window, "a", 601), 0u);
  EXPECT_EQ (tps_push_window_forget (window, "a", 600), 10u);
}

/* ---- budgets -------------------------------------------------------------------------------- */

/* Another thread takes every byte that becomes free. A window must still become a floor, so the
 * window must not release its charge in between. */
TEST (FullBudget, windowsBecomeFloorsWhileOthersTakeFreeMemory)
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
      TpsPushRequest request = { name.c_str (), 1, &digest, 0, nullptr, nullptr, nullptr };
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

} // namespace
