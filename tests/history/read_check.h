/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The first half of the check. It checks each read by itself, in the order of the events. It also
 * splits the history into epochs, the times between two crashes, and prepares them for the second
 * half. */

#pragma once

#include <unordered_map>

#include "tests/history/check.h"
#include "tests/history/row_index.h"

namespace history {

/* A row as one read showed it. Times are counts of the epoch's events, because only their order
 * matters. */
struct Sight
{
  uint32_t row;
  uint32_t n_acked; /* acknowledgements before the read began */
  uint32_t n_sent;  /* pushes that were first sent before the read ended */
  uint32_t line;    /* of its values */
  uint64_t sum;     /* of its values; sights of one row are sorted by it */
  size_t value;     /* in History::values */
};

/* The attempts of a push in one epoch. */
struct Attempt
{
  uint32_t push;
  uint32_t n_acked;   /* acknowledgements before it was first sent in this epoch */
  uint32_t ack_order; /* its place among the acknowledgements; kNone = none */
};

struct Epoch
{
  std::vector<Attempt>
      attempts; /* of pushes not acknowledged earlier, in the order of their first lines */
  std::vector<uint32_t> acks; /* places in `attempts`, in the order of the acknowledgements */
  std::vector<Sight> sights;
  uint32_t end_line = 0; /* of the crash, or of the last event */
};

/* The evidence of reads about a push whose result was unknown at a crash. A read of an epoch says
 * "present" if it shows the push before the push was sent again in this epoch. It says "absent" if
 * it does not show the push. */
struct Fate
{
  struct Saying
  {
    uint32_t epoch;
    uint32_t line;
    uint32_t row;
  };
  bool is_present = false, is_absent = false;
  Saying present; /* the first such read */
  Saying absent;  /* the last such read */
};

struct ReadCheck
{
  std::vector<Epoch> epochs;
  std::unordered_map<uint32_t, Fate> fates; /* by push */
  std::vector<Anomaly> anomalies;
};

/* Checks each read. Stops after kMaxAnomalies anomalies. */
ReadCheck check_reads (const History &history, const RowIndex &index);

} // namespace history
