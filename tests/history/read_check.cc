/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/history/read_check.h"

#include <algorithm>
#include <numeric>

namespace history {
namespace {

/* The facts that are known at the start of a read. */
struct Begin
{
  uint32_t n_acked; /* in the epoch */
  uint32_t line;
  std::vector<uint32_t> least; /* by row and client: the number of pushes that the read must show */
  /* by row: the largest sum that earlier reads of the epoch have shown */
  std::vector<uint64_t> least_sum;
};

struct PushState
{
  uint32_t first_epoch = kNone;
  uint32_t last_epoch = kNone; /* the last epoch with an attempt of the push */
  uint32_t ack_epoch = kNone;
  uint32_t attempt = kNone; /* index in the attempts of `last_epoch` */
};

class Pass
{
public:
  Pass (const History &history, const RowIndex &index)
      : history_ (history), index_ (index), acked_ (index.n_cells ()), sent_ (index.n_cells ()),
        shown_ (history.n_rows), shown_epoch_ (history.n_rows, kNone),
        pushes_ (history.pushes.size ())
  {
    result_.epochs.emplace_back ();
  }

  ReadCheck
  run ()
  {
    for (const BadValue &bad : history_.bad_values)
      report ("not-a-count", bad.line,
              "row " + std::to_string (bad.row) + ", client " + std::to_string (bad.client)
                  + ": the value " + bad.text + " is not a number of pushes");
    for (const Event &event : history_.events)
      {
        if (result_.anomalies.size () >= kMaxAnomalies)
          break;
        take (event);
      }
    return std::move (result_);
  }

private:
  Epoch &
  epoch ()
  {
    return result_.epochs.back ();
  }
  uint32_t
  epoch_number () const
  {
    return static_cast<uint32_t> (result_.epochs.size () - 1);
  }

  void
  report (const char *name, uint32_t line, const std::string &text)
  {
    if (result_.anomalies.size () < kMaxAnomalies)
      result_.anomalies.push_back ({ name, line, text });
  }

  void
  take (const Event &event)
  {
    epoch ().end_line = event.line;
    switch (event.kind)
      {
      case EventKind::push:
        take_push (event.what);
        break;
      case EventKind::ack:
        take_ack (event.what);
        break;
      case EventKind::read:
        take_read (event);
        break;
      case EventKind::values:
        take_values (event);
        break;
      case EventKind::lost:
        begins_.erase (event.what);
        break;
      case EventKind::restart:
        result_.epochs.emplace_back ();
        epoch ().end_line = event.line;
        break;
      case EventKind::unknown:
      case EventKind::repeat:
      case EventKind::crash:
        break;
      }
  }

  void
  take_push (uint32_t what)
  {
    const Push &push = history_.pushes[what];
    PushState &state = pushes_[what];

    if (state.first_epoch == kNone)
      {
        state.first_epoch = epoch_number ();
        for (uint32_t i = 0; i < push.n_rows; i++)
          sent_[index_.cell (history_.rows_of (push)[i], push.client)]++;
      }
    if (state.last_epoch == epoch_number ())
      return;
    state.last_epoch = epoch_number ();
    state.attempt = static_cast<uint32_t> (epoch ().attempts.size ());
    epoch ().attempts.push_back ({ what, static_cast<uint32_t> (epoch ().acks.size ()), kNone });
  }

  void
  take_ack (uint32_t what)
  {
    const Push &push = history_.pushes[what];
    PushState &state = pushes_[what];

    state.ack_epoch = epoch_number ();
    epoch ().attempts[state.attempt].ack_order = static_cast<uint32_t> (epoch ().acks.size ());
    epoch ().acks.push_back (state.attempt);
    for (uint32_t i = 0; i < push.n_rows; i++)
      acked_[index_.cell (history_.rows_of (push)[i], push.client)]++;
  }

  void
  take_read (const Event &event)
  {
    const Read &read = history_.reads[event.what];
    Begin &begin = begins_[event.what];

    begin.n_acked = static_cast<uint32_t> (epoch ().acks.size ());
    begin.line = event.line;
    for (uint32_t i = 0; i < read.n_rows; i++)
      {
        uint32_t row = history_.rows_of (read)[i];
        auto cells = acked_.begin () + static_cast<ptrdiff_t> (index_.cell (row, 0));

        begin.least.insert (begin.least.end (), cells, cells + history_.n_clients);
        begin.least_sum.push_back (shown_epoch_[row] == epoch_number () ? shown_[row] : 0);
      }
  }

  void
  take_values (const Event &event)
  {
    const Read &read = history_.reads[event.what];
    auto found = begins_.find (event.what);

    for (uint32_t i = 0; i < read.n_rows; i++)
      take_row (event, read, found->second, i);
    begins_.erase (found);
  }

  void
  take_row (const Event &event, const Read &read, const Begin &begin, uint32_t i)
  {
    const uint32_t row = history_.rows_of (read)[i];
    const uint32_t *values = history_.values_of (read, i);
    const uint32_t *least = begin.least.data () + static_cast<size_t> (i) * history_.n_clients;
    bool is_possible = true;
    uint64_t sum = 0;

    for (uint32_t client = 0; client < history_.n_clients; client++)
      {
        is_possible &= check_value (event, row, client, values[client], least[client]);
        sum += values[client];
      }
    if (!is_possible)
      return;
    for (uint32_t client = 0; client < history_.n_clients; client++)
      note_fates (event, row, client, values[client]);
    if (sum < begin.least_sum[i])
      report ("backwards", event.line,
              "row " + std::to_string (row) + ": the read that began in line "
                  + std::to_string (begin.line) + " shows " + std::to_string (sum)
                  + " pushes, but a read that ended before it began showed "
                  + std::to_string (begin.least_sum[i]));
    if (shown_epoch_[row] != epoch_number ())
      shown_[row] = 0;
    shown_epoch_[row] = epoch_number ();
    shown_[row] = std::max (shown_[row], sum);
    epoch ().sights.push_back ({ row, begin.n_acked,
                                 static_cast<uint32_t> (epoch ().attempts.size ()), event.line, sum,
                                 read.first_value + static_cast<size_t> (i) * history_.n_clients });
  }

  bool
  check_value (const Event &event, uint32_t row, uint32_t client, uint32_t value, uint32_t least)
  {
    size_t cell = index_.cell (row, client);

    if (value == kNone)
      return false; /* already reported */
    if (value < least)
      {
        const Push &missing = history_.pushes[index_.push (cell, value)];

        report (is_shown_later (event, row, client, value) ? "stale-read" : "lost-push", event.line,
                "row " + std::to_string (row) + ", client " + std::to_string (client)
                    + ": the read shows " + std::to_string (value) + " pushes, but "
                    + std::to_string (least)
                    + " were acknowledged before it began; the first one missing is "
                    + to_text (missing));
        return false;
      }
    if (value > sent_[cell])
      {
        report ("excess", event.line,
                "row " + std::to_string (row) + ", client " + std::to_string (client)
                    + ": the read shows " + std::to_string (value) + " pushes, but only "
                    + std::to_string (sent_[cell])
                    + " had been sent: one was applied twice, or none of these was sent");
        return false;
      }
    return true;
  }

  /* Returns true if a later read of the same epoch shows more than `value`. Such a read proves that
   * the push was applied. */
  bool
  is_shown_later (const Event &event, uint32_t row, uint32_t client, uint32_t value) const
  {
    for (auto at = history_.events.begin () + (&event - history_.events.data ()) + 1;
         at != history_.events.end () && at->kind != EventKind::crash; ++at)
      {
        if (at->kind != EventKind::values)
          continue;
        const Read &read = history_.reads[at->what];
        for (uint32_t i = 0; i < read.n_rows; i++)
          if (history_.rows_of (read)[i] == row && history_.values_of (read, i)[client] > value)
            return true;
      }
    return false;
  }

  /* Only two pushes of a client can have an unknown result: the last push that the read shows, and
   * the next push. */
  void
  note_fates (const Event &event, uint32_t row, uint32_t client, uint32_t value)
  {
    size_t cell = index_.cell (row, client);

    if (value > acked_[cell])
      {
        uint32_t last = index_.push (cell, value - 1);

        if (pushes_[last].last_epoch != epoch_number ())
          note_present (last, { epoch_number (), event.line, row });
      }
    if (value < sent_[cell])
      {
        uint32_t next = index_.push (cell, value);
        const PushState &state = pushes_[next];

        if (state.first_epoch != epoch_number ())
          note_absent (next, { epoch_number (), event.line, row });
      }
  }

  void
  note_present (uint32_t push, const Fate::Saying &saying)
  {
    Fate &fate = result_.fates[push];

    if (!fate.is_present)
      fate.present = saying;
    fate.is_present = true;
  }

  void
  note_absent (uint32_t push, const Fate::Saying &saying)
  {
    Fate &fate = result_.fates[push];

    fate.absent = saying;
    fate.is_absent = true;
  }

  const History &history_;
  const RowIndex &index_;
  std::vector<uint32_t> acked_, sent_; /* by cell */
  std::vector<uint64_t> shown_;        /* by row: the largest sum of a read that has ended */
  std::vector<uint32_t> shown_epoch_;  /* by row: the epoch of `shown_` */
  std::vector<PushState> pushes_;
  std::unordered_map<uint32_t, Begin> begins_; /* of open reads */
  ReadCheck result_;
};

} // namespace

ReadCheck
check_reads (const History &history, const RowIndex &index)
{
  return Pass (history, index).run ();
}

} // namespace history
