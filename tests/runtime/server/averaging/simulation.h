/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The averaging state machine in simulated time. Calls are numbered, and jobs wait until the test
 * runs them. */

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/server/averaging/averaging.h"
#include "runtime/server/averaging/server_kind.h"
#include "tests/runtime/server/averaging/gradients.h"

namespace averaging_test {

constexpr int64_t SECOND = 1000000000;

struct Outcome
{
  int n_answers = 0;
  int code = 0; /* once answered: 0 = an average */
  std::string message;
  std::optional<Average> average;
};

class Simulation
{
public:
  struct Options
  {
    unsigned n_trainers = 2;
    std::string kind = "AverageParameterServer";
    bool is_sum = false;
    int64_t timeout_ns = 30 * SECOND;
    unsigned max_rounds = 0;
    bool runs_jobs_at_once = true;
    TpsBufferPool *buffers = nullptr;
    TpsBudget *budget = nullptr;
  };

  explicit Simulation (const Options &options);
  ~Simulation ();

  /* Returns the number of the call, which may already be answered. */
  int push (int32_t trainer, int64_t batch, int32_t param_loc, const Contribution &contribution,
            bool may_wait = true, bool has_digest = false);
  void advance_time (int64_t ns);
  void end_all (int code);

  /* Runs one pending job, which `pick` selects. */
  void run_job (size_t pick);
  void run_jobs ();

  size_t
  n_jobs () const
  {
    return jobs.size ();
  }

  const Outcome &
  outcome (int call) const
  {
    return outcomes[(size_t) call];
  }

  size_t
  n_calls () const
  {
    return outcomes.size ();
  }

  bool
  is_waiting (int call) const
  {
    return outcome (call).n_answers == 0;
  }

  int64_t now = 0;
  int n_completed = 0;

private:
  struct Call
  {
    TpsAveragingTicket ticket;
    size_t number;
  };

  void carry_out (TpsAveragingOutput *output);
  void answer (TpsAveragingTicket *ticket);

  Options options;
  TpsAveraging *machine;
  std::vector<TpsAveragingJob *> jobs;
  std::vector<Outcome> outcomes;
};

} // namespace averaging_test
