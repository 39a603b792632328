/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests replies to a request for a segment that only the pool can tell from valid ones. For other
 * servers that violate the protocol, see tests/plugin/client/sharing. */

#include <fcntl.h>

#include "plugin/memory/segment_pool.h"
#include "tests/plugin/memory/pool_pair.h"

namespace thriftps {

namespace {

constexpr gsize MIB = 1 << 20;

class HostileOpen : public testing::Test
{
protected:
  HostileOpen ()
  {
    push (100000);
    pair_->ask ();
    pair_->answer ();
    pair_->ask (); /* an open is now in flight */
    EXPECT_EQ (pair_->asked.size (), 1u);
    pair_->asked.clear ();
  }

  ~HostileOpen () override
  {
    pair_.reset ();
    EXPECT_EQ (count_mappings (), 0);
  }

  /* Makes one call with one tensor. */
  void
  push (gsize size)
  {
    TpsSharing *lease = tps_segment_pool_lease (pair_->pool);
    std::string bytes (size, 'x');
    TpsSharedSlice slice;

    lease->ops->place (lease, bytes.data (), size, &slice);
    tps_segment_lease_written (lease);
    tps_segment_lease_end (lease, TRUE);
    tps_sharing_unref (lease);
  }

  std::unique_ptr<PoolPair> pair_ = std::make_unique<PoolPair> (64 * MIB, 64 * MIB);
};

TEST_F (HostileOpen, AnIdThatIsThereAlready)
{
  g_autoptr (GError) error = nullptr;
  gint fd;
  g_autoptr (TpsSegment) first = tps_segment_create (TPS_SEGMENT_REQUESTS, MIB, &fd, nullptr);

  EXPECT_TRUE (tps_segment_pool_add_descriptor (pair_->pool, fd));
  EXPECT_TRUE (tps_segment_pool_opened (pair_->pool, 5, MIB, nullptr, nullptr));
  push (2 * MIB); /* makes the pool request a larger segment */
  pair_->ask ();
  ASSERT_EQ (pair_->asked.size (), 1u);
  gsize size = pair_->asked[0].n_bytes;
  g_autoptr (TpsSegment) second = tps_segment_create (TPS_SEGMENT_REQUESTS, size, &fd, nullptr);
  pair_->asked.clear ();
  EXPECT_TRUE (tps_segment_pool_add_descriptor (pair_->pool, fd));
  EXPECT_FALSE (
      tps_segment_pool_opened (pair_->pool, 5, static_cast<gint64> (size), nullptr, &error));
  EXPECT_STREQ (error->message, "the server opened segment 5 twice");
}

/* The pool must open no further segment. */
TEST_F (HostileOpen, DescriptorWithAnError)
{
  EXPECT_TRUE (tps_segment_pool_add_descriptor (pair_->pool, open ("/dev/null", O_RDONLY)));
  tps_segment_pool_open_failed (pair_->pool, TRUE);
  for (int i = 0; i < 100; i++)
    push (100000);
  pair_->ask ();
  EXPECT_TRUE (pair_->asked.empty ());
}

}

}
