/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests servers that violate the protocol. */

#include <fcntl.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "tests/plugin/memory/segment_pool_fixture.h"

namespace thriftps {

namespace {

class HostileServer : public SegmentPool
{
protected:
  HostileServer ()
  {
    make (64 * MIB, 64 * MIB);
    tps_message_free (answer ({ LARGE }));
    pair_->settle ();
  }

  /* Returns the error message for a reply with this slice. Every call starts with a valid reply,
   * which must still be readable. */
  std::string
  read_slice (gint64 segment, gint64 offset, gint64 length)
  {
    std::string message = "no error";
    TpsMessage *honest = answer ({ LARGE });
    TpsSharedSlice slice = { segment != 0 ? segment : first_segment (honest), offset, length };
    g_autoptr (GError) error = nullptr;
    TpsBuffer *buffer = honest->sharing->ops->resolve (honest->sharing, &slice, &error);

    if (error != nullptr)
      message = error->message;
    g_clear_pointer (&buffer, tps_buffer_unref);
    tps_message_free (honest);
    pair_->settle ();
    return message;
  }

  static gint64
  first_segment (TpsMessage *message)
  {
    std::vector<TpsTensor> tensors = read_message (message);

    for (TpsTensor &tensor : tensors)
      tps_tensor_clear (&tensor);
    TpsReader in;
    TpsWireType type;
    gint16 id;
    tps_reader_init (&in, message);
    tps_reader_field (&in, &id, &type); /* the field with the tensor */
    while (tps_reader_field (&in, &id, &type) && id != 4)
      tps_reader_skip (&in, type);
    tps_reader_field (&in, &id, &type);
    return tps_reader_i64 (&in);
  }
};

TEST_F (HostileServer, SlicesAreChecked)
{
  EXPECT_EQ (read_slice (0, 0, 64), "no error");
  EXPECT_EQ (read_slice (0, MIB - 64, 64), "no error");
  for (auto [offset, length] : std::vector<std::pair<gint64, gint64>> { { -64, 64 },
                                                                        { 1, 64 },
                                                                        { 0, -1 },
                                                                        { 0, MIB + 1 },
                                                                        { MIB, 1 },
                                                                        { MIB + 64, 0 },
                                                                        { 64, G_MAXINT64 },
                                                                        { G_MAXINT64 - 63, 64 },
                                                                        { G_MININT64, 64 } })
    EXPECT_NE (read_slice (0, offset, length), "no error") << offset << " " << length;
  EXPECT_NE (read_slice (123456789, 0, 64), "no error");
}

TEST_F (HostileServer, ASegmentIsLentToOneAnswer)
{
  TpsMessage *first = answer ({ LARGE });
  TpsSharedSlice slice = { first_segment (first), 0, 64 };
  /* A second reply names the same segment. */
  TpsMessage *second = tps_message_new ();
  g_byte_array_append (second->head, first->head->data, first->head->len);
  second->sharing = tps_segment_pool_receive (pair_->pool, second);
  EXPECT_EQ (second->sharing->ops->resolve (second->sharing, &slice, nullptr), nullptr);
  TpsBuffer *buffer = first->sharing->ops->resolve (first->sharing, &slice, nullptr);
  EXPECT_NE (buffer, nullptr);
  tps_message_free (second);
  pair_->ask ();
  EXPECT_TRUE (pair_->asked.empty ()); /* the first reply is still being read */
  tps_buffer_unref (buffer);
  tps_message_free (first);
  pair_->settle ();
}

class HostileOpen : public SegmentPool
{
protected:
  HostileOpen ()
  {
    make (64 * MIB, 64 * MIB);
    push (100000);
    pair_->ask ();
    pair_->answer ();
    pair_->ask (); /* an open is now in flight */
    EXPECT_EQ (pair_->asked.size (), 1u);
    pair_->asked.clear ();
  }

  /* Checks that the pool opens no further segment. If `closes`, it must close the segment that the
   * server announced. */
  void
  expect_ended (bool closes)
  {
    push (100000);
    pair_->ask ();
    ASSERT_EQ (pair_->asked.size (), closes ? 1u : 0u);
    if (!closes)
      return;
    EXPECT_EQ (pair_->asked[0].ask, TPS_SEGMENT_ASK_CLOSE);
    tps_segment_request_clear (&pair_->asked[0]);
    pair_->asked.clear ();
    tps_segment_pool_closed (pair_->pool);
  }
};

TEST_F (HostileOpen, NoDescriptor)
{
  g_autoptr (GError) error = nullptr;

  EXPECT_FALSE (tps_segment_pool_opened (pair_->pool, 5, MIB, nullptr, &error));
  EXPECT_EQ (error->code, TPS_ERROR_INTERNAL);
  expect_ended (true);
}

TEST_F (HostileOpen, TwoDescriptors)
{
  EXPECT_TRUE (tps_segment_pool_add_descriptor (pair_->pool, open ("/dev/null", O_RDONLY)));
  EXPECT_FALSE (tps_segment_pool_add_descriptor (pair_->pool, open ("/dev/null", O_RDONLY)));
}

TEST_F (HostileOpen, DescriptorOfSomethingElse)
{
  EXPECT_TRUE (tps_segment_pool_add_descriptor (pair_->pool, open ("/dev/null", O_RDONLY)));
  EXPECT_FALSE (tps_segment_pool_opened (pair_->pool, 5, MIB, nullptr, nullptr));
  expect_ended (true);
}

TEST_F (HostileOpen, AnotherSizeThanAskedFor)
{
  gint fd;
  g_autoptr (TpsSegment) segment = tps_segment_create (TPS_SEGMENT_REQUESTS, 2 * MIB, &fd, nullptr);

  EXPECT_TRUE (tps_segment_pool_add_descriptor (pair_->pool, fd));
  EXPECT_FALSE (tps_segment_pool_opened (pair_->pool, 5, 2 * MIB, nullptr, nullptr));
  expect_ended (true);
}

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

TEST_F (HostileOpen, DescriptorWithAnError)
{
  EXPECT_TRUE (tps_segment_pool_add_descriptor (pair_->pool, open ("/dev/null", O_RDONLY)));
  tps_segment_pool_open_failed (pair_->pool, TRUE);
  for (int i = 0; i < 100; i++)
    push (100000);
  expect_ended (false);
}

TEST_F (HostileOpen, UnrequestedDescriptor)
{
  tps_segment_pool_open_failed (pair_->pool, TRUE);
  EXPECT_FALSE (tps_segment_pool_add_descriptor (pair_->pool, open ("/dev/null", O_RDONLY)));
}

}

}
