/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The updating state machine in simulated time. Calls are numbered, and an update stays pending
 * until the test completes it. */

#pragma once

#include <deque>
#include <string>
#include <vector>

#include "runtime/server/model/updating.h"

namespace updating_test {

constexpr int64_t SECOND = 1000000000;

struct Outcome
{
  int n_answers = 0;
  int code = 0; /* once answered: 0 = the model */
  int64_t version = 0;
  std::string message;
};

class Simulation
{
public:
  struct Options
  {
    unsigned n_trainers = 3;
    unsigned min_trainers = 0; /* 0 = all */
    unsigned max_staleness = 0;
    bool updates_at_once = true;
    bool hashes_late = false; /* tickets arrive without digests, as large ones do */
  };

  explicit Simulation (const Options &options);
  ~Simulation ();

  /* Pushes a gradient whose elements are `value`. Returns the number of the call. */
  int push (int trainer, float value, int64_t version = 0, bool may_wait = true);
  void lose (int trainer);
  void advance_time (int64_t ns);
  void end_all (int code);
  void set_model ();

  /* Completes the pending update, or fails it with `code`. */
  void finish_update (int code = 0);

  bool
  has_update () const
  {
    return job_ != nullptr;
  }
  int64_t
  version () const
  {
    TpsUpdatingStatus status;

    tps_updating_get_status (updating_, now_ns_, &status);
    return status.version;
  }
  const Outcome &
  outcome (int call) const
  {
    return calls_.at (static_cast<size_t> (call)).outcome;
  }

  /* For each started update: its trainers and their values. */
  std::vector<std::vector<std::pair<int, float>>> updates;

private:
  struct Call
  {
    TpsUpdateTicket ticket = {};
    Outcome outcome;
  };

  void go_in (TpsUpdateTicket *ticket);
  void compare (TpsUpdatingOutput *output);
  void after (TpsUpdatingOutput *output);

  Options options_;
  TpsUpdating *updating_;
  TpsUpdatingJob *job_ = nullptr;
  std::deque<Call> calls_;
  int64_t now_ns_ = 0;
};

} // namespace updating_test
