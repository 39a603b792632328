/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the single rules of the registry. */

#include "tests/plugin/memory/registry_fixture.h"

namespace tps_test {
namespace {

/* ---- limits --------------------------------------------------------------------------------- */

TEST_F (SegmentRegistry, opensNoMoreBytesThanAConnectionMayHave)
{
  g_autoptr (GError) error = nullptr;

  EXPECT_GT (open (TPS_SEGMENT_REQUESTS, 1 << 19), 0);
  EXPECT_GT (open (TPS_SEGMENT_ANSWERS, 1 << 19), 0);
  EXPECT_EQ (open (TPS_SEGMENT_REQUESTS, 1, &error), -1);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  EXPECT_EQ (tps_budget_get_held (account), gsize { 1 } << 20);
}

TEST_F (SegmentRegistry, opensNoMoreSegmentsThanAConnectionMayHave)
{
  g_autoptr (GError) error = nullptr;

  for (int i = 0; i < 8; i++)
    EXPECT_GT (open (TPS_SEGMENT_REQUESTS, 1), 0);
  EXPECT_EQ (open (TPS_SEGMENT_REQUESTS, 1, &error), -1);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
}

TEST_F (SegmentRegistry, opensNoMoreThanTheAccountAllows)
{
  g_autoptr (GError) error = nullptr;

  make (1 << 30, 8);
  EXPECT_GT (open (TPS_SEGMENT_REQUESTS, 1 << 20), 0);
  EXPECT_EQ (open (TPS_SEGMENT_REQUESTS, (1 << 20) + 1, &error), -1);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  EXPECT_GT (open (TPS_SEGMENT_REQUESTS, 1 << 20), 0);
}

TEST_F (SegmentRegistry, aRefusedSegmentCountsAgainstNoLimit)
{
  g_autoptr (TpsBudget) all = tps_budget_new (account, "segments", 1 << 30);
  TpsSegmentLimits limits = { 1 << 30, 8, nullptr, all };

  g_clear_pointer (&registry, tps_segment_registry_unref);
  registry = tps_segment_registry_new (&limits);
  EXPECT_EQ (open (TPS_SEGMENT_REQUESTS, 1 << 22), -1); /* twice the limit of the account */
  EXPECT_EQ (tps_budget_get_held (all), 0u);
  EXPECT_EQ (tps_budget_get_held (account), 0u);
}

TEST_F (SegmentRegistry, refusesSizesAndUsesThatAreNone)
{
  for (gsize n_bytes : { gsize { G_MAXSIZE }, gsize { G_MAXINT64 }, gsize { 1 } << 40 })
    {
      g_autoptr (GError) error = nullptr;

      EXPECT_EQ (open (TPS_SEGMENT_REQUESTS, n_bytes, &error), -1);
      EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
    }
  g_autoptr (GError) no_bytes = nullptr;
  g_autoptr (GError) no_use = nullptr;

  EXPECT_EQ (open (TPS_SEGMENT_REQUESTS, 0, &no_bytes), -1);
  EXPECT_TRUE (g_error_matches (no_bytes, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
  EXPECT_EQ (open (static_cast<TpsSegmentUse> (4), 1, &no_use), -1);
  EXPECT_TRUE (g_error_matches (no_use, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
}

TEST_F (SegmentRegistry, closedSegmentsMakeRoom)
{
  for (int i = 0; i < 100; i++)
    {
      gint64 id = open (TPS_SEGMENT_ANSWERS, 1 << 20);

      ASSERT_GT (id, 0);
      EXPECT_TRUE (close_segment (id));
      EXPECT_FALSE (close_segment (id));
    }
}

/* ---- slices --------------------------------------------------------------------------------- */

TEST_F (SegmentRegistry, aMessageHasNoSharingWhereThereAreNoSegments)
{
  int released = 0;

  EXPECT_EQ (receive (&released), nullptr);
  EXPECT_EQ (released, 0);
  EXPECT_EQ (answer (), nullptr);
}

TEST_F (SegmentRegistry, slicesStayInsideTheirSegment)
{
  gint64 id = open (TPS_SEGMENT_REQUESTS, 2 * kPage);
  int released = 0;
  Sharing sharing = receive (&released);
  const gint64 size = 2 * kPage;

  EXPECT_EQ (resolve_refusal (sharing.get (), { id, 0, size }), "");
  EXPECT_EQ (resolve_refusal (sharing.get (), { id, size - 64, 64 }), "");
  EXPECT_EQ (resolve_refusal (sharing.get (), { id, size, 0 }), "");
  for (TpsSharedSlice slice :
       std::initializer_list<TpsSharedSlice> { { id, 0, size + 1 },
                                               { id, 64, size },
                                               { id, size, 1 },
                                               { id, size + 64, 0 },
                                               { id, -64, 64 },
                                               { id, 0, -1 },
                                               { id, G_MAXINT64 - 63, 64 },
                                               { id, 64, G_MAXINT64 },
                                               { id, G_MAXINT64 / 64 * 64, G_MAXINT64 },
                                               { id, G_MININT64, G_MININT64 },
                                               { id, 64, G_MININT64 } })
    EXPECT_NE (resolve_refusal (sharing.get (), slice), "") << slice.offset << " " << slice.length;
  for (gint64 offset : { 1, 4, 32, 63, 65 })
    EXPECT_EQ (resolve_refusal (sharing.get (), { id, offset, 4 }),
               "has offset " + std::to_string (offset) + ", expected a multiple of 64");
}

TEST_F (SegmentRegistry, allConnectionsTogetherHaveAsManyAsTheProcessMayHave)
{
  TpsSegmentLimits limits = { 8 * kPage, 8, nullptr };
  gint64 id;

  limits.max_in_process = 3;
  g_autoptr (TpsSegmentRegistry) one = tps_segment_registry_new (&limits);
  g_autoptr (TpsSegmentRegistry) two = tps_segment_registry_new (&limits);
  auto open_one = [&] (TpsSegmentRegistry *of) -> std::string {
    g_autoptr (GError) error = nullptr;
    gsize size;
    gint fd;

    if (!tps_segment_registry_open (of, TPS_SEGMENT_REQUESTS, 1, &id, &size, &fd, nullptr, &error))
      return error->message;
    close (fd);
    return "";
  };

  EXPECT_EQ (open_one (one), "");
  EXPECT_EQ (open_one (one), "");
  EXPECT_EQ (open_one (two), "");
  for (TpsSegmentRegistry *of : { one, two })
    EXPECT_EQ (open_one (of), "all connections together have 3 segments, which is the limit");
  ASSERT_TRUE (tps_segment_registry_close (two, &id, 1, nullptr));
  EXPECT_EQ (open_one (one), "");
  EXPECT_NE (open_one (two), "");
  tps_segment_registry_shut_down (one);
  EXPECT_EQ (open_one (two), "");
}

TEST_F (SegmentRegistry, aSegmentCountsUntilItsChargeIsLetGo)
{
  TpsSegmentCharge *charge = nullptr;
  gsize size;
  gint64 id;
  gint fd;

  make (1 << 20, 1);
  ASSERT_TRUE (tps_segment_registry_open (registry, TPS_SEGMENT_REQUESTS, 1, &id, &size, &fd,
                                          &charge, nullptr));
  ASSERT_TRUE (close_segment (id));
  EXPECT_EQ (tps_budget_get_held (account), kPage);
  EXPECT_EQ (open (TPS_SEGMENT_REQUESTS, 1), -1);
  close (fd);
  tps_segment_charge_unref (charge);
  EXPECT_EQ (tps_budget_get_held (account), 0u);
  EXPECT_GT (open (TPS_SEGMENT_REQUESTS, 1), 0);
}

TEST_F (SegmentRegistry, slicesLieInSegmentsForRequestsOfThisConnection)
{
  gint64 answers = open (TPS_SEGMENT_ANSWERS, kPage);
  gint64 requests = open (TPS_SEGMENT_REQUESTS, kPage);
  TpsSegmentLimits limits = { kPage, 0, nullptr };
  g_autoptr (TpsSegmentRegistry) other = tps_segment_registry_new (&limits);
  gint64 foreign;
  gsize size;
  gint fd;
  int released = 0;
  Sharing sharing = receive (&released);

  ASSERT_TRUE (tps_segment_registry_open (other, TPS_SEGMENT_REQUESTS, 1, &foreign, &size, &fd,
                                          nullptr, nullptr));
  close (fd);
  EXPECT_EQ (resolve_refusal (sharing.get (), { requests, 0, 64 }), "");
  EXPECT_EQ (resolve_refusal (sharing.get (), { answers, 0, 64 }),
             "names segment " + std::to_string (answers) + ", which is for replies");
  for (gint64 id : { foreign, gint64 { 0 }, gint64 { -1 }, gint64 { G_MAXINT64 } })
    EXPECT_EQ (resolve_refusal (sharing.get (), { id, 0, 64 }),
               "names segment " + std::to_string (id) + ", which is not open on this connection");
  close_segment (requests);
  EXPECT_NE (resolve_refusal (sharing.get (), { requests, 0, 64 }), "");
}

TEST_F (SegmentRegistry, aCallIsReleasedWithItsLastSliceAndOnlyOnce)
{
  gint64 id = open (TPS_SEGMENT_REQUESTS, kPage);
  TpsSharedSlice slice = { id, 64, 128 };
  int released = 0;
  Sharing sharing = receive (&released);
  TpsBuffer *one = sharing->ops->resolve (sharing.get (), &slice, nullptr);
  TpsBuffer *two = sharing->ops->resolve (sharing.get (), &slice, nullptr);

  EXPECT_TRUE (tps_buffer_is_shared (one));
  EXPECT_EQ (tps_buffer_get_data (one), tps_buffer_get_data (two));
  EXPECT_EQ (tps_buffer_get_size (one), 128u);
  sharing.reset ();
  tps_buffer_unref (one);
  EXPECT_EQ (released, 0);
  tps_buffer_unref (two);
  EXPECT_EQ (released, 1);
}

TEST_F (SegmentRegistry, memoryThatACallReadsOutlivesTheSegmentAndTheRegistry)
{
  gint64 id = open (TPS_SEGMENT_REQUESTS, kPage);
  TpsSharedSlice slice = { id, 0, kPage };
  int released = 0;
  Sharing sharing = receive (&released);
  TpsBuffer *buffer = sharing->ops->resolve (sharing.get (), &slice, nullptr);

  sharing.reset ();
  tps_segment_registry_shut_down (registry);
  g_clear_pointer (&registry, tps_segment_registry_unref);
  make (1 << 20, 8);
  EXPECT_EQ (tps_buffer_get_data (buffer)[kPage - 1], 0);
  EXPECT_EQ (tps_budget_get_held (account), kPage);
  tps_buffer_unref (buffer);
  EXPECT_EQ (released, 1);
  EXPECT_EQ (tps_budget_get_held (account), 0u);
}

TEST_F (SegmentRegistry, opensNothingAfterItWasShutDown)
{
  g_autoptr (GError) error = nullptr;
  gint64 id = open (TPS_SEGMENT_ANSWERS, kPage);

  tps_segment_registry_shut_down (registry);
  tps_segment_registry_shut_down (registry);
  EXPECT_EQ (tps_budget_get_held (account), 0u);
  EXPECT_EQ (open (TPS_SEGMENT_REQUESTS, 1, &error), -1);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE));
  EXPECT_FALSE (close_segment (id));
  EXPECT_EQ (answer (), nullptr);
}

/* ---- answers -------------------------------------------------------------------------------- */

TEST_F (SegmentRegistry, anAnswerTakesTheSmallestSegmentThatFitsItsFirstTensor)
{
  gint64 large = open (TPS_SEGMENT_ANSWERS, 8 * kPage);
  gint64 middle = open (TPS_SEGMENT_ANSWERS, 4 * kPage);
  gint64 small = open (TPS_SEGMENT_ANSWERS, kPage);
  Sharing sharing = answer ();
  TpsSharedSlice slice;

  (void) large, (void) small;
  EXPECT_FALSE (place (sharing, 8 * kPage + 1, &slice));
  EXPECT_TRUE (place (sharing, kPage + 1, &slice));
  EXPECT_EQ (slice.segment, middle);
  EXPECT_EQ (slice.offset, 0);
  EXPECT_EQ (slice.length, gint64 { kPage } + 1);
  EXPECT_FALSE (place (sharing, 3 * kPage, &slice));
  EXPECT_TRUE (place (sharing, kPage, &slice));
  EXPECT_EQ (slice.segment, middle);
  EXPECT_EQ (slice.offset, gint64 { kPage } + 64);
  EXPECT_FALSE (place (sharing, 2 * kPage - 63, &slice)); /* one byte more than fits */
  EXPECT_TRUE (place (sharing, 2 * kPage - 64, &slice));
}

/* Otherwise the reply would name a segment that the client does not know yet. */
TEST_F (SegmentRegistry, noReplyIsPlacedInASegmentBeforeTheReplyThatAnnouncesIt)
{
  tps_segment_registry_hold_answers (registry);
  tps_segment_registry_hold_answers (registry);
  open (TPS_SEGMENT_ANSWERS, kPage);
  Sharing first = answer ();
  TpsSharedSlice slice;

  EXPECT_FALSE (place (first, 64, &slice));
  tps_segment_registry_resume_answers (registry);
  EXPECT_FALSE (place (first, 64, &slice)) << "the other holds it still";
  tps_segment_registry_resume_answers (registry);
  EXPECT_TRUE (place (first, 64, &slice));
}

TEST_F (SegmentRegistry, answersArePlacedInOtherSegmentsMeanwhile)
{
  tps_segment_registry_hold_answers (registry);
  gint64 known = open (TPS_SEGMENT_ANSWERS, kPage);
  tps_segment_registry_resume_answers (registry);
  tps_segment_registry_hold_answers (registry);
  open (TPS_SEGMENT_ANSWERS, kPage);
  Sharing first = answer (), second = answer ();
  TpsSharedSlice slice;

  ASSERT_TRUE (place (first, 64, &slice));
  EXPECT_EQ (slice.segment, known);
  EXPECT_FALSE (place (second, 64, &slice));
  tps_segment_registry_resume_answers (registry);
  EXPECT_TRUE (place (second, 64, &slice));
}

TEST_F (SegmentRegistry, aSegmentIsTheClientsFromTheCommitToTheRelease)
{
  gint64 id = open (TPS_SEGMENT_ANSWERS, kPage);
  Sharing sharing = answer ();
  TpsSharedSlice slice;

  EXPECT_FALSE (release (id)); /* free */
  ASSERT_TRUE (place (sharing, kPage, &slice));
  EXPECT_FALSE (release (id)); /* being filled */
  EXPECT_EQ (answer (), nullptr);
  tps_segment_registry_commit (sharing.get ());
  sharing.reset ();
  EXPECT_EQ (answer (), nullptr);
  EXPECT_TRUE (release (id));
  EXPECT_FALSE (release (id));
  EXPECT_NE (answer (), nullptr);
}

TEST_F (SegmentRegistry, anAnswerThatIsNotCommittedLeavesItsSegmentFree)
{
  open (TPS_SEGMENT_ANSWERS, kPage);
  Sharing sharing = answer ();
  TpsSharedSlice slice;

  ASSERT_TRUE (place (sharing, 64, &slice));
  EXPECT_EQ (answer (), nullptr);
  sharing.reset ();
  sharing = answer ();
  ASSERT_NE (sharing, nullptr);
  EXPECT_TRUE (place (sharing, kPage, &slice));
}

TEST_F (SegmentRegistry, reservedMemoryIsPlacedWithoutACopy)
{
  gint64 id = open (TPS_SEGMENT_ANSWERS, 4 * kPage);
  gint64 small = open (TPS_SEGMENT_ANSWERS, kPage);
  Sharing sharing = answer ();
  TpsBuffer *buffer = tps_segment_registry_reserve (sharing.get (), nullptr, 2 * kPage);
  TpsSharedSlice slice = {};

  ASSERT_NE (buffer, nullptr);
  guint8 *data = tps_buffer_get_data (buffer);
  memset (data, 'r', 2 * kPage);
  EXPECT_EQ (tps_segment_registry_reserve (sharing.get (), nullptr, 1), nullptr) << "only once";
  EXPECT_TRUE (sharing->ops->place_buffer (sharing.get (), buffer, kPage, kPage, &slice));
  EXPECT_EQ (slice.segment, id);
  EXPECT_EQ (slice.offset, static_cast<gint64> (kPage));
  EXPECT_EQ (slice.length, static_cast<gint64> (kPage));
  EXPECT_TRUE (sharing->ops->place (sharing.get (), data, kPage, &slice));
  EXPECT_EQ (slice.offset, 0);
  EXPECT_TRUE (place (sharing, kPage, &slice)) << "other tensors follow";
  EXPECT_EQ (slice.segment, id);
  EXPECT_EQ (slice.offset, static_cast<gint64> (2 * kPage));
  EXPECT_EQ (data[0], 'r');
  EXPECT_EQ (data[2 * kPage - 1], 'r');
  tps_segment_registry_commit (sharing.get ());
  tps_buffer_unref (buffer);
  sharing.reset ();
  EXPECT_TRUE (release (id));
  EXPECT_FALSE (release (small));
}

TEST_F (SegmentRegistry, reservedMemoryIsHeldUntilItsLastBufferIsReleased)
{
  open (TPS_SEGMENT_ANSWERS, kPage);
  Sharing sharing = answer ();
  EXPECT_EQ (tps_segment_registry_reserve (sharing.get (), nullptr, kPage + 1), nullptr);
  TpsBuffer *buffer = tps_segment_registry_reserve (sharing.get (), nullptr, kPage);
  ASSERT_NE (buffer, nullptr);
  sharing.reset ();
  EXPECT_EQ (answer (), nullptr) << "the results still lie there";
  memset (tps_buffer_get_data (buffer), 1, kPage);
  tps_buffer_unref (buffer);
  EXPECT_NE (answer (), nullptr);
}

TEST_F (SegmentRegistry, aSegmentClosedWhileItIsFilledIsNotUsedAgain)
{
  gint64 id = open (TPS_SEGMENT_ANSWERS, kPage);
  Sharing sharing = answer ();
  TpsSharedSlice slice;

  ASSERT_TRUE (place (sharing, 64, &slice));
  EXPECT_TRUE (close_segment (id));
  EXPECT_TRUE (place (sharing, 64, &slice));
  tps_segment_registry_commit (sharing.get ());
  EXPECT_FALSE (release (id));
  EXPECT_EQ (answer (), nullptr);
  EXPECT_EQ (tps_budget_get_held (account), 0u);
}

TEST_F (SegmentRegistry, releaseNamesTheFirstThatIsNotLentAndDoesTheOthers)
{
  gint64 requests = open (TPS_SEGMENT_REQUESTS, kPage);
  gint64 answers = open (TPS_SEGMENT_ANSWERS, kPage);
  Sharing sharing = answer ();
  gint64 ids[] = { requests, 12345678, answers };
  g_autoptr (GError) error = nullptr;
  TpsSharedSlice slice;

  ASSERT_TRUE (place (sharing, 64, &slice));
  tps_segment_registry_commit (sharing.get ());
  EXPECT_FALSE (tps_segment_registry_release (registry, ids, 3, &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND));
  EXPECT_EQ (error->message, "segment " + std::to_string (requests)
                                 + " is for requests: only segments for replies are released");
  EXPECT_NE (answer (), nullptr);
  g_clear_error (&error);
  EXPECT_FALSE (tps_segment_registry_close (registry, ids, 3, &error));
  EXPECT_STREQ (error->message, "segment 12345678 is not open on this connection");
  EXPECT_FALSE (close_segment (requests));
  EXPECT_FALSE (close_segment (answers));
}

} // namespace
} // namespace tps_test
