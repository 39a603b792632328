// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/service/push_window.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/error.h"

namespace {

class PushWindowTest : public testing::Test
{
protected:
  void
  SetUp () override
  {
    window_ = tps_push_window_new ();
  }
  void
  TearDown () override
  {
    tps_push_window_free (window_);
  }

  // The answer of a repeat; -1 = new, -2 = stale, -3 = duplicate.
  gint64
  Check (const std::string &client, gint64 sequence, const char *request = "r")
  {
    g_autoptr (GError) error = nullptr;
    gint64 answer = 0;
    switch (tps_push_window_check (window_, client.c_str (), sequence, request, &answer, &error))
      {
      case TPS_PUSH_NEW:
        return -1;
      case TPS_PUSH_REPEAT:
        return answer;
      default:
        return error->code == TPS_ERROR_STALE ? -2 : error->code == TPS_ERROR_DUPLICATE ? -3 : -4;
      }
  }
  void
  Remember (const std::string &client, gint64 sequence, gint64 answer)
  {
    tps_push_window_remember (window_, client.c_str (), sequence, "r", answer);
  }

  TpsPushWindow *window_ = nullptr;
};

TEST_F (PushWindowTest, RepeatsAreAnsweredAsTheFirstTime)
{
  EXPECT_EQ (Check ("a", 5), -1);
  Remember ("a", 5, 55);
  EXPECT_EQ (Check ("a", 5), 55);
  EXPECT_EQ (Check ("b", 5), -1);
  EXPECT_EQ (Check ("a", 4), -1);
  EXPECT_EQ (Check ("a", 5, "other"), -3);
}

TEST_F (PushWindowTest, TakesAnyOrderInsideTheWindowAndNothingBelow)
{
  Remember ("a", 5000, 1);
  EXPECT_EQ (Check ("a", 5000 - TPS_PUSH_WINDOW), -2);
  EXPECT_EQ (Check ("a", 5000 - TPS_PUSH_WINDOW + 1), -1);
  Remember ("a", 4990, 2);
  EXPECT_EQ (Check ("a", 5000), 1);
  EXPECT_EQ (Check ("a", 4990), 2);
}

TEST_F (PushWindowTest, RemembersTheWholeWindowHoweverFarItMoves)
{
  for (gint64 sequence = 0; sequence < 10000; sequence++)
    {
      ASSERT_EQ (Check ("a", sequence), -1);
      Remember ("a", sequence, sequence + 7);
    }
  for (gint64 sequence = 10000 - TPS_PUSH_WINDOW; sequence < 10000; sequence++)
    ASSERT_EQ (Check ("a", sequence), sequence + 7);
}

TEST_F (PushWindowTest, BearsTheEndsOfTheNumbers)
{
  Remember ("a", G_MAXINT64, 1);
  EXPECT_EQ (Check ("a", G_MININT64), -2);
  Remember ("b", G_MININT64, 2);
  EXPECT_EQ (Check ("b", G_MAXINT64), -1);
  Remember ("b", G_MAXINT64, 3);
  EXPECT_EQ (Check ("b", G_MAXINT64), 3);
}

TEST_F (PushWindowTest, ForgetsTheClientsLeastRecentlyHeardOf)
{
  for (int i = 0; i < TPS_PUSH_MAX_CLIENTS; i++)
    Remember (std::to_string (i), 1, i);
  Remember ("0", 2, 0);
  Remember ("new", 1, 9);
  EXPECT_EQ (Check ("1", 1), -1);
  EXPECT_EQ (Check ("0", 1), 0);
  EXPECT_EQ (Check ("2", 1), 2);
  EXPECT_EQ (Check ("new", 1), 9);
}

TEST_F (PushWindowTest, BoundsWhatItRemembersInAll)
{
  for (gint64 client = 0; client < 400; client++)
    for (gint64 sequence = 0; sequence < TPS_PUSH_WINDOW; sequence++)
      Remember (std::to_string (client), sequence, 1);
  EXPECT_EQ (Check ("0", 5), -1);
  EXPECT_EQ (Check ("399", 5), 1);
}

} // namespace
