/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/server/model/simulation.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/server/model/update_digest.h"

namespace updating_test {

Simulation::Simulation (const Options &options) : options_ (options)
{
  TpsUpdatingOptions rules = {};

  rules.n_trainers = options.n_trainers;
  rules.min_trainers = options.min_trainers > 0 ? options.min_trainers : options.n_trainers;
  rules.round_timeout_ns = 30 * SECOND;
  rules.max_staleness = options.max_staleness;
  updating_ = tps_updating_new (&rules);
  set_model ();
}

Simulation::~Simulation ()
{
  end_all (TPS_ERROR_UNAVAILABLE);
  if (job_ != nullptr)
    finish_update ();
  tps_updating_free (updating_);
}

void
Simulation::set_model ()
{
  TpsNamedTensor parameter = {};

  parameter.name = g_strdup ("w");
  tps_tensor_init_1d (&parameter.tensor, TPS_DTYPE_FLOAT32, 2);
  tps_updating_set_model (updating_, &parameter, 1);
  tps_named_tensor_clear (&parameter);
}

static void
take_digest (TpsUpdateTicket *ticket)
{
  ticket->digest = tps_update_digest_compute (ticket->trainer, ticket->version, ticket->gradients,
                                              ticket->n_gradients);
  ticket->has_digest = TRUE;
}

int
Simulation::push (int trainer, float value, int64_t version, bool may_wait)
{
  TpsUpdateTicket *ticket;

  calls_.emplace_back ();
  ticket = &calls_.back ().ticket;
  ticket->trainer = trainer;
  ticket->version = version;
  ticket->may_wait = may_wait;
  ticket->n_gradients = 1;
  ticket->gradients = g_new0 (TpsTensor, 1);
  tps_tensor_init_1d (ticket->gradients, TPS_DTYPE_FLOAT32, 2);
  std::fill_n (static_cast<float *> (tps_tensor_data (ticket->gradients)), 2, value);
  if (!options_.hashes_late)
    take_digest (ticket);
  go_in (ticket);
  return static_cast<int> (calls_.size ()) - 1;
}

void
Simulation::go_in (TpsUpdateTicket *ticket)
{
  TpsUpdatingOutput output = {};

  tps_updating_push (updating_, ticket, now_ns_, &output);
  if (output.undecided != nullptr)
    compare (&output);
  else
    after (&output);
}

/* Compares digests like the server, but without delay. */
void
Simulation::compare (TpsUpdatingOutput *output)
{
  TpsUpdateTicket *ticket = output->undecided;
  TpsUpdateContribution *original = output->original;
  TpsPushDigest digest = tps_update_contribution_compute_digest (original, ticket->trainer);

  EXPECT_EQ (output->answered, nullptr);
  EXPECT_EQ (output->job, nullptr);
  tps_updating_output_clear (output);
  tps_update_contribution_set_digest (original, &digest);
  tps_update_contribution_unref (original);
  take_digest (ticket);
  go_in (ticket);
}

void
Simulation::after (TpsUpdatingOutput *output)
{
  for (TpsUpdateTicket *ticket = output->answered, *next; ticket != nullptr; ticket = next)
    {
      /* `ticket` is the first member of Call. */
      Outcome *outcome = &reinterpret_cast<Call *> (ticket)->outcome;

      next = ticket->next;
      outcome->n_answers++;
      outcome->version = version ();
      EXPECT_TRUE (ticket->error != nullptr || ticket->has_digest);
      if (ticket->error != nullptr)
        {
          outcome->code = ticket->error->code;
          outcome->message = ticket->error->message;
        }
      tps_update_ticket_clear (ticket);
    }
  if (output->job != nullptr)
    {
      job_ = output->job;
      updates.emplace_back ();
      for (guint i = 0; i < job_->n_took_part; i++)
        updates.back ().emplace_back (
            job_->trainers[i],
            static_cast<const float *> (tps_tensor_data (&job_->gradients[i][0]))[0]);
    }
  tps_updating_output_clear (output);
  if (job_ != nullptr && options_.updates_at_once)
    finish_update ();
}

void
Simulation::finish_update (int code)
{
  TpsUpdatingOutput output = {};
  TpsUpdatingJob *job = job_;

  job_ = nullptr;
  for (guint i = 0; code == 0 && i < job->n_took_part; i++)
    if (!job->marks[i].has_digest)
      job->marks[i].digest = tps_update_digest_compute (job->trainers[i], job->marks[i].version,
                                                        job->gradients[i], 1);
  tps_updating_job_done (updating_, job,
                         code == 0 ? nullptr : g_error_new (TPS_ERROR, code, "it failed"), now_ns_,
                         &output);
  after (&output);
  advance_time (0);
}

void
Simulation::lose (int trainer)
{
  TpsUpdatingOutput output = {};

  tps_updating_lose (updating_, trainer, now_ns_, &output);
  after (&output);
}

void
Simulation::advance_time (int64_t ns)
{
  TpsUpdatingOutput output = {};

  now_ns_ += ns;
  tps_updating_expire (updating_, now_ns_, &output);
  after (&output);
}

void
Simulation::end_all (int code)
{
  g_autoptr (GError) error = g_error_new (TPS_ERROR, code, "it is over");
  TpsUpdatingOutput output = {};

  tps_updating_end_all (updating_, error, &output);
  after (&output);
}

} // namespace updating_test
