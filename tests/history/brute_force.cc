/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/history/brute_force.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace history {
namespace {

using Bytes = std::vector<uint8_t>;

/* The state of a server at one moment, as far as clients can observe it. */
struct Server
{
  Bytes order;           /* pushes, by index */
  uint8_t n_durable = 0; /* length of the durable prefix of `order` */
  /* by row: the length of the prefix of `order` that has been applied to the row */
  Bytes n_applied;
  std::set<uint8_t> waiting;        /* pushes that have arrived but are not in `order` */
  std::map<uint8_t, Bytes> samples; /* by open read: true for each sampled row */

  bool
  operator<(const Server &other) const
  {
    return std::tie (order, n_durable, n_applied, waiting, samples)
           < std::tie (other.order, other.n_durable, other.n_applied, other.waiting, other.samples);
  }
};

class Search
{
public:
  explicit Search (const History &history) : history_ (history)
  {
  }

  bool
  run ()
  {
    Server first;

    if (!history_.bad_values.empty ())
      return false;
    first.n_applied.resize (history_.n_rows);
    servers_ = { first };
    for (const Event &event : history_.events)
      {
        let_work ();
        take (event);
        if (servers_.empty ())
          return false;
      }
    return true;
  }

private:
  bool
  touches (uint8_t push, uint32_t row) const
  {
    const uint32_t *rows = history_.rows_of (history_.pushes[push]);

    return std::find (rows, rows + history_.pushes[push].n_rows, row)
           != rows + history_.pushes[push].n_rows;
  }

  /* Skips pushes to other rows. They do not change the row, so no read can show when they are
   * applied. */
  void
  skip_others (Server *server) const
  {
    for (uint32_t row = 0; row < history_.n_rows; row++)
      while (server->n_applied[row] < server->order.size ()
             && !touches (server->order[server->n_applied[row]], row))
        server->n_applied[row]++;
  }

  /* ---- steps of the server ---- */

  void
  let_work ()
  {
    std::vector<Server> fresh (servers_.begin (), servers_.end ());

    while (!fresh.empty ())
      {
        Server server = std::move (fresh.back ());

        fresh.pop_back ();
        for (Server &next : steps_of (server))
          if (servers_.insert (next).second)
            fresh.push_back (next);
      }
  }

  std::vector<Server>
  steps_of (const Server &server) const
  {
    std::vector<Server> steps;

    for (uint8_t push : server.waiting)
      {
        steps.push_back (server);
        steps.back ().waiting.erase (push);
        steps.back ().order.push_back (push);
        skip_others (&steps.back ());
      }
    for (uint32_t row = 0; row < history_.n_rows; row++)
      if (server.n_applied[row] < server.order.size ())
        {
          steps.push_back (server);
          steps.back ().n_applied[row]++;
          skip_others (&steps.back ());
        }
    for (auto &[read, is_sampled] : server.samples)
      for (uint32_t i = 0; i < is_sampled.size (); i++)
        if (!is_sampled[i] && fits (server, history_.reads[read], i))
          {
            steps.push_back (server);
            steps.back ().samples[read][i] = 1;
          }
    return steps;
  }

  bool
  fits (const Server &server, const Read &read, uint32_t i) const
  {
    uint32_t row = history_.rows_of (read)[i];
    std::vector<uint32_t> counts (history_.n_clients);

    if (read.first_value == SIZE_MAX)
      return false; /* no reply shows the values */
    for (uint32_t at = 0; at < server.n_applied[row]; at++)
      counts[history_.pushes[server.order[at]].client] += touches (server.order[at], row);
    return std::equal (counts.begin (), counts.end (), history_.values_of (read, i));
  }

  /* ---- steps of clients and crashes ---- */

  void
  take (const Event &event)
  {
    std::set<Server> next;

    for (const Server &server : servers_)
      take_by (server, event, &next);
    servers_ = std::move (next);
  }

  void
  take_by (Server server, const Event &event, std::set<Server> *next) const
  {
    auto what = static_cast<uint8_t> (event.what);

    switch (event.kind)
      {
      case EventKind::push:
        if (std::find (server.order.begin (), server.order.end (), what) == server.order.end ())
          server.waiting.insert (what);
        break;
      case EventKind::ack:
        if (!acknowledge (&server, what))
          return;
        break;
      case EventKind::read:
        server.samples[what].resize (history_.reads[what].n_rows);
        break;
      case EventKind::values:
        if (std::count (server.samples[what].begin (), server.samples[what].end (), 0) > 0)
          return;
        server.samples.erase (what);
        break;
      case EventKind::lost:
        server.samples.erase (what);
        break;
      case EventKind::crash:
        crash (server, next);
        return;
      case EventKind::unknown:
      case EventKind::repeat:
      case EventKind::restart:
        break;
      }
    next->insert (server);
  }

  static bool
  acknowledge (Server *server, uint8_t push)
  {
    auto found = std::find (server->order.begin (), server->order.end (), push);
    auto n_needed = static_cast<uint8_t> (found - server->order.begin () + 1);

    if (found == server->order.end ())
      return false;
    server->n_durable = std::max (server->n_durable, n_needed);
    return std::all_of (server->n_applied.begin (), server->n_applied.end (),
                        [n_needed] (uint8_t n) { return n >= n_needed; });
  }

  static void
  crash (const Server &server, std::set<Server> *next)
  {
    for (size_t cut = server.n_durable; cut <= server.order.size (); cut++)
      {
        Server after = server;

        after.order.resize (cut);
        after.n_durable = static_cast<uint8_t> (cut);
        after.n_applied.assign (server.n_applied.size (), static_cast<uint8_t> (cut));
        after.waiting.clear ();
        next->insert (after);
      }
  }

  const History &history_;
  std::set<Server> servers_; /* all servers that are possible at this event */
};

} // namespace

bool
is_valid_by_search (const History &history)
{
  return Search (history).run ();
}

} // namespace history
