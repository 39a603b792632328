/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests which segments make room for others when the limits are reached. */

#include "tests/plugin/memory/segment_pool_fixture.h"

namespace thriftps {

namespace {

class FullSegmentPool : public SegmentPool
{
protected:
  ~FullSegmentPool () override
  {
    for (TpsSharing *lease : leases_)
      end (lease);
  }

  /* Makes calls with a tensor of this size, all in flight at the same time. */
  void
  push_at_once (size_t n_calls, gsize size)
  {
    for (size_t i = 0; i < n_calls; i++)
      {
        leases_.push_back (write ({ size }));
        pair_->settle ();
      }
    end_all ();
  }

  void
  end_all ()
  {
    for (TpsSharing *lease : leases_)
      end (lease);
    leases_.clear ();
  }

  /* Returns true if a reply with `LARGE` was shared. */
  bool
  pull ()
  {
    guint64 n_before = stats ().received_inline.n_tensors;

    tps_message_free (answer ({ LARGE }));
    pair_->settle ();
    return stats ().received_inline.n_tensors == n_before;
  }

  size_t
  n_opened (TpsSegmentUse use)
  {
    size_t n = 0;

    for (const TpsSegmentRequest &one : pair_->opened)
      n += one.use == use;
    return n;
  }

  std::vector<TpsSharing *> leases_;
};

TEST_F (FullSegmentPool, ManyCallsAtOnceLeaveSegmentsForAnswers)
{
  make (1024 * MIB, 1024 * MIB);
  push_at_once (140, 100000);
  EXPECT_EQ (n_opened (TPS_SEGMENT_REQUESTS), 64u);
  EXPECT_FALSE (pull ());
  EXPECT_TRUE (pull ());
}

TEST_F (FullSegmentPool, SmallSegmentsMakeRoomForLargerOnesWhereThereAreTooMany)
{
  make (1024 * MIB, 1024 * MIB);
  push_at_once (128, 100000);
  EXPECT_FALSE (push (4 * MIB));
  pair_->settle ();
  EXPECT_TRUE (push (4 * MIB));
}

TEST_F (FullSegmentPool, IdleSegmentsForRequestsMakeRoomForAnswers)
{
  make (8 * MIB, 64 * MIB);
  push_at_once (16, MIB);
  EXPECT_EQ (n_opened (TPS_SEGMENT_REQUESTS), 8u);
  EXPECT_FALSE (pull ());
  EXPECT_TRUE (pull ());
  EXPECT_TRUE (push (MIB));
}

TEST_F (FullSegmentPool, IdleSegmentsForAnswersMakeRoomForRequests)
{
  make (8 * MIB, 64 * MIB);
  std::vector<TpsMessage *> held;
  for (int i = 0; i < 16; i++)
    {
      held.push_back (answer ({ LARGE }));
      pair_->settle ();
    }
  EXPECT_EQ (n_opened (TPS_SEGMENT_ANSWERS), 8u);
  EXPECT_FALSE (push (MIB));
  pair_->settle ();
  EXPECT_FALSE (push (MIB)) << "all are being read";
  pair_->settle ();
  for (TpsMessage *message : held)
    tps_message_free (message);
  pair_->settle ();
  EXPECT_FALSE (push (MIB));
  pair_->settle ();
  EXPECT_TRUE (push (MIB));
  EXPECT_TRUE (pull ());
}

/* If calls and replies together exceed the limit, the pool must not open and close segments
 * endlessly. */
TEST_F (FullSegmentPool, RequestsAndAnswersDoNotPushEachOtherOut)
{
  for (gsize size : { MIB, 8 * MIB })
    {
      make (8 * MIB, 64 * MIB);
      size_t n_opened_early = 0;
      for (int i = 0; i < 5; i++)
        {
          std::vector<TpsMessage *> held;
          push_at_once (16 * MIB / size, size);
          for (int k = 0; k < 10; k++)
            {
              held.push_back (answer ({ LARGE }));
              pair_->settle ();
            }
          for (TpsMessage *message : held)
            tps_message_free (message);
          pair_->settle ();
          if (i == 2)
            n_opened_early = pair_->opened.size ();
        }
      EXPECT_EQ (pair_->opened.size (), n_opened_early) << size;
      EXPECT_GT (stats ().sent_shared.n_tensors, 3u) << size;
      pair_.reset ();
    }
}

}

}
