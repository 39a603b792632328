/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Single rules by name, then random operations against a model of what a client may know. */

#include "plugin/memory/segment_registry.h"

#include <gtest/gtest.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/error.h"

namespace {

constexpr gsize kPage = 4096;

struct SharingUnref
{
  void
  operator() (TpsSharing *sharing) const
  {
    tps_sharing_unref (sharing);
  }
};

using Sharing = std::unique_ptr<TpsSharing, SharingUnref>;

void
count (gpointer counter)
{
  ++*static_cast<int *> (counter);
}

class SegmentRegistry : public testing::Test
{
protected:
  void
  SetUp () override
  {
    make (1 << 20, 8);
  }

  void
  TearDown () override
  {
    tps_segment_registry_unref (registry);
    EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (account), 0u);
    tps_buffer_pool_unref (account);
  }

  void
  make (gsize max_bytes, guint max_segments)
  {
    TpsSegmentLimits limits = { max_bytes, max_segments, account };

    g_clear_pointer (&registry, tps_segment_registry_unref);
    registry = tps_segment_registry_new (&limits);
  }

  gint64
  open (TpsSegmentUse use, gsize n_bytes, GError **error = nullptr)
  {
    gint64 id = -1;
    gsize size = 0;
    gint fd = -1;

    if (!tps_segment_registry_open (registry, use, n_bytes, &id, &size, &fd, error))
      {
        EXPECT_EQ (fd, -1);
        return -1;
      }
    EXPECT_EQ (size, (n_bytes + kPage - 1) / kPage * kPage);
    EXPECT_GE (fd, 0);
    close (fd);
    return id;
  }

  Sharing
  receive (int *released)
  {
    return Sharing (tps_segment_registry_receive (registry, count, released));
  }

  Sharing
  answer ()
  {
    return Sharing (tps_segment_registry_answer (registry));
  }

  static std::string
  resolve_refusal (TpsSharing *sharing, TpsSharedSlice slice)
  {
    g_autoptr (GError) error = nullptr;
    g_autoptr (TpsBuffer) buffer = sharing->ops->resolve (sharing, &slice, &error);

    EXPECT_EQ (buffer == nullptr, error != nullptr);
    if (error == nullptr)
      return "";
    EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
    return error->message;
  }

  bool
  release (gint64 id)
  {
    return tps_segment_registry_release (registry, &id, 1, nullptr);
  }

  bool
  close_segment (gint64 id)
  {
    return tps_segment_registry_close (registry, &id, 1, nullptr);
  }

  bool
  place (const Sharing &sharing, gsize n_bytes, TpsSharedSlice *slice)
  {
    std::vector<guint8> bytes (n_bytes, 'x');

    return sharing->ops->place (sharing.get (), bytes.data (), n_bytes, slice);
  }

  TpsBufferPool *account = tps_buffer_pool_new (1 << 21, 0);
  TpsSegmentRegistry *registry = nullptr;
};

/* ---- limits --------------------------------------------------------------------------------- */

TEST_F (SegmentRegistry, opensNoMoreBytesThanAConnectionMayHave)
{
  g_autoptr (GError) error = nullptr;

  EXPECT_GT (open (TPS_SEGMENT_REQUESTS, 1 << 19), 0);
  EXPECT_GT (open (TPS_SEGMENT_ANSWERS, 1 << 19), 0);
  EXPECT_EQ (open (TPS_SEGMENT_REQUESTS, 1, &error), -1);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (account), gsize { 1 } << 20);
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

TEST_F (SegmentRegistry, whatOneLimitRefusesCountsAgainstNone)
{
  g_autoptr (TpsBufferPool) all = tps_buffer_pool_new (1 << 30, 0);
  TpsSegmentLimits limits = { 1 << 30, 8, account, all };

  g_clear_pointer (&registry, tps_segment_registry_unref);
  registry = tps_segment_registry_new (&limits);
  EXPECT_EQ (open (TPS_SEGMENT_REQUESTS, 1 << 22), -1); /* twice what the account may have */
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (all), 0u);
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (account), 0u);
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
  EXPECT_EQ (open (static_cast<TpsSegmentUse> (3), 1, &no_use), -1);
  EXPECT_TRUE (g_error_matches (no_use, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
}

TEST_F (SegmentRegistry, whatIsClosedMakesRoom)
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

  ASSERT_TRUE (
      tps_segment_registry_open (other, TPS_SEGMENT_REQUESTS, 1, &foreign, &size, &fd, nullptr));
  close (fd);
  EXPECT_EQ (resolve_refusal (sharing.get (), { requests, 0, 64 }), "");
  EXPECT_EQ (resolve_refusal (sharing.get (), { answers, 0, 64 }),
             "names segment " + std::to_string (answers) + ", which is for answers");
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
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (account), kPage);
  tps_buffer_unref (buffer);
  EXPECT_EQ (released, 1);
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (account), 0u);
}

TEST_F (SegmentRegistry, opensNothingAfterItWasShutDown)
{
  g_autoptr (GError) error = nullptr;
  gint64 id = open (TPS_SEGMENT_ANSWERS, kPage);

  tps_segment_registry_shut_down (registry);
  tps_segment_registry_shut_down (registry);
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (account), 0u);
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
  EXPECT_FALSE (place (sharing, 2 * kPage - 63, &slice)); /* a byte beyond its end */
  EXPECT_TRUE (place (sharing, 2 * kPage - 64, &slice));
}

/* Else it would name one that the client is told of later. */
TEST_F (SegmentRegistry, noAnswerIsPlacedWhileAnotherTellsOfASegment)
{
  open (TPS_SEGMENT_ANSWERS, kPage);
  Sharing before = answer ();
  TpsSharedSlice slice;

  tps_segment_registry_hold_answers (registry);
  tps_segment_registry_hold_answers (registry);
  EXPECT_EQ (answer (), nullptr);
  EXPECT_FALSE (place (before, 64, &slice));
  tps_segment_registry_resume_answers (registry);
  EXPECT_EQ (answer (), nullptr) << "the other holds them still";
  tps_segment_registry_resume_answers (registry);
  EXPECT_TRUE (place (before, 64, &slice));
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
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (account), 0u);
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
                                 + " is for requests: there is nothing to release");
  EXPECT_NE (answer (), nullptr);
  g_clear_error (&error);
  EXPECT_FALSE (tps_segment_registry_close (registry, ids, 3, &error));
  EXPECT_STREQ (error->message, "segment 12345678 is not open on this connection");
  EXPECT_FALSE (close_segment (requests));
  EXPECT_FALSE (close_segment (answers));
}

/* ---- random operations ---------------------------------------------------------------------- */

class Model
{
public:
  Model (TpsSegmentRegistry *registry, TpsBufferPool *account, guint seed)
      : registry_ (registry), account_ (account), dice_ (seed)
  {
  }

  ~Model ()
  {
    for (TpsBuffer *buffer : buffers_)
      tps_buffer_unref (buffer);
  }

  void
  step ()
  {
    void (Model::*const steps[]) () = { &Model::open,    &Model::close,     &Model::release,
                                        &Model::receive, &Model::let_go,    &Model::begin_answer,
                                        &Model::place,   &Model::end_answer };

    (this->*steps[roll (G_N_ELEMENTS (steps))]) ();
    check_account ();
  }

private:
  enum State
  {
    kRequests,
    kFree,
    kFilling,
    kLent
  };

  struct Segment
  {
    gsize size;
    State state;
  };

  struct Filling
  {
    Sharing sharing;
    gint64 id = 0; /* 0: nothing was placed */
    gsize size = 0;
    gsize used = 0;
  };

  gsize
  roll (gsize n)
  {
    return dice_ () % n;
  }

  /* An id that is open, was open, or never was. */
  gint64
  pick_id ()
  {
    if (seen_.empty () || roll (8) == 0)
      return static_cast<gint64> (roll (1000)) - 500;
    return seen_[roll (seen_.size ())];
  }

  /* Closed memory counts until the last slice of it, or the answer in it, has gone. */
  void
  check_account ()
  {
    gsize n_bytes = 0;

    for (const auto &[id, segment] : open_)
      n_bytes += segment.size;
    for (const auto &[id, size] : lingering_)
      if (holds (id))
        n_bytes += size;
    ASSERT_EQ (tps_buffer_pool_get_n_bytes_out (account_), n_bytes);
    n_bytes_ = n_bytes;
  }

  bool
  holds (gint64 id)
  {
    return std::count (buffer_ids_.begin (), buffer_ids_.end (), id) > 0
           || std::any_of (answers_.begin (), answers_.end (),
                           [id] (const Filling &filling) { return filling.id == id; });
  }

  void
  open ()
  {
    TpsSegmentUse use = roll (2) == 0 ? TPS_SEGMENT_REQUESTS : TPS_SEGMENT_ANSWERS;
    gsize n_bytes = 1 + roll (10 * kPage);
    gsize size = (n_bytes + kPage - 1) / kPage * kPage;
    gint64 id;
    gsize got;
    gint fd;
    bool fits = n_bytes_ + size <= 16 * kPage;

    ASSERT_EQ (tps_segment_registry_open (registry_, use, n_bytes, &id, &got, &fd, nullptr), fits);
    if (!fits)
      return;
    ::close (fd);
    ASSERT_EQ (got, size);
    ASSERT_EQ (std::count (seen_.begin (), seen_.end (), id), 0);
    seen_.push_back (id);
    open_[id] = { size, use == TPS_SEGMENT_REQUESTS ? kRequests : kFree };
  }

  void
  close ()
  {
    gint64 id = pick_id ();
    auto found = open_.find (id);
    bool known = found != open_.end ();

    ASSERT_EQ (tps_segment_registry_close (registry_, &id, 1, nullptr), known);
    if (!known)
      return;
    lingering_[id] = found->second.size;
    open_.erase (found);
  }

  void
  release ()
  {
    gint64 id = pick_id ();
    auto found = open_.find (id);
    bool lent = found != open_.end () && found->second.state == kLent;

    ASSERT_EQ (tps_segment_registry_release (registry_, &id, 1, nullptr), lent);
    if (lent)
      found->second.state = kFree;
  }

  void
  receive ()
  {
    gint64 id = pick_id ();
    auto found = open_.find (id);
    TpsSharedSlice slice = { id, static_cast<gint64> (roll (12 * kPage) / 32 * 32),
                             static_cast<gint64> (roll (12 * kPage)) };
    Sharing sharing (tps_segment_registry_receive (registry_, count, &n_released_));

    ASSERT_EQ (sharing == nullptr, open_.empty ());
    if (sharing == nullptr)
      return;
    n_received_++;
    TpsBuffer *buffer = sharing->ops->resolve (sharing.get (), &slice, nullptr);
    bool inside = found != open_.end () && found->second.state == kRequests
                  && slice.offset % 64 == 0
                  && static_cast<gsize> (slice.offset + slice.length) <= found->second.size;

    ASSERT_EQ (buffer != nullptr, inside);
    if (buffer == nullptr)
      return;
    buffers_.push_back (buffer);
    buffer_ids_.push_back (id);
    sharing.reset ();
    check_released ();
  }

  void
  check_released ()
  {
    ASSERT_EQ (n_received_ - n_released_, static_cast<int> (buffers_.size ()));
  }

  void
  let_go ()
  {
    if (buffers_.empty ())
      return;
    gsize i = roll (buffers_.size ());
    guint8 sum = 0;

    for (gsize at = 0; at < tps_buffer_get_size (buffers_[i]); at += 64)
      sum |= tps_buffer_get_data (buffers_[i])[at];
    ASSERT_EQ (sum, 0); /* nobody has written there */
    tps_buffer_unref (buffers_[i]);
    buffers_.erase (buffers_.begin () + static_cast<gssize> (i));
    buffer_ids_.erase (buffer_ids_.begin () + static_cast<gssize> (i));
    check_released ();
  }

  void
  begin_answer ()
  {
    bool any = std::any_of (open_.begin (), open_.end (),
                            [] (const auto &item) { return item.second.state == kFree; });
    Filling filling;

    filling.sharing.reset (tps_segment_registry_answer (registry_));
    ASSERT_EQ (filling.sharing != nullptr, any);
    if (any)
      answers_.push_back (std::move (filling));
  }

  /* The size of the smallest free segment that fits; 0 = none. */
  gsize
  best_size (gsize n_bytes)
  {
    gsize best = 0;

    for (const auto &[id, segment] : open_)
      if (segment.state == kFree && segment.size >= n_bytes && (best == 0 || segment.size < best))
        best = segment.size;
    return best;
  }

  void
  place ()
  {
    if (answers_.empty ())
      return;
    Filling &filling = answers_[roll (answers_.size ())];
    gsize n_bytes = 1 + roll (6 * kPage);
    gsize at = (filling.used + 63) / 64 * 64;
    gsize best = best_size (n_bytes);
    bool fits = filling.id == 0 ? best > 0 : at + n_bytes <= filling.size;
    std::vector<guint8> bytes (n_bytes, 1);
    TpsSharedSlice slice;

    ASSERT_EQ (filling.sharing->ops->place (filling.sharing.get (), bytes.data (), n_bytes, &slice),
               fits);
    if (!fits)
      return;
    if (filling.id == 0)
      {
        ASSERT_EQ (open_.at (slice.segment).state, kFree);
        ASSERT_EQ (open_.at (slice.segment).size, best);
        open_.at (slice.segment).state = kFilling;
        filling.id = slice.segment;
        filling.size = best;
        at = 0;
      }
    ASSERT_EQ (slice.segment, filling.id);
    ASSERT_EQ (slice.offset, static_cast<gint64> (at));
    ASSERT_EQ (slice.length, static_cast<gint64> (n_bytes));
    filling.used = at + n_bytes;
  }

  void
  end_answer ()
  {
    if (answers_.empty ())
      return;
    gsize i = roll (answers_.size ());
    bool commit = roll (2) == 0;
    auto found = open_.find (answers_[i].id);

    if (commit)
      tps_segment_registry_commit (answers_[i].sharing.get ());
    if (found != open_.end ())
      found->second.state = commit ? kLent : kFree;
    answers_.erase (answers_.begin () + static_cast<gssize> (i));
  }

  TpsSegmentRegistry *registry_;
  TpsBufferPool *account_;
  std::mt19937 dice_;
  std::map<gint64, Segment> open_;
  std::map<gint64, gsize> lingering_; /* closed */
  std::vector<gint64> seen_;
  std::vector<TpsBuffer *> buffers_;
  std::vector<gint64> buffer_ids_;
  std::vector<Filling> answers_;
  gsize n_bytes_ = 0;
  int n_received_ = 0;
  int n_released_ = 0;
};

TEST_F (SegmentRegistry, doesWhatAModelSaysUnderRandomOperations)
{
  for (guint seed = 0; seed < 60 && !HasFailure (); seed++)
    {
      make (16 * kPage, 1000);
      Model model (registry, account, seed);

      SCOPED_TRACE (seed);
      for (int i = 0; i < 400 && !HasFailure (); i++)
        model.step ();
    }
}

} // namespace
