/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <cstring>

#include "runtime/base/error.h"
#include "tests/plugin/memory/segment_pool_fixture.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace thriftps {

namespace {

TEST_F (SegmentPool, AsksNothingWhileNothingLargeIsMissed)
{
  make (64 * MIB, 64 * MIB);
  end (write ({}));
  tps_message_free (answer ({ { 1, 2 } }));
  pair_->ask ();
  EXPECT_FALSE (pair_->is_awake);
  EXPECT_TRUE (pair_->asked.empty ());
}

TEST_F (SegmentPool, FirstTensorIsInlineAndTheNextIsShared)
{
  make (64 * MIB, 64 * MIB);
  EXPECT_FALSE (push (100000));
  EXPECT_TRUE (pair_->is_awake);
  pair_->ask ();
  pair_->answer ();
  EXPECT_TRUE (pair_->is_awake); /* after the offer the pool can open a segment */
  pair_->settle ();
  ASSERT_EQ (pair_->opened.size (), 1u);
  EXPECT_EQ (pair_->opened[0].use, TPS_SEGMENT_REQUESTS);
  EXPECT_EQ (pair_->opened[0].n_bytes, MIB);
  EXPECT_TRUE (push (100000));
  EXPECT_EQ (slice_.offset, 0);
  EXPECT_EQ (slice_.length, 100000);
  EXPECT_TRUE (push (100000)); /* in the same segment again */
  pair_->settle ();
  EXPECT_EQ (pair_->opened.size (), 1u);
  EXPECT_EQ (stats ().sent_shared.n_tensors, 2u);
  EXPECT_EQ (stats ().sent_inline.n_bytes, 100000u);
}

TEST_F (SegmentPool, NoOfferMeansNoFurtherQuestions)
{
  make (64 * MIB, 0);
  EXPECT_FALSE (push (100000));
  pair_->settle ();
  EXPECT_FALSE (push (100000));
  pair_->ask ();
  EXPECT_TRUE (pair_->asked.empty ());
  EXPECT_TRUE (pair_->opened.empty ());
}

TEST_F (SegmentPool, ASegmentTakesAllTensorsOfACall)
{
  make (64 * MIB, 64 * MIB);
  end (write ({ MIB, MIB, 100001, 70000 }));
  pair_->settle ();
  ASSERT_EQ (pair_->opened.size (), 1u);
  EXPECT_EQ (pair_->opened[0].n_bytes, 4 * MIB);
  int n_placed;
  TpsSharing *lease = write ({ MIB, MIB, 100001, 70000 }, &n_placed);
  EXPECT_EQ (n_placed, 4);
  EXPECT_EQ (slice_.offset % TPS_SHARING_ALIGNMENT, 0);
  end (lease);
}

TEST_F (SegmentPool, ACallMayTakeASecondSegment)
{
  make (64 * MIB, 64 * MIB);
  push (MIB);
  pair_->settle ();
  TpsSharing *first = write ({ MIB });
  EXPECT_FALSE (push (MIB));
  pair_->settle ();
  EXPECT_EQ (pair_->opened.size (), 2u); /* both calls need a segment at the same time */
  end (first);
  int n_placed;
  end (write ({ MIB, MIB }, &n_placed));
  EXPECT_EQ (n_placed, 2);
}

TEST_F (SegmentPool, ASegmentServesOneCallAtATime)
{
  make (64 * MIB, 64 * MIB);
  push (100000);
  pair_->settle ();
  int n_placed;
  TpsSharing *first = write ({ 100000 }, &n_placed);
  EXPECT_EQ (n_placed, 1);
  EXPECT_FALSE (push (100000));
  end (first);
  EXPECT_TRUE (push (100000));
}

TEST_F (SegmentPool, UnansweredCallHasItsSegmentClosed)
{
  make (64 * MIB, 64 * MIB);
  push (100000);
  pair_->settle ();
  EXPECT_TRUE (push (100000, FALSE));
  EXPECT_FALSE (push (100000));
  pair_->ask ();
  ASSERT_EQ (pair_->asked.size (), 2u);
  pair_->settle ();
  EXPECT_EQ (pair_->opened.size (), 2u);
  EXPECT_EQ (pair_->n_bytes (), MIB);
  EXPECT_TRUE (push (100000));
}

TEST_F (SegmentPool, SmallerIdleSegmentsMakeRoom)
{
  make (4 * MIB, 64 * MIB);
  push (MIB);
  pair_->settle ();
  push (2 * MIB);
  pair_->settle ();
  EXPECT_EQ (pair_->n_bytes (), 3 * MIB);
  push (4 * MIB);
  pair_->settle ();
  EXPECT_EQ (pair_->n_bytes (), 4 * MIB);
  EXPECT_TRUE (push (4 * MIB));
  EXPECT_FALSE (push (4 * MIB + 1)); /* exceeds the limit */
  pair_->settle ();
  EXPECT_EQ (pair_->opened.size (), 3u);
}

TEST_F (SegmentPool, SegmentsInUseAreNotClosedForLargerOnes)
{
  make (4 * MIB, 64 * MIB);
  push (MIB);
  pair_->settle ();
  TpsSharing *lease = write ({ MIB });
  push (4 * MIB);
  pair_->settle ();
  EXPECT_EQ (pair_->opened.size (), 1u);
  end (lease);
  push (4 * MIB);
  pair_->settle ();
  EXPECT_EQ (pair_->opened.size (), 2u);
}

TEST_F (SegmentPool, RefusalForWantOfRoomIsTriedAgainMuchLater)
{
  make (64 * MIB, 64 * MIB);
  push (100000);
  pair_->ask ();
  pair_->answer (); /* answers the request for the offer */
  pair_->ask ();
  ASSERT_EQ (pair_->asked.size (), 1u);
  pair_->asked.clear ();
  tps_segment_pool_open_failed (pair_->pool, TRUE);
  push (100000);
  pair_->ask ();
  EXPECT_TRUE (pair_->asked.empty ());
  for (int i = 0; i < 20; i++)
    push (100000);
  pair_->settle ();
  EXPECT_TRUE (push (100000));
}

TEST_F (SegmentPool, AnswersAreReadInPlaceAndGivenBack)
{
  make (64 * MIB, 64 * MIB);
  g_autoptr (GError) error = nullptr;
  TpsMessage *message = answer ({ LARGE });
  EXPECT_EQ (stats ().received_inline.n_tensors, 1u);
  tps_message_free (message);
  pair_->settle ();
  ASSERT_EQ (pair_->opened.size (), 1u);
  EXPECT_EQ (pair_->opened[0].use, TPS_SEGMENT_ANSWERS);
  EXPECT_EQ (pair_->opened[0].n_bytes, MIB);
  EXPECT_EQ (stats ().received_inline.n_bytes, MIB);

  message = answer ({ LARGE, { 1, 2 } });
  std::vector<TpsTensor> tensors = read_message (message, &error);
  ASSERT_EQ (tensors.size (), 2u) << error->message;
  tps_message_free (message);
  EXPECT_TRUE (tps_buffer_is_shared (tensors[0].buffer));
  EXPECT_EQ (memcmp (tps_buffer_get_data (tensors[0].buffer), LARGE.data (), MIB), 0);
  pair_->ask ();
  EXPECT_TRUE (pair_->asked.empty ()); /* the tensor is still being read */
  for (TpsTensor &tensor : tensors)
    tps_tensor_clear (&tensor);
  EXPECT_TRUE (pair_->is_awake);
  pair_->ask ();
  ASSERT_EQ (pair_->asked.size (), 1u);
  EXPECT_EQ (pair_->asked[0].ask, TPS_SEGMENT_ASK_RELEASE);
  pair_->settle ();
  EXPECT_EQ (stats ().received_shared.n_bytes, MIB);
}

/* Slices begin at multiples of 64 bytes, so the segment must have room for padding. */
TEST_F (SegmentPool, ASegmentForAnswersIsAsLargeAsItsTensorsWithTheirAlignment)
{
  make (64 * MIB, 64 * MIB);
  const std::vector<float> quarter (MIB / 16 - 15);
  tps_message_free (answer ({ quarter, quarter, quarter, quarter }));
  EXPECT_EQ (stats ().received_inline.n_bytes, 4 * (MIB / 4 - 60));
  pair_->settle ();
  tps_message_free (answer ({ LARGE, quarter }));
  pair_->settle ();
  ASSERT_EQ (pair_->opened.size (), 2u);
  EXPECT_EQ (pair_->opened[0].n_bytes, MIB);
  EXPECT_EQ (pair_->opened[1].n_bytes, 2 * MIB);
  TpsMessage *message = answer ({ quarter, quarter, quarter, quarter });
  std::vector<TpsTensor> tensors = read_message (message);
  tps_message_free (message);
  ASSERT_EQ (tensors.size (), 4u);
  for (TpsTensor &tensor : tensors)
    {
      EXPECT_TRUE (tps_buffer_is_shared (tensor.buffer));
      tps_tensor_clear (&tensor);
    }
  pair_->settle ();
}

TEST_F (SegmentPool, AnUnreadReplyIsReleased)
{
  make (64 * MIB, 64 * MIB);
  tps_message_free (answer ({ LARGE }));
  pair_->settle ();
  tps_message_free (answer ({ LARGE }));
  pair_->ask ();
  ASSERT_EQ (pair_->asked.size (), 1u);
  EXPECT_EQ (pair_->asked[0].ask, TPS_SEGMENT_ASK_RELEASE);
  pair_->settle ();
}

TEST_F (SegmentPool, HeldAnswersLetMoreComeInlineAndOpenMore)
{
  make (64 * MIB, 64 * MIB);
  std::vector<TpsMessage *> held;

  for (int i = 0; i < 60; i++)
    {
      held.push_back (answer ({ LARGE }));
      pair_->settle ();
    }
  EXPECT_LE (pair_->n_bytes (), 64 * MIB);
  EXPECT_GT (stats ().received_inline.n_tensors, 20u);
  for (TpsMessage *message : held)
    tps_message_free (message);
  pair_->settle ();
}

/* A Chunk of chunks.thrift has a binary but no slices. */
TEST_F (SegmentPool, LargeBinariesThatAreNoTensorsOpenNothing)
{
  make (64 * MIB, 64 * MIB);
  TpsWriter *out = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);
  tps_writer_message_begin (out, "get_chunk", TPS_MESSAGE_REPLY, 1);
  tps_writer_struct_begin (out);
  tps_writer_field (out, 0, TPS_WIRE_STRUCT);
  tps_writer_struct_begin (out);
  put_string (out, 1, "transfer");
  put_i32 (out, 2, 1);
  tps_writer_field (out, 5, TPS_WIRE_BINARY);
  tps_writer_binary (out, LARGE.data (), MIB);
  tps_writer_struct_end (out);
  tps_writer_struct_end (out);
  ASSERT_TRUE (tps_writer_message_end (out, nullptr));
  Scan scan = scan_bytes (join_pieces (out));
  tps_writer_free (out);
  ASSERT_EQ (scan.messages.size (), 1u);
  EXPECT_EQ (tps_segment_pool_receive (pair_->pool, scan.messages[0]), nullptr);
  EXPECT_EQ (stats ().received_inline.n_tensors, 0u);
  pair_->ask ();
  EXPECT_TRUE (pair_->asked.empty ());
}

TEST_F (SegmentPool, AnAnswerFromASegmentThatIsClosedMeanwhileIsStillRead)
{
  make (4 * MIB, 64 * MIB);
  tps_message_free (answer ({ LARGE }));
  pair_->settle ();
  TpsSharing *call = write ({});
  TpsMessage *message = make_answer ({ LARGE }); /* the reply to `call` */
  push (4 * MIB);                                /* needs the room of the segment */
  pair_->settle ();
  ASSERT_EQ (pair_->opened.size (), 2u);
  EXPECT_EQ (pair_->n_bytes (), 4 * MIB);

  message->sharing = tps_segment_pool_receive (pair_->pool, message);
  end (call);
  std::vector<TpsTensor> tensors = read_message (message);
  tps_message_free (message);
  ASSERT_EQ (tensors.size (), 1u);
  EXPECT_EQ (memcmp (tps_buffer_get_data (tensors[0].buffer), LARGE.data (), MIB), 0);
  tps_tensor_clear (&tensors[0]);
  pair_->ask ();
  EXPECT_TRUE (pair_->asked.empty ());  /* the server has closed the segment */
  EXPECT_EQ (count_mappings (), 1 + 1); /* the larger segment, on both sides */
}

TEST_F (SegmentPool, AnswersSurviveThePool)
{
  make (64 * MIB, 64 * MIB);
  tps_message_free (answer ({ LARGE }));
  pair_->settle ();
  TpsMessage *message = answer ({ LARGE });
  std::vector<TpsTensor> tensors = read_message (message);
  tps_message_free (message);
  pair_.reset ();
  ASSERT_EQ (tensors.size (), 1u);
  EXPECT_EQ (count_mappings (), 1);
  EXPECT_EQ (memcmp (tps_buffer_get_data (tensors[0].buffer), LARGE.data (), MIB), 0);
  tps_tensor_clear (&tensors[0]);
  EXPECT_EQ (count_mappings (), 0);
}

TEST_F (SegmentPool, ALeaseSurvivesTheConnection)
{
  make (64 * MIB, 64 * MIB);
  push (100000);
  pair_->settle ();
  TpsSharing *lease = write ({ 100000 });
  tps_segment_pool_shut_down (pair_->pool);
  EXPECT_EQ (lease->ops->place (lease, LARGE.data (), 100000, &slice_), FALSE);
  end (lease, FALSE);
  pair_->is_awake = false;
  EXPECT_FALSE (push (100000));
  EXPECT_FALSE (pair_->is_awake);
}

/* If many clients receive the same tensors, the server uses several segments in turn. */
TEST_F (SegmentPool, OneMoreCommonSegmentIsOpenedForEachReplyThatCameInline)
{
  pair_ = std::make_unique<PoolPair> (64 * MIB, 64 * MIB, nullptr, nullptr, TRUE);
  for (size_t i = 1; i <= 3; i++)
    {
      TpsMessage *message = make_message (nullptr, std::vector<std::vector<float>> { LARGE });

      message->sharing = tps_segment_pool_receive (pair_->pool, message);
      tps_message_free (message);
      pair_->settle ();
      ASSERT_EQ (pair_->opened.size (), i);
      EXPECT_EQ (pair_->opened.back ().use, TPS_SEGMENT_COMMON_ANSWERS);
    }
  tps_message_free (answer ({ LARGE })); /* these segments hold replies like any others */
  EXPECT_EQ (stats ().received_inline.n_tensors, 3u);
  EXPECT_FALSE (push (MIB));
  pair_->settle ();
  EXPECT_EQ (pair_->opened.back ().use, TPS_SEGMENT_REQUESTS);
}

TEST_F (SegmentPool, AServerWithoutCommonSegmentsIsAskedForOthers)
{
  pair_ = std::make_unique<PoolPair> (64 * MIB, 64 * MIB, nullptr, nullptr, TRUE);
  pair_->knows_no_common_answers = true;
  tps_message_free (answer ({ LARGE }));
  pair_->settle ();
  ASSERT_EQ (pair_->opened.size (), 2u);
  EXPECT_EQ (pair_->opened[0].use, TPS_SEGMENT_COMMON_ANSWERS);
  EXPECT_EQ (pair_->opened[1].use, TPS_SEGMENT_ANSWERS);
  tps_message_free (answer ({ LARGE }));
  EXPECT_EQ (stats ().received_inline.n_tensors, 1u);
}

}
}
