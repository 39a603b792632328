/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/server/averaging/naive_server.h"

#include "runtime/base/error.h"

namespace averaging_test {

namespace {

bool
same_bytes (const Contribution &a, const Contribution &b)
{
  return a.kind == b.kind && a.weight == b.weight
         && (a.kind == TPS_GRADIENT_NONE
             || (a.dtype == b.dtype && a.shape == b.shape && a.ids == b.ids
                 && a.values == b.values));
}

} // namespace

NaiveServer::NaiveServer (const Simulation::Options &chosen)
    : options (chosen), newest (chosen.n_trainers, -1)
{
}

void
NaiveServer::fail (int call, int code, const std::string &missing)
{
  outcomes[(size_t) call].n_answers = 1;
  outcomes[(size_t) call].code = code;
  missing_texts[(size_t) call] = missing;
}

void
NaiveServer::close (Round *round, int code)
{
  int n_missing = 0;

  for (unsigned trainer = 0; trainer < options.n_trainers; trainer++)
    if (round->by_trainer.count ((int32_t) trainer) == 0)
      round->missing += (n_missing++ == 0 ? "" : ", ") + std::to_string (trainer);
  round->missing = (n_missing == 1 ? "missing: trainer " : "missing: trainers ") + round->missing;
  round->code = code;
  for (int call : round->waiting)
    fail (call, code, round->missing);
  round->waiting.clear ();
}

/* Returns TRUE if an older batch still accepts repeats: not every trainer has pushed in a newer
 * batch, and the batch has an average or directly precedes the current batch. */
bool
NaiveServer::is_remembered (int64_t batch) const
{
  bool is_left_behind = true;
  bool has_averages = false;

  for (int64_t number : newest)
    is_left_behind = is_left_behind && number > batch;
  if (is_left_behind || batches.count (batch) == 0)
    return false;
  for (const auto &[param_loc, round] : batches.at (batch))
    has_averages = has_averages || round.is_complete;
  return has_averages || (begun.size () >= 2 && begun[begun.size () - 2] == batch);
}

bool
NaiveServer::agrees (const Round &round, const Contribution &contribution) const
{
  for (const auto &[trainer, other] : round.by_trainer)
    if (contribution.kind != TPS_GRADIENT_NONE && other.kind != TPS_GRADIENT_NONE
        && (other.kind != contribution.kind || other.dtype != contribution.dtype
            || other.shape != contribution.shape))
      return false;
  return true;
}

void
NaiveServer::take (Round *round, int call, int32_t trainer, const Contribution &contribution)
{
  std::vector<Contribution> all;
  double divisor = 0;

  round->by_trainer[trainer] = contribution;
  round->waiting.push_back (call);
  if (round->by_trainer.size () < options.n_trainers)
    return;
  for (const auto &[number, other] : round->by_trainer)
    {
      all.push_back (other);
      divisor += other.weight;
    }
  if (divisor == 0)
    {
      for (int waiting : round->waiting)
        fail (waiting, TPS_ERROR_INVALID_ARGUMENT);
      round->waiting.clear ();
      round->code = TPS_ERROR_INVALID_ARGUMENT;
      return;
    }
  round->is_complete = true;
  round->average = expected_average (all, options.is_sum);
  for (int waiting : round->waiting)
    {
      outcomes[(size_t) waiting].n_answers = 1;
      outcomes[(size_t) waiting].average = round->average;
    }
  round->waiting.clear ();
}

void
NaiveServer::push (int32_t trainer, int64_t batch, int32_t param_loc,
                   const Contribution &contribution, bool may_wait)
{
  int call = (int) outcomes.size ();
  bool is_older = batch < current ();
  Round *round = nullptr;

  outcomes.emplace_back ();
  missing_texts.emplace_back ();
  if (trainer < 0 || trainer >= (int32_t) options.n_trainers || batch < 0 || param_loc < 0)
    return fail (call, TPS_ERROR_INVALID_ARGUMENT);
  if (batches.count (batch) > 0 && batches[batch].count (param_loc) > 0)
    round = &batches[batch][param_loc];
  if (is_older && (round == nullptr || !is_remembered (batch)))
    return fail (call, TPS_ERROR_STALE);
  if (round != nullptr && round->code != 0)
    return fail (call, round->code, round->missing);
  if (round != nullptr && round->by_trainer.count (trainer) > 0)
    {
      if (!same_bytes (round->by_trainer[trainer], contribution))
        return fail (call, TPS_ERROR_INVALID_ARGUMENT);
      if (!round->is_complete && !may_wait)
        return fail (call, TPS_ERROR_UNAVAILABLE);
      if (!round->is_complete)
        return round->waiting.push_back (call);
      outcomes[(size_t) call].n_answers = 1;
      outcomes[(size_t) call].average = round->average;
      return;
    }
  if (round != nullptr && !agrees (*round, contribution))
    return fail (call, TPS_ERROR_INVALID_ARGUMENT);
  if (!may_wait && (round == nullptr ? 0 : round->by_trainer.size ()) + 1 < options.n_trainers)
    return fail (call, TPS_ERROR_UNAVAILABLE);
  if (batch > current ())
    {
      if (!begun.empty ())
        for (auto &[number, other] : batches[current ()])
          if (!other.is_complete && other.code == 0)
            close (&other, TPS_ERROR_ABORTED);
      begun.push_back (batch);
    }
  if (round == nullptr)
    {
      round = &batches[batch][param_loc];
      round->begin = now;
    }
  newest[(size_t) trainer] = std::max (newest[(size_t) trainer], batch);
  take (round, call, trainer, contribution);
}

void
NaiveServer::advance_time (int64_t ns)
{
  now += ns;
  for (auto &[number, batch] : batches)
    for (auto &[param_loc, round] : batch)
      if (!round.is_complete && round.code == 0 && round.begin + options.timeout_ns <= now)
        close (&round, TPS_ERROR_DEADLINE_EXCEEDED);
}

void
NaiveServer::end_all (int code)
{
  for (auto &[number, batch] : batches)
    for (auto &[param_loc, round] : batch)
      for (int call : round.waiting)
        fail (call, code);
  batches.clear ();
  begun.clear ();
  newest.assign (options.n_trainers, -1);
}

} // namespace averaging_test
