/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The pushes of each client to each row, in the order of their numbers. A value m of a column
 * stands for the first m of these pushes. */

#pragma once

#include "tests/history/history.h"

namespace history {

class RowIndex
{
public:
  explicit RowIndex (const History &history) : n_clients_ (history.n_clients)
  {
    begins_.assign (static_cast<size_t> (history.n_rows) * n_clients_ + 2, 0);
    for (const Push &push : history.pushes)
      for (uint32_t i = 0; i < push.n_rows; i++)
        begins_[cell (history.rows_of (push)[i], push.client) + 2]++;
    for (size_t i = 1; i < begins_.size (); i++)
      begins_[i] += begins_[i - 1];
    pushes_.resize (begins_.back ());
    for (uint32_t at = 0; at < history.pushes.size (); at++)
      {
        const Push &push = history.pushes[at];

        for (uint32_t i = 0; i < push.n_rows; i++)
          pushes_[begins_[cell (history.rows_of (push)[i], push.client) + 1]++] = at;
      }
  }

  /* Returns the cell of a row and a client. */
  size_t
  cell (uint32_t row, uint32_t client) const
  {
    return static_cast<size_t> (row) * n_clients_ + client;
  }
  size_t
  n_cells () const
  {
    return begins_.size () - 2;
  }

  /* Returns the number of pushes of a cell. */
  uint32_t
  size (size_t cell) const
  {
    return begins_[cell + 1] - begins_[cell];
  }

  /* Returns the i-th push of a cell, from 0, as an index of History::pushes. */
  uint32_t
  push (size_t cell, uint32_t i) const
  {
    return pushes_[begins_[cell] + i];
  }

private:
  uint32_t n_clients_;
  std::vector<uint32_t> begins_;
  std::vector<uint32_t> pushes_;
};

} // namespace history
