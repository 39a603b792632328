/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A directed graph of up to 2^32 - 2 nodes. It is built once. It finds cycles and reachable
 * nodes. */

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace history {

class Graph
{
public:
  /* `list (add)` must call add (from, to) for each edge. It is called twice, and must produce the
   * same edges both times. */
  template <typename List>
  Graph (uint32_t n_nodes, List list) : begins_ (static_cast<size_t> (n_nodes) + 2)
  {
    list ([this] (uint32_t from, uint32_t) { begins_[from + 2]++; });
    for (size_t i = 1; i < begins_.size (); i++)
      begins_[i] += begins_[i - 1];
    ends_.resize (begins_.back ());
    list ([this] (uint32_t from, uint32_t to) { ends_[begins_[from + 1]++] = to; });
  }

  uint32_t
  n_nodes () const
  {
    return static_cast<uint32_t> (begins_.size () - 2);
  }

  /* Returns the nodes of a cycle in the order of its edges, or none if there is no cycle. */
  std::vector<uint32_t> find_cycle () const;

  /* Returns for each node its predecessor on a path from one of `starts`. A start is its own
   * predecessor. An unreachable node has kUnreached. */
  std::vector<uint32_t> reach (const std::vector<uint32_t> &starts) const;

  static constexpr uint32_t kUnreached = UINT32_MAX;

private:
  const uint32_t *
  begin (uint32_t node) const
  {
    return ends_.data () + begins_[node];
  }
  const uint32_t *
  end (uint32_t node) const
  {
    return ends_.data () + begins_[node + 1];
  }
  std::vector<uint32_t> count_unsorted () const;
  std::vector<uint32_t> find_way_round (uint32_t node) const;

  std::vector<size_t> begins_;
  std::vector<uint32_t> ends_;
};

} // namespace history
