/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests segments of a server that several connections map, with two registries of one server whose
 * replies contain the same tensor. */

#include "tests/plugin/memory/registry_fixture.h"

namespace tps_test {
namespace {

constexpr gsize MIB = 1 << 20;

/* The server side of one client's connection. */
class Connection
{
public:
  explicit Connection (TpsCommonSegments *common)
  {
    TpsSegmentLimits limits = {};

    limits.max_bytes = 16 * MIB;
    limits.common = common;
    registry_ = tps_segment_registry_new (&limits);
  }

  ~Connection ()
  {
    tps_segment_registry_shut_down (registry_);
    tps_segment_registry_unref (registry_);
  }

  /* Opens a segment. Returns its id, or -1. Stores the descriptor in `*fd`, and the caller owns it.
   * If `fd` is NULL, the descriptor is closed. */
  gint64
  open (TpsSegmentUse use, gsize n_bytes, int *fd = nullptr)
  {
    gint64 id = -1;
    gsize size = 0;
    gint file = -1;

    if (!tps_segment_registry_open (registry_, use, n_bytes, &id, &size, &file, nullptr, nullptr))
      return -1;
    EXPECT_EQ (size, n_bytes);
    if (fd != nullptr)
      *fd = file;
    else
      close (file);
    return id;
  }

  /* Sends a reply that contains the buffer. Returns the id of the segment that the reply names, or
   * 0 if the tensor travels inline. */
  gint64
  reply (TpsBuffer *buffer, bool is_sent = true)
  {
    Sharing answer (tps_segment_registry_answer (registry_));
    TpsSharedSlice slice = {};

    if (answer == nullptr
        || !answer->ops->place_buffer (answer.get (), buffer, 0, tps_buffer_get_size (buffer),
                                       &slice))
      return 0;
    EXPECT_EQ (slice.offset, 0);
    EXPECT_EQ (slice.length, static_cast<gint64> (tps_buffer_get_size (buffer)));
    if (is_sent)
      tps_segment_registry_commit (answer.get ());
    return slice.segment;
  }

  bool
  release (gint64 id)
  {
    return tps_segment_registry_release (registry_, &id, 1, nullptr);
  }

  bool
  close_segment (gint64 id)
  {
    return tps_segment_registry_close (registry_, &id, 1, nullptr);
  }

  TpsSegmentRegistry *
  get ()
  {
    return registry_;
  }

private:
  TpsSegmentRegistry *registry_;
};

class CommonSegments : public testing::Test
{
protected:
  CommonSegments ()
  {
    buffer_ = alloc (2 * MIB);
  }

  ~CommonSegments () override
  {
    g_clear_pointer (&buffer_, tps_buffer_unref);
    EXPECT_FALSE (tps_common_segments_has_any (common_));
    tps_common_segments_unref (common_);
  }

  TpsBuffer *
  alloc (gsize n_bytes)
  {
    TpsBuffer *buffer = tps_common_segments_alloc (common_, n_bytes, nullptr);

    memset (tps_buffer_get_data (buffer), 'x', n_bytes);
    return buffer;
  }

  /* Returns true if the test has the only reference to the buffer. */
  bool
  is_returned ()
  {
    return tps_buffer_is_exclusive (buffer_);
  }

  /* Makes the client open the segment of the buffer. Returns the id of the segment. */
  gint64
  open_for (Connection *client)
  {
    EXPECT_EQ (client->reply (buffer_), 0);
    return client->open (TPS_SEGMENT_COMMON_ANSWERS, 2 * MIB);
  }

  TpsCommonSegments *common_ = tps_common_segments_new ();
  TpsBuffer *buffer_;
};

TEST_F (CommonSegments, AreChargedWithAllOfTheirMemory)
{
  g_autoptr (TpsBudget) budget = tps_budget_new (nullptr, "test", 1 << 30);
  TpsBufferSource source = {};

  source.alloc = tps_common_segments_alloc;
  source.user_data = common_;
  source.min_bytes = MIB;
  source.powers_of_two = TRUE;
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new_from (budget, nullptr, 64 * MIB, &source);
  for (gsize n_bytes : { MIB, MIB + 1, 4 * MIB, 17 * MIB })
    {
      g_autoptr (TpsBuffer) buffer = tps_buffer_pool_get (pool, n_bytes, nullptr);
      g_autoptr (TpsCommonSegment)
          segment = tps_common_segments_find (common_, tps_buffer_get_data (buffer), n_bytes);

      ASSERT_NE (segment, nullptr);
      EXPECT_EQ (tps_budget_get_held (budget), segment->segment->n_bytes);
    }
}

TEST_F (CommonSegments, KeepTheirContentsUntilAllClientsHaveReturnedThem)
{
  Connection one (common_), other (common_);
  gint64 first = open_for (&one), second = open_for (&other);

  EXPECT_TRUE (is_returned ());
  EXPECT_EQ (one.reply (buffer_), first);
  EXPECT_EQ (other.reply (buffer_), second);
  EXPECT_TRUE (one.release (first));
  EXPECT_FALSE (one.release (first));
  EXPECT_FALSE (is_returned ());
  EXPECT_TRUE (other.release (second));
  EXPECT_TRUE (is_returned ());
  EXPECT_EQ (one.reply (buffer_), first);
}

TEST_F (CommonSegments, AreReturnedByTheEndOfAConnection)
{
  auto one = std::make_unique<Connection> (common_);
  Connection other (common_);
  gint64 first = open_for (one.get ()), second = open_for (&other);

  one->reply (buffer_);
  other.reply (buffer_);
  EXPECT_TRUE (other.close_segment (second));
  EXPECT_FALSE (is_returned ());
  one.reset ();
  EXPECT_TRUE (is_returned ());
  EXPECT_GT (first, 0);
}

TEST_F (CommonSegments, AreReturnedByAReplyThatIsNotSent)
{
  Connection client (common_);
  gint64 id = open_for (&client);

  EXPECT_EQ (client.reply (buffer_, false), id);
  EXPECT_TRUE (is_returned ());
  EXPECT_EQ (client.reply (buffer_), id);
}

/* An example is the buffer of a closed pool. */
TEST_F (CommonSegments, MayBeReleasedWhileClientsRead)
{
  Connection client (common_);
  gint64 id = open_for (&client);

  EXPECT_EQ (client.reply (buffer_), id);
  g_clear_pointer (&buffer_, tps_buffer_unref);
  EXPECT_TRUE (tps_common_segments_has_any (common_));
  EXPECT_TRUE (client.release (id));
  EXPECT_FALSE (tps_common_segments_has_any (common_));
}

TEST_F (CommonSegments, TakeOneReplyOfAConnectionAtATime)
{
  Connection client (common_);
  gint64 id = open_for (&client);

  EXPECT_EQ (client.reply (buffer_), id);
  EXPECT_EQ (client.reply (buffer_), 0) << "the client reads the first reply";
  client.release (id);
  EXPECT_EQ (client.reply (buffer_), id);
}

TEST_F (CommonSegments, AreNeverWrittenByReplies)
{
  Connection client (common_);
  gint64 id = open_for (&client);
  g_autoptr (TpsBuffer) own = tps_buffer_new_zeroed (MIB);

  EXPECT_EQ (client.reply (own), 0);
  Sharing answer (tps_segment_registry_answer (client.get ()));
  TpsSharedSlice slice;
  EXPECT_TRUE (answer->ops->place_buffer (answer.get (), buffer_, 0, MIB, &slice));
  EXPECT_EQ (slice.segment, id);
  EXPECT_FALSE (answer->ops->place_buffer (answer.get (), own, 0, MIB, &slice));
  EXPECT_FALSE (answer->ops->place (answer.get (), tps_buffer_get_data (own), MIB, &slice));
  EXPECT_EQ (tps_buffer_get_data (buffer_)[MIB], 'x');
}

TEST_F (CommonSegments, AreOpenedByClientsThatAskForThemOnly)
{
  Connection client (common_);

  EXPECT_EQ (client.reply (buffer_), 0);
  gint64 own = client.open (TPS_SEGMENT_ANSWERS, 2 * MIB);
  EXPECT_EQ (client.reply (buffer_), own) << "a copy";
  EXPECT_TRUE (is_returned ());
}

TEST_F (CommonSegments, ThatAClientDoesNotOpenAreCopied)
{
  Connection client (common_);
  gint64 own = client.open (TPS_SEGMENT_COMMON_ANSWERS, 2 * MIB); /* not needed by a reply yet */

  EXPECT_EQ (client.reply (buffer_), 0) << "inline, so that the client opens one more";
  EXPECT_EQ (client.reply (buffer_), own);
  client.release (own);
  gint64 id = client.open (TPS_SEGMENT_COMMON_ANSWERS, 2 * MIB);
  EXPECT_EQ (client.reply (buffer_), id);
  EXPECT_FALSE (is_returned ());
}

TEST_F (CommonSegments, OfOtherSizesAreNotOpened)
{
  Connection client (common_);

  EXPECT_EQ (client.reply (buffer_), 0);
  gint64 own = client.open (TPS_SEGMENT_COMMON_ANSWERS, 4 * MIB);
  EXPECT_EQ (client.reply (buffer_), 0);
  EXPECT_EQ (client.reply (buffer_), own);
}

TEST_F (CommonSegments, ThatAreNotUsedAnyMoreAreNotOpened)
{
  Connection client (common_);

  EXPECT_EQ (client.reply (buffer_), 0);
  g_clear_pointer (&buffer_, tps_buffer_unref);
  EXPECT_GT (client.open (TPS_SEGMENT_COMMON_ANSWERS, 2 * MIB), 0);
  EXPECT_FALSE (tps_common_segments_has_any (common_));
}

TEST_F (CommonSegments, AreNamedWhileOthersAreOpened)
{
  Connection client (common_);
  gint64 id = open_for (&client);
  g_autoptr (TpsBuffer) second = alloc (2 * MIB);

  tps_segment_registry_hold_answers (client.get ());
  tps_segment_registry_resume_answers (client.get ());
  EXPECT_EQ (client.reply (second), 0);
  tps_segment_registry_hold_answers (client.get ());
  gint64 next = client.open (TPS_SEGMENT_COMMON_ANSWERS, 2 * MIB);
  EXPECT_EQ (client.reply (buffer_), id);
  EXPECT_EQ (client.reply (second), 0) << "the client does not know it yet";
  tps_segment_registry_resume_answers (client.get ());
  EXPECT_EQ (client.reply (second), next);
}

} // namespace
} // namespace tps_test
