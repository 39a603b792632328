/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A second implementation of the rules of averaging, for a comparison with the state machine. It is
 * as simple as possible: it keeps everything, recomputes everything, and its arithmetic takes no
 * time. */

#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/runtime/server/averaging/simulation.h"

namespace averaging_test {

class NaiveServer
{
public:
  explicit NaiveServer (const Simulation::Options &options);

  /* Calls have the same numbers as in the simulation. */
  void push (int32_t trainer, int64_t batch, int32_t param_loc, const Contribution &contribution,
             bool may_wait);
  void advance_time (int64_t ns);
  void end_all (int code);

  const Outcome &
  outcome (int call) const
  {
    return outcomes[(size_t) call];
  }

  /* Returns the trainers that were missing at the end of the call, in the format of the error
   * message, or "" if they are not relevant. */
  const std::string &
  missing (int call) const
  {
    return missing_texts[(size_t) call];
  }

  int64_t
  current () const
  {
    return begun.empty () ? -1 : begun.back ();
  }

private:
  struct Round
  {
    std::map<int32_t, Contribution> by_trainer;
    std::vector<int> waiting;
    int64_t begin = 0;
    int code = 0; /* the reason why the round is closed */
    std::string missing;
    bool is_complete = false;
    Average average;
  };

  using Batch = std::map<int32_t, Round>;

  bool is_remembered (int64_t batch) const;
  bool agrees (const Round &round, const Contribution &contribution) const;
  void fail (int call, int code, const std::string &missing = "");
  void close (Round *round, int code);
  void take (Round *round, int call, int32_t trainer, const Contribution &contribution);

  Simulation::Options options;
  int64_t now = 0;
  std::map<int64_t, Batch> batches;
  std::vector<int64_t> begun; /* the current batches so far, in order */
  std::vector<int64_t> newest;
  std::vector<Outcome> outcomes;
  std::vector<std::string> missing_texts;
};

} // namespace averaging_test
