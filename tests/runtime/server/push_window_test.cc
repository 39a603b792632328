/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The classification of pushes as new, repeated, stale or duplicate, also for tables that are
 * created again. */

#include "tests/runtime/server/push_window_fixture.h"

using namespace push_window_test;

namespace {

TEST_F (PushWindow, takesAnyOrderInsideTheWindowAndNothingBelow)
{
  push ("a", 5000, 1);
  EXPECT_EQ (begin ("a", 5000 - TPS_PUSH_WINDOW), STALE);
  EXPECT_EQ (message, "push 3976 of client a is too old: the server remembers the newest 1024 "
                      "pushes (--push-window), up to 5000");
  EXPECT_EQ (push ("a", 5000 - TPS_PUSH_WINDOW + 1, 2), NEW);
  EXPECT_EQ (push ("a", 4990, 3), NEW);
  EXPECT_EQ (begin ("a", 5000), REPEAT);
  EXPECT_EQ (answer, 1);
  EXPECT_EQ (begin ("a", 4990), REPEAT);
  EXPECT_EQ (answer, 3);
  push ("a", 5001, 4);
  EXPECT_EQ (begin ("a", 5000 - TPS_PUSH_WINDOW + 1), STALE); /* was remembered earlier */
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

TEST_F (PushWindow, belowTheWindowNoDigestIsNeeded)
{
  push ("a", 1, 1);
  push ("a", TPS_PUSH_WINDOW + 1, 2);
  EXPECT_EQ (begin_unknown ("a", 1), TPS_PUSH_REFUSED);
}

/* ---- incarnations --------------------------------------------------------------------------- */

/* The push was admitted after the others had ended, to an object created after them. */
TEST_F (PushWindow, aRunningPushThatTheWindowLeftBehindIsNotNewAgain)
{
  EXPECT_EQ (begin ("a", 1), NEW);
  EXPECT_EQ (push_to (1, "a", 100000, 10), NEW);
  end ("a", 1, 0, 30);
  EXPECT_EQ (begin ("a", 1, 0, nullptr, 20), STALE);
  EXPECT_EQ (begin ("a", 1, 0, nullptr, 31), NEW) << "created after it";
}

/* The client's window has become a floor before it begins anew. */
TEST_F (SmallPushWindow, aRunThatBeginsAnewAfterAFloorIsApplied)
{
  gint64 lsn = 21;

  push_to (1, "a", 5000, 10);
  for (const char *client : { "b", "c", "d" })
    push_to (1, client, 1, 20);
  for (gint64 sequence = 0; sequence < 100; sequence++)
    ASSERT_EQ (push_to (21, "a", sequence, ++lsn), NEW) << sequence;
  EXPECT_EQ (begin ("a", 50, 0, nullptr, 21), STALE);
  EXPECT_EQ (begin ("a", 4999, 0, nullptr, 1), STALE);
}

/* In the log, the push that was left behind follows the one that has moved the window. */
TEST_F (PushWindow, aReplayedPushThatTheWindowLeftBehindIsNotNewAgain)
{
  TpsPushDigest digest = digest_of (0);

  for (const auto &[sequence, lsn] : { std::pair (100000, 10), std::pair (1, 30) })
    {
      TpsPushRequest request = { "a", sequence, &digest, 1, nullptr, nullptr, nullptr };

      EXPECT_TRUE (tps_push_window_replay (window, &request, 0, 0, lsn, nullptr));
    }
  EXPECT_EQ (begin ("a", 1, 0, nullptr, 20), STALE);
  EXPECT_EQ (begin ("a", 1, 0, nullptr, 31), NEW) << "created after it";
  fail ("a", 1);
}

TEST_F (SmallPushWindow, aFloorHoldsForEarlierTablesOnly)
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

} // namespace
