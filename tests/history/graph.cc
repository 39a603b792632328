/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/history/graph.h"

#include <algorithm>

namespace history {

/* Removes nodes without predecessors until none are left. Returns the number of remaining
 * predecessors of each node, which is zero for removed nodes. */
std::vector<uint32_t>
Graph::count_unsorted () const
{
  std::vector<uint32_t> n_before (n_nodes ());
  std::vector<uint32_t> free;

  for (uint32_t to : ends_)
    n_before[to]++;
  for (uint32_t node = 0; node < n_nodes (); node++)
    if (n_before[node] == 0)
      free.push_back (node);
  while (!free.empty ())
    {
      uint32_t node = free.back ();

      free.pop_back ();
      for (const uint32_t *to = begin (node); to != end (node); to++)
        if (--n_before[*to] == 0)
          free.push_back (*to);
    }
  return n_before;
}

/* Each remaining node has a remaining predecessor, so a walk against the edges reaches a cycle.
 * Short cycles make readable reports, so the function returns the shortest cycle through the node
 * that it reaches. */
std::vector<uint32_t>
Graph::find_cycle () const
{
  std::vector<uint32_t> n_before = count_unsorted ();
  auto left = std::find_if (n_before.begin (), n_before.end (), [] (uint32_t n) { return n > 0; });

  if (left == n_before.end ())
    return {};
  std::vector<uint32_t> before (n_nodes (), kUnreached);
  for (uint32_t node = 0; node < n_nodes (); node++)
    if (n_before[node] > 0)
      for (const uint32_t *to = begin (node); to != end (node); to++)
        before[*to] = node;
  uint32_t node = static_cast<uint32_t> (left - n_before.begin ());
  for (uint32_t i = 0; i < n_nodes (); i++)
    node = before[node];
  return find_way_round (node);
}

/* Returns the shortest cycle through `node`, which must be on a cycle. */
std::vector<uint32_t>
Graph::find_way_round (uint32_t node) const
{
  std::vector<uint32_t> from (n_nodes (), kUnreached);
  std::vector<uint32_t> queue = { node };
  std::vector<uint32_t> way;

  for (size_t at = 0; from[node] == kUnreached; at++)
    for (const uint32_t *to = begin (queue[at]); to != end (queue[at]); to++)
      if (from[*to] == kUnreached)
        {
          from[*to] = queue[at];
          queue.push_back (*to);
        }
  for (uint32_t at = from[node]; at != node; at = from[at])
    way.push_back (at);
  way.push_back (node);
  std::reverse (way.begin (), way.end ());
  return way;
}

std::vector<uint32_t>
Graph::reach (const std::vector<uint32_t> &starts) const
{
  std::vector<uint32_t> from (n_nodes (), kUnreached);
  std::vector<uint32_t> queue = starts;

  for (uint32_t start : starts)
    from[start] = start;
  for (size_t at = 0; at < queue.size (); at++)
    for (const uint32_t *to = begin (queue[at]); to != end (queue[at]); to++)
      if (from[*to] == kUnreached)
        {
          from[*to] = queue[at];
          queue.push_back (*to);
        }
  return from;
}

} // namespace history
