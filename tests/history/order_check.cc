/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The graph of an epoch. An edge from A to B means that every push before A in the order precedes
 * every push after B.
 *
 *   push       a push that was attempted in the epoch and is not known from an earlier epoch
 *   turn       one before each push: the time when the push was sent
 *   ack        one for each acknowledgement, in their order: the time of the acknowledgement
 *   seen       one for each state of a row that was read: after the pushes that the state has
 *   unseen     another one for each state: before the pushes that the state lacks
 *
 * A state has two nodes because reads of different rows do not order each other. There are edges
 * from "seen" to pushes that were sent later, and to "unseen" from acknowledgements that came
 * earlier. There are no edges between the states of different rows. */

#include "tests/history/order_check.h"

#include <algorithm>
#include <memory>

#include "tests/history/graph.h"

namespace history {
namespace {

/* All sights of one row that show the same values. */
struct State
{
  const Sight *first;
  uint32_t n_acked; /* before the last of its reads began */
  uint32_t n_sent;  /* before the first of its reads ended */
};

class EpochCheck
{
public:
  /* `place_of` has the place of each push in the epoch's attempts, or kNone. The destructor
   * restores it. `is_kept` is true for each push that an earlier crash has kept without an
   * acknowledgement. */
  EpochCheck (const History &history, const RowIndex &index, const Epoch &epoch,
              std::vector<uint32_t> *place_of, const std::vector<bool> &is_kept)
      : history_ (history), index_ (index), epoch_ (epoch), place_of_ (*place_of)
  {
    for (uint32_t i = 0; i < epoch.attempts.size (); i++)
      if (!is_kept[epoch.attempts[i].push])
        place_of_[epoch.attempts[i].push] = i;
  }
  ~EpochCheck ()
  {
    for (const Attempt &attempt : epoch_.attempts)
      place_of_[attempt.push] = kNone;
  }
  EpochCheck (const EpochCheck &) = delete;
  EpochCheck &operator= (const EpochCheck &) = delete;

  /* Returns false if there is a contradiction, which `anomaly` describes. */
  bool
  run (Anomaly *anomaly)
  {
    if (!find_states (anomaly))
      return false;
    graph_ = std::make_unique<Graph> (n_nodes (), [this] (auto add) { list_edges (add); });
    std::vector<uint32_t> cycle = graph_->find_cycle ();
    if (cycle.empty ())
      return true;
    *anomaly = { "order", epoch_.end_line,
                 "reads and times contradict each other about the order of pushes: "
                     + describe (cycle) + ", which is before the first of these" };
    return false;
  }

  /* A crash has lost the pushes at the places `lost` of the attempts. Sets `is_lost`, by place, for
   * these pushes and for all pushes that must follow one of them in the order. Returns false if one
   * of these was acknowledged. */
  bool
  find_lost (const std::vector<uint32_t> &lost, std::vector<bool> *is_lost, Anomaly *anomaly)
  {
    is_lost->assign (n_pushes (), false);
    if (lost.empty ())
      return true;
    std::vector<uint32_t> from = graph_->reach (lost);
    for (uint32_t i = 0; i < n_pushes (); i++)
      (*is_lost)[i] = from[i] != Graph::kUnreached;
    for (uint32_t i = 0; i < n_pushes (); i++)
      if ((*is_lost)[i] && epoch_.attempts[i].ack_order != kNone)
        {
          *anomaly = { "not-a-prefix", epoch_.end_line,
                       "the crash lost a push and kept an acknowledged one that came after it: "
                           + describe (way_to (from, i)) };
          return false;
        }
    return true;
  }

private:
  /* ---- nodes ---- */

  uint32_t
  n_pushes () const
  {
    return static_cast<uint32_t> (epoch_.attempts.size ());
  }
  uint32_t
  n_acks () const
  {
    return static_cast<uint32_t> (epoch_.acks.size ());
  }
  uint32_t
  turn (uint32_t place) const
  {
    return n_pushes () + place;
  }
  uint32_t
  ack (uint32_t order) const
  {
    return 2 * n_pushes () + order;
  }
  uint32_t
  seen (size_t state) const
  {
    return 2 * n_pushes () + n_acks () + static_cast<uint32_t> (2 * state);
  }
  uint32_t
  unseen (size_t state) const
  {
    return seen (state) + 1;
  }
  uint32_t
  n_nodes () const
  {
    return seen (states_.size ());
  }

  /* ---- states ---- */

  const uint32_t *
  values_of (const State &state) const
  {
    return history_.values.data () + state.first->value;
  }

  bool
  is_same (const Sight &a, const Sight &b) const
  {
    const uint32_t *values = history_.values.data () + a.value;

    return a.row == b.row && a.sum == b.sum
           && std::equal (values, values + history_.n_clients, history_.values.data () + b.value);
  }

  /* Returns the sights sorted by row, and the sights of one row sorted by their sums. */
  std::vector<const Sight *>
  sort_sights () const
  {
    std::vector<uint32_t> ends (history_.n_rows + 2); /* of the preceding row, later of the row */
    std::vector<const Sight *> sorted (epoch_.sights.size ());

    for (const Sight &sight : epoch_.sights)
      ends[sight.row + 2]++;
    for (size_t i = 2; i < ends.size (); i++)
      ends[i] += ends[i - 1];
    for (const Sight &sight : epoch_.sights)
      sorted[ends[sight.row + 1]++] = &sight;
    for (uint32_t row = 0; row < history_.n_rows; row++)
      std::stable_sort (sorted.begin () + ends[row], sorted.begin () + ends[row + 1],
                        [] (const Sight *a, const Sight *b) { return a->sum < b->sum; });
    return sorted;
  }

  bool
  find_states (Anomaly *anomaly)
  {
    for (const Sight *sight : sort_sights ())
      {
        if (states_.empty () || !is_same (*states_.back ().first, *sight))
          {
            states_.push_back ({ sight, sight->n_acked, sight->n_sent });
            if (!check_chain (anomaly))
              return false;
            continue;
          }
        State &state = states_.back ();
        state.n_acked = std::max (state.n_acked, sight->n_acked);
        state.n_sent = std::min (state.n_sent, sight->n_sent);
      }
    return true;
  }

  /* Returns true if the last state has all pushes of the preceding state, or if that state is of
   * another row. */
  bool
  check_chain (Anomaly *anomaly) const
  {
    if (states_.size () < 2 || !is_next (states_.size () - 1))
      return true;
    const State &state = states_[states_.size () - 1];
    const State &before = states_[states_.size () - 2];
    for (uint32_t client = 0; client < history_.n_clients; client++)
      {
        if (values_of (before)[client] <= values_of (state)[client])
          continue;
        const Sight &later = std::max (*state.first, *before.first,
                                       [] (auto &a, auto &b) { return a.line < b.line; });
        *anomaly = { "fork", later.line,
                     "row " + std::to_string (later.row) + ": " + describe_state (state) + " and "
                         + describe_state (before) + ", and neither has all that the other has" };
        return false;
      }
    return true;
  }

  /* Returns true if the preceding state is of the same row. */
  bool
  is_next (size_t state) const
  {
    return state > 0 && state < states_.size ()
           && states_[state].first->row == states_[state - 1].first->row;
  }

  /* ---- edges ---- */

  template <typename Add>
  void
  list_edges (Add add) const
  {
    for (uint32_t i = 0; i < n_pushes (); i++)
      {
        const Attempt &attempt = epoch_.attempts[i];

        if (i > 0)
          add (turn (i - 1), turn (i));
        if (place_of_[attempt.push] == kNone)
          continue;
        add (turn (i), i);
        if (attempt.n_acked > 0)
          add (ack (attempt.n_acked - 1), turn (i));
      }
    for (uint32_t i = 0; i < n_acks (); i++)
      {
        if (i > 0)
          add (ack (i - 1), ack (i));
        if (place_of_[epoch_.attempts[epoch_.acks[i]].push] != kNone)
          add (epoch_.acks[i], ack (i));
      }
    for (size_t i = 0; i < states_.size (); i++)
      list_edges_of_state (i, add);
  }

  template <typename Add>
  void
  list_edges_of_state (size_t i, Add add) const
  {
    const State &state = states_[i];

    add (seen (i), unseen (i));
    if (state.n_acked > 0)
      add (ack (state.n_acked - 1), unseen (i));
    if (state.n_sent < n_pushes ())
      add (seen (i), turn (state.n_sent));
    if (is_next (i))
      {
        add (seen (i - 1), seen (i));
        add (unseen (i - 1), unseen (i));
      }
    for (uint32_t client = 0; client < history_.n_clients; client++)
      list_edges_of_cell (i, client, add);
  }

  /* Adds edges for the pushes of one client between this state and the next. For the first state of
   * a row, it also adds edges for the pushes before it. */
  template <typename Add>
  void
  list_edges_of_cell (size_t i, uint32_t client, Add add) const
  {
    size_t cell = index_.cell (states_[i].first->row, client);
    uint32_t at = values_of (states_[i])[client];
    uint32_t end = is_next (i + 1) ? values_of (states_[i + 1])[client] : index_.size (cell);

    for (uint32_t m = at; !is_next (i) && m > 0 && place_in (cell, m - 1) != kNone; m--)
      add (place_in (cell, m - 1), seen (i));
    for (uint32_t m = at; m < end && place_in (cell, m) != kNone; m++)
      {
        add (unseen (i), place_in (cell, m));
        if (is_next (i + 1))
          add (place_in (cell, m), seen (i + 1));
      }
  }

  uint32_t
  place_in (size_t cell, uint32_t m) const
  {
    return place_of_[index_.push (cell, m)];
  }

  /* ---- reports ---- */

  std::string
  describe_state (const State &state) const
  {
    std::string text = "line " + std::to_string (state.first->line) + " shows";

    for (uint32_t client = 0; client < history_.n_clients; client++)
      text += " " + std::to_string (values_of (state)[client]);
    return text;
  }

  /* Names the pushes among the nodes, and the reasons for their order. */
  std::string
  describe (const std::vector<uint32_t> &nodes) const
  {
    std::string text;

    for (uint32_t node : nodes)
      {
        if (!text.empty () && (node < n_pushes () || node >= seen (0)))
          text += ", then ";
        if (node < n_pushes ())
          text += to_text (history_.pushes[epoch_.attempts[node].push]);
        else if (node >= seen (0))
          {
            const State &state = states_[(node - seen (0)) / 2];

            text += "row " + std::to_string (state.first->row) + " as " + describe_state (state)
                    + (node % 2 == seen (0) % 2 ? " (with the former)" : " (without the latter)");
          }
      }
    return text;
  }

  std::vector<uint32_t>
  way_to (const std::vector<uint32_t> &from, uint32_t node) const
  {
    std::vector<uint32_t> way = { node };

    for (; from[node] != node; node = from[node])
      way.push_back (from[node]);
    std::reverse (way.begin (), way.end ());
    return way;
  }

  const History &history_;
  const RowIndex &index_;
  const Epoch &epoch_;
  std::vector<uint32_t> &place_of_;
  std::vector<State> states_;
  std::unique_ptr<Graph> graph_;
};

/* ---- crashes --------------------------------------------------------------------------------- */

class Pass
{
public:
  Pass (const History &history, const RowIndex &index, const ReadCheck &reads)
      : history_ (history), index_ (index), reads_ (reads),
        place_of_ (history.pushes.size (), kNone), is_kept_ (history.pushes.size ())
  {
  }

  std::vector<Anomaly>
  run ()
  {
    Anomaly anomaly;

    if (!check_fates (&anomaly))
      return { anomaly };
    for (uint32_t i = 0; i < reads_.epochs.size (); i++)
      if (!check_present (i, &anomaly) || !check_epoch (i, &anomaly))
        return { anomaly };
    return {};
  }

private:
  /* A push is invisible until it is applied, and visible from then on. */
  bool
  check_fates (Anomaly *anomaly) const
  {
    for (auto &[push, fate] : reads_.fates)
      {
        if (!fate.is_present || !fate.is_absent || fate.present.epoch > fate.absent.epoch)
          continue;
        bool is_torn = fate.present.row != fate.absent.row;
        *anomaly = { is_torn ? "torn-push" : "unstable-push",
                     std::max (fate.present.line, fate.absent.line),
                     to_text (history_.pushes[push]) + " was open at a crash. Row "
                         + std::to_string (fate.present.row) + " has it in line "
                         + std::to_string (fate.present.line) + ", and row "
                         + std::to_string (fate.absent.row) + " has it not in line "
                         + std::to_string (fate.absent.line)
                         + ", without an attempt that could explain it" };
        return false;
      }
    return true;
  }

  /* If a read of this epoch shows a push before the push was sent again, an earlier crash must have
   * kept it. */
  bool
  check_present (uint32_t epoch, Anomaly *anomaly) const
  {
    for (auto &[push, fate] : reads_.fates)
      {
        if (!fate.is_present || fate.present.epoch != epoch || is_kept_[push])
          continue;
        *anomaly = { "not-a-prefix", fate.present.line,
                     "row " + std::to_string (fate.present.row) + " shows "
                         + to_text (history_.pushes[push])
                         + ", which no crash can have kept: one that came before it was lost" };
        return false;
      }
    return true;
  }

  bool
  check_epoch (uint32_t number, Anomaly *anomaly)
  {
    const Epoch &epoch = reads_.epochs[number];
    EpochCheck check (history_, index_, epoch, &place_of_, is_kept_);
    std::vector<uint32_t> lost;
    std::vector<bool> is_lost;

    if (!check.run (anomaly))
      return false;
    for (uint32_t i = 0; i < epoch.attempts.size (); i++)
      if (must_be_lost (number, epoch.attempts[i].push))
        lost.push_back (i);
    if (!check.find_lost (lost, &is_lost, anomaly))
      return false;
    /* If a push may have been kept, it is assumed to be kept, because this does not constrain later
     * epochs. */
    for (uint32_t i = 0; i < epoch.attempts.size (); i++)
      if (epoch.attempts[i].ack_order == kNone && !is_lost[i])
        is_kept_[epoch.attempts[i].push] = true;
    return true;
  }

  /* Returns true if a read of a later epoch does not show the push. */
  bool
  must_be_lost (uint32_t epoch, uint32_t push) const
  {
    auto fate = reads_.fates.find (push);

    return fate != reads_.fates.end () && fate->second.is_absent
           && fate->second.absent.epoch > epoch;
  }

  const History &history_;
  const RowIndex &index_;
  const ReadCheck &reads_;
  std::vector<uint32_t> place_of_;
  std::vector<bool> is_kept_;
};

} // namespace

std::vector<Anomaly>
check_order (const History &history, const RowIndex &index, const ReadCheck &reads)
{
  return Pass (history, index, reads).run ();
}

} // namespace history
