/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/server/averaging/simulation.h"

#include "runtime/base/error.h"

namespace averaging_test {

Simulation::Simulation (const Options &chosen) : options (chosen)
{
  TpsAveragingOptions machine_options = {};

  machine_options.n_trainers = options.n_trainers;
  machine_options.is_sum = options.is_sum;
  machine_options.round_timeout_ns = options.timeout_ns;
  machine_options.may_fold = tps_server_kind_find (options.kind.c_str (), NULL)->may_fold;
  machine_options.max_rounds = options.max_rounds;
  machine_options.buffers = options.buffers;
  machine_options.budget = options.budget;
  machine = tps_averaging_new (&machine_options);
}

Simulation::~Simulation ()
{
  end_all (TPS_ERROR_UNAVAILABLE);
  run_jobs ();
  tps_averaging_free (machine);
}

void
Simulation::answer (TpsAveragingTicket *ticket)
{
  Call *call = (Call *) ticket;
  Outcome &result = outcomes[call->number];

  result.n_answers++;
  if (ticket->error != NULL)
    {
      result.code = ticket->error->code;
      result.message = ticket->error->message;
    }
  else
    result.average = to_average (ticket->average);
  tps_averaging_ticket_clear (ticket);
  delete call;
}

void
Simulation::carry_out (TpsAveragingOutput *output)
{
  n_completed += output->has_completed;
  for (TpsAveragingTicket *ticket = output->answered, *next; ticket != NULL; ticket = next)
    {
      next = ticket->next;
      answer (ticket);
    }
  for (TpsAveragingJob *job = output->jobs; job != NULL; job = job->next)
    jobs.push_back (job);
  tps_averaging_output_clear (output);
}

int
Simulation::push (int32_t trainer, int64_t batch, int32_t param_loc,
                  const Contribution &contribution, bool may_wait, bool has_digest)
{
  Call *call = new Call;
  TpsGradient gradient = to_gradient (contribution);
  TpsAveragingOutput output = {};

  call->number = outcomes.size ();
  outcomes.emplace_back ();
  tps_averaging_ticket_init (&call->ticket, trainer, batch, param_loc, &gradient, may_wait);
  if (has_digest)
    tps_averaging_ticket_compute_digest (&call->ticket);
  tps_averaging_push (machine, &call->ticket, now, &output);
  carry_out (&output);
  if (options.runs_jobs_at_once)
    run_jobs ();
  return (int) outcomes.size () - 1;
}

void
Simulation::run_job (size_t pick)
{
  size_t index = pick % jobs.size ();
  TpsAveragingJob *job = jobs[index];
  TpsAveragingOutput output = {};

  jobs.erase (jobs.begin () + (ptrdiff_t) index);
  tps_averaging_job_run (job);
  tps_averaging_job_done (machine, job, &output);
  carry_out (&output);
}

void
Simulation::run_jobs ()
{
  while (!jobs.empty ())
    run_job (0);
}

void
Simulation::advance_time (int64_t ns)
{
  TpsAveragingOutput output = {};

  now += ns;
  tps_averaging_expire (machine, now, &output);
  carry_out (&output);
}

void
Simulation::end_all (int code)
{
  g_autoptr (GError) error = g_error_new (TPS_ERROR, code, "the end of everything");
  TpsAveragingOutput output = {};
  tps_averaging_end_all (machine, error, &output);
  carry_out (&output);
}

} // namespace averaging_test
