/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Applies random operations to the registry, and compares it with a model of a client's
 * knowledge. */

#include "tests/plugin/memory/registry_fixture.h"

namespace tps_test {
namespace {

class Model
{
public:
  Model (TpsSegmentRegistry *registry, TpsBudget *account, guint seed)
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

  /* Returns an id that is open, was open, or never existed. */
  gint64
  pick_id ()
  {
    if (seen_.empty () || roll (8) == 0)
      return static_cast<gint64> (roll (1000)) - 500;
    return seen_[roll (seen_.size ())];
  }

  /* Closed memory counts until its last slice, or the reply in it, has been released. */
  void
  check_account ()
  {
    gsize n_bytes = 0;

    for (const auto &[id, segment] : open_)
      n_bytes += segment.size;
    for (const auto &[id, size] : lingering_)
      if (holds (id))
        n_bytes += size;
    ASSERT_EQ (tps_budget_get_held (account_), n_bytes);
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

    ASSERT_EQ (
        tps_segment_registry_open (registry_, use, n_bytes, &id, &got, &fd, nullptr, nullptr),
        fits);
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
    ASSERT_EQ (sum, 0); /* this memory was never written */
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

  /* Returns the size of the smallest free segment of at least `n_bytes`; 0 = none. */
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
  TpsBudget *account_;
  std::mt19937 dice_;
  std::map<gint64, Segment> open_;
  std::map<gint64, gsize> lingering_; /* closed segments whose memory still counts */
  std::vector<gint64> seen_;
  std::vector<TpsBuffer *> buffers_;
  std::vector<gint64> buffer_ids_;
  std::vector<Filling> answers_;
  gsize n_bytes_ = 0;
  int n_received_ = 0;
  int n_released_ = 0;
};

TEST_F (SegmentRegistry, agreesWithAModelUnderRandomOperations)
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
} // namespace tps_test
