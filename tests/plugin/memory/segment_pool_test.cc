/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/memory/segment_pool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "runtime/error.h"
#include "tests/plugin/memory/pool_pair.h"

namespace thriftps {

namespace {

constexpr gsize MIB = 1 << 20;

class SegmentPool : public testing::Test
{
protected:
  ~SegmentPool () override
  {
    pair_.reset ();
    EXPECT_EQ (count_mappings (), 0);
  }

  void
  make (gsize client_max_bytes, gsize server_max_bytes)
  {
    pair_ = std::make_unique<PoolPair> (client_max_bytes, server_max_bytes);
  }

  /* A lease with tensors of these sizes; `n_placed` of them found room. */
  TpsSharing *
  write (const std::vector<gsize> &sizes, int *n_placed = nullptr)
  {
    TpsSharing *lease = tps_segment_pool_lease (pair_->pool);
    int n = 0;

    for (gsize size : sizes)
      {
        std::string bytes (size, 'x');

        n += lease->ops->place (lease, bytes.data (), size, &slice_);
      }
    tps_segment_lease_written (lease);
    if (n_placed != nullptr)
      *n_placed = n;
    return lease;
  }

  void
  end (TpsSharing *lease, gboolean given_back = TRUE)
  {
    tps_segment_lease_end (lease, given_back);
    tps_sharing_unref (lease);
  }

  /* One call of one tensor; whether it found room. */
  bool
  push (gsize size, gboolean given_back = TRUE)
  {
    int n_placed;

    end (write ({ size }, &n_placed), given_back);
    return n_placed == 1;
  }

  /* The server answers with tensors; the answer on its way. */
  TpsMessage *
  make_answer (const std::vector<std::vector<float>> &tensors)
  {
    TpsSharing *sharing = tps_segment_registry_answer (pair_->registry);
    TpsMessage *message = make_message (sharing, tensors);

    if (sharing != nullptr)
      {
        tps_segment_registry_commit (sharing);
        tps_sharing_unref (sharing);
      }
    return message;
  }

  /* The same as the client gets it. */
  TpsMessage *
  answer (const std::vector<std::vector<float>> &tensors)
  {
    TpsMessage *message = make_answer (tensors);

    message->sharing = tps_segment_pool_receive (pair_->pool, message);
    return message;
  }

  TpsSharingStats
  stats ()
  {
    TpsSharingStats stats = {};

    tps_segment_pool_add_stats (pair_->pool, &stats);
    return stats;
  }

  std::unique_ptr<PoolPair> pair_;
  TpsSharedSlice slice_ = {};
};

const std::vector<float> LARGE (MIB / 4, 1.5f); /* 1 MiB */

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
  EXPECT_TRUE (pair_->is_awake); /* with the offer it can be opened */
  pair_->settle ();
  ASSERT_EQ (pair_->opened.size (), 1u);
  EXPECT_EQ (pair_->opened[0].use, TPS_SEGMENT_REQUESTS);
  EXPECT_EQ (pair_->opened[0].n_bytes, MIB);
  EXPECT_TRUE (push (100000));
  EXPECT_EQ (slice_.offset, 0);
  EXPECT_EQ (slice_.length, 100000);
  EXPECT_TRUE (push (100000)); /* the same segment again */
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
  EXPECT_TRUE (tps_segment_lease_is_used (lease));
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
  EXPECT_EQ (pair_->opened.size (), 2u); /* two at the same time */
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
  TpsSharing *first = write ({ 100000 });
  EXPECT_TRUE (tps_segment_lease_is_used (first));
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
  EXPECT_FALSE (push (4 * MIB + 1)); /* more than the limit */
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
  pair_->answer (); /* the offer */
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
  EXPECT_TRUE (pair_->asked.empty ()); /* it is being read */
  for (TpsTensor &tensor : tensors)
    tps_tensor_clear (&tensor);
  EXPECT_TRUE (pair_->is_awake);
  pair_->ask ();
  ASSERT_EQ (pair_->asked.size (), 1u);
  EXPECT_EQ (pair_->asked[0].ask, TPS_SEGMENT_ASK_RELEASE);
  pair_->settle ();
  EXPECT_EQ (stats ().received_shared.n_bytes, MIB);
}

/* Slices begin at multiples of 64. */
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

TEST_F (SegmentPool, AnAnswerThatNobodyReadsIsGivenBack)
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

/* ---- when there is no room left ---- */

class FullSegmentPool : public SegmentPool
{
protected:
  ~FullSegmentPool () override
  {
    for (TpsSharing *lease : leases_)
      end (lease);
  }

  /* Calls with a tensor of this size, each while those before it are in flight. */
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

  /* Whether an answer of `LARGE` came in place. */
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

/* Calls and answers that need more than there is do not open and close without end. */
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

/* A Chunk, as in chunks.thrift: it has no slices. */
TEST_F (SegmentPool, LargeBinariesThatAreNoTensorsOpenNothing)
{
  make (64 * MIB, 64 * MIB);
  TpsWriter *out = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);
  tps_writer_message_begin (out, "get_chunk", TPS_MESSAGE_REPLY, 1);
  tps_writer_struct_begin (out);
  tps_writer_field (out, 0, TPS_WIRE_STRUCT);
  tps_writer_struct_begin (out);
  tps_field_write_string (out, 1, "transfer");
  tps_field_write_i32 (out, 2, 1);
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
  TpsMessage *message = make_answer ({ LARGE }); /* to that call */
  push (4 * MIB);                                /* needs the room */
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
  EXPECT_TRUE (pair_->asked.empty ());  /* the server knows it no more */
  EXPECT_EQ (count_mappings (), 1 + 1); /* the larger one, on both sides */
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

/* ---- servers that do not keep to the rules ---- */

class HostileServer : public SegmentPool
{
protected:
  HostileServer ()
  {
    make (64 * MIB, 64 * MIB);
    tps_message_free (answer ({ LARGE }));
    pair_->settle ();
  }

  /* What the decoder says of an answer with this slice; the next honest answer must still be read. */
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
    tps_reader_field (&in, &id, &type); /* the tensor */
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
  /* Another answer that names the same segment. */
  TpsMessage *second = tps_message_new ();
  g_byte_array_append (second->head, first->head->data, first->head->len);
  second->sharing = tps_segment_pool_receive (pair_->pool, second);
  EXPECT_EQ (second->sharing->ops->resolve (second->sharing, &slice, nullptr), nullptr);
  TpsBuffer *buffer = first->sharing->ops->resolve (first->sharing, &slice, nullptr);
  EXPECT_NE (buffer, nullptr);
  tps_message_free (second);
  pair_->ask ();
  EXPECT_TRUE (pair_->asked.empty ()); /* the first is still read */
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
    pair_->ask (); /* an open is out */
    EXPECT_EQ (pair_->asked.size (), 1u);
    pair_->asked.clear ();
  }

  /* Nothing is opened any more; what was announced is closed. */
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

  EXPECT_FALSE (tps_segment_pool_opened (pair_->pool, 5, MIB, &error));
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
  EXPECT_FALSE (tps_segment_pool_opened (pair_->pool, 5, MIB, nullptr));
  expect_ended (true);
}

TEST_F (HostileOpen, AnotherSizeThanAskedFor)
{
  gint fd;
  g_autoptr (TpsSegment) segment = tps_segment_create (TPS_SEGMENT_REQUESTS, 2 * MIB, &fd, nullptr);

  EXPECT_TRUE (tps_segment_pool_add_descriptor (pair_->pool, fd));
  EXPECT_FALSE (tps_segment_pool_opened (pair_->pool, 5, 2 * MIB, nullptr));
  expect_ended (true);
}

TEST_F (HostileOpen, AnIdThatIsThereAlready)
{
  g_autoptr (GError) error = nullptr;
  gint fd;
  g_autoptr (TpsSegment) first = tps_segment_create (TPS_SEGMENT_REQUESTS, MIB, &fd, nullptr);

  EXPECT_TRUE (tps_segment_pool_add_descriptor (pair_->pool, fd));
  EXPECT_TRUE (tps_segment_pool_opened (pair_->pool, 5, MIB, nullptr));
  push (2 * MIB); /* a larger segment is asked for */
  pair_->ask ();
  ASSERT_EQ (pair_->asked.size (), 1u);
  gsize size = pair_->asked[0].n_bytes;
  g_autoptr (TpsSegment) second = tps_segment_create (TPS_SEGMENT_REQUESTS, size, &fd, nullptr);
  pair_->asked.clear ();
  EXPECT_TRUE (tps_segment_pool_add_descriptor (pair_->pool, fd));
  EXPECT_FALSE (tps_segment_pool_opened (pair_->pool, 5, static_cast<gint64> (size), &error));
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

TEST_F (HostileOpen, DescriptorThatNobodyAskedFor)
{
  tps_segment_pool_open_failed (pair_->pool, TRUE);
  EXPECT_FALSE (tps_segment_pool_add_descriptor (pair_->pool, open ("/dev/null", O_RDONLY)));
}

}

}
