/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests segments that a caller fills before it makes a call. Tensors in them are sent without a
 * copy. */

#include <numeric>

#include "tests/plugin/memory/segment_pool_fixture.h"

namespace thriftps {

namespace {

class Claims : public SegmentPool
{
protected:
  Claims ()
  {
    make (64 * MIB, 64 * MIB);
  }

  /* Returns a claim of this size. If necessary, the pool opens a segment for it. */
  TpsBuffer *
  claim (gsize n_bytes)
  {
    TpsBuffer *buffer = tps_segment_pool_claim (pair_->pool, n_bytes);

    for (int i = 0; i < 3 && buffer == nullptr; i++)
      {
        pair_->settle ();
        buffer = tps_segment_pool_claim (pair_->pool, n_bytes);
      }
    return buffer;
  }

  /* Makes a call with a tensor of `n_bytes` at `offset` of the buffer. Sets `slice_` to its
   * place. */
  TpsSharing *
  send (TpsBuffer *buffer, gsize offset, gsize n_bytes)
  {
    TpsSharing *lease = tps_segment_pool_lease (pair_->pool);

    EXPECT_TRUE (
        lease->ops->place (lease, tps_buffer_get_data (buffer) + offset, n_bytes, &slice_));
    tps_segment_lease_written (lease);
    return lease;
  }

  bool
  is_open (TpsBuffer *buffer)
  {
    return tps_segment_pool_has_claim (pair_->pool, buffer);
  }

  guint64
  n_in_place ()
  {
    return stats ().sent_claimed.n_tensors;
  }
};

TEST_F (Claims, OfASizeWithoutASegmentOpenOne)
{
  EXPECT_EQ (tps_segment_pool_claim (pair_->pool, 3 * MIB), nullptr);
  pair_->settle ();
  g_autoptr (TpsBuffer) buffer = tps_segment_pool_claim (pair_->pool, 3 * MIB);
  ASSERT_NE (buffer, nullptr);
  EXPECT_EQ (tps_buffer_get_size (buffer), 3 * MIB);
  EXPECT_TRUE (is_open (buffer));
  ASSERT_EQ (pair_->opened.size (), 1u);
  EXPECT_EQ (pair_->opened[0].use, TPS_SEGMENT_REQUESTS);
}

TEST_F (Claims, ReachTheServerAtTheirPlaceWithoutACopy)
{
  g_autoptr (TpsBuffer) buffer = claim (MIB);
  auto values = reinterpret_cast<float *> (tps_buffer_get_data (buffer));
  std::iota (values, values + MIB / 4, 0.0f);
  TpsSharing *lease = tps_segment_pool_lease (pair_->pool);
  TpsMessage *message = make_message (
      lease, std::vector<TpsTensorView> { view_of (values + 16, 100000), view_of (values, 50000) });
  tps_segment_lease_written (lease);

  EXPECT_EQ (n_in_place (), 2u);
  message->sharing = tps_segment_registry_receive (
      pair_->registry, [] (gpointer) {}, nullptr);
  std::vector<TpsTensor> tensors = read_message (message);
  ASSERT_EQ (tensors.size (), 2u);
  auto first = static_cast<const float *> (tps_tensor_data (&tensors[0]));
  EXPECT_EQ (std::vector<float> (first, first + 100000),
             std::vector<float> (values + 16, values + 100016));
  values[16] = -1; /* both sides map the same memory */
  EXPECT_EQ (first[0], -1);
  for (TpsTensor &tensor : tensors)
    tps_tensor_clear (&tensor);
  tps_message_free (message);
  end (lease);
  EXPECT_TRUE (is_open (buffer));
}

TEST_F (Claims, AreCopiedFromOffsetsThatNoSliceMayHave)
{
  g_autoptr (TpsBuffer) buffer = claim (MIB);
  EXPECT_FALSE (push (MIB)); /* makes the pool open a segment for copies */
  pair_->settle ();

  end (send (buffer, 64, 100000));
  EXPECT_EQ (n_in_place (), 1u);
  EXPECT_EQ (slice_.offset, 64);
  end (send (buffer, 4, 100000));
  EXPECT_EQ (n_in_place (), 1u);
  EXPECT_EQ (stats ().sent_shared.n_tensors, 2u);
}

TEST_F (Claims, OfSmallTensorsAreNotMade)
{
  EXPECT_EQ (tps_segment_pool_claim (pair_->pool, TPS_SHARING_MIN_BYTES - 1), nullptr);
  EXPECT_FALSE (pair_->is_awake);
}

TEST_F (Claims, LeaveLargerSegmentsToOthers)
{
  EXPECT_FALSE (push (32 * MIB));
  pair_->settle ();
  g_autoptr (TpsBuffer) buffer = claim (MIB);
  ASSERT_NE (buffer, nullptr);
  EXPECT_TRUE (push (32 * MIB));
}

TEST_F (Claims, LeaveNoSegmentThatCallsWithoutAClaimCannotOpen)
{
  g_autoptr (TpsBuffer) buffer = claim (MIB);

  EXPECT_FALSE (push (MIB));
  pair_->settle ();
  EXPECT_TRUE (push (MIB));
}

TEST_F (Claims, ServeSeveralCallsAtOnce)
{
  g_autoptr (TpsBuffer) buffer = claim (MIB);
  TpsSharing *first = send (buffer, 0, 100032);
  TpsSharing *second = send (buffer, 100032, 100032);

  EXPECT_EQ (n_in_place (), 2u);
  end (first);
  end (second);
  EXPECT_TRUE (is_open (buffer));
}

TEST_F (Claims, EndAfterACallWithoutAnAnswer)
{
  g_autoptr (TpsBuffer) buffer = claim (MIB);
  gint64 id;
  TpsSharing *answered = send (buffer, 0, 100000);

  end (send (buffer, 0, 100000), FALSE);
  id = slice_.segment;
  EXPECT_FALSE (is_open (buffer));
  pair_->settle ();
  EXPECT_FALSE (tps_segment_registry_close (pair_->registry, &id, 1, nullptr)) << "is closed";
  end (answered);
  memset (tps_buffer_get_data (buffer), 1, MIB); /* the memory is still mapped */
  EXPECT_FALSE (push (MIB));
  pair_->settle ();
  g_autoptr (TpsBuffer) next = claim (MIB);
  EXPECT_TRUE (is_open (next));
  EXPECT_FALSE (is_open (buffer));
  EXPECT_EQ (count_mappings (), 3) << "both sides of the new one, and the old one here";
}

TEST_F (Claims, AreNotGivenAwayBeforeTheirCallsHaveEnded)
{
  TpsBuffer *buffer = claim (MIB);
  TpsSharing *lease = send (buffer, 0, 100000);

  tps_buffer_unref (buffer);
  EXPECT_EQ (tps_segment_pool_claim (pair_->pool, MIB), nullptr);
  EXPECT_FALSE (push (MIB));
  end (lease);
  EXPECT_TRUE (push (MIB));
  EXPECT_EQ (stats ().sent_shared.n_tensors, 2u);
}

TEST_F (Claims, StayMappedAfterTheConnectionHasClosed)
{
  g_autoptr (TpsBuffer) buffer = claim (MIB);
  TpsSharing *lease = send (buffer, 0, 100000);

  tps_segment_pool_shut_down (pair_->pool);
  EXPECT_FALSE (is_open (buffer));
  EXPECT_EQ (tps_segment_pool_claim (pair_->pool, MIB), nullptr);
  end (lease, FALSE);
  memset (tps_buffer_get_data (buffer), 1, MIB);
  g_clear_pointer (&buffer, tps_buffer_unref);
  EXPECT_EQ (count_mappings (), 1) << "of the server";
}

TEST_F (Claims, OfAClosedConnectionAreDroppedWithTheirLastCall)
{
  TpsBuffer *buffer = claim (MIB);
  TpsSharing *lease = send (buffer, 0, 100000);

  tps_segment_pool_shut_down (pair_->pool);
  tps_buffer_unref (buffer);
  EXPECT_EQ (count_mappings (), 2);
  end (lease, FALSE);
  EXPECT_EQ (count_mappings (), 1);
}

}

}
