/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/averaging/round.h"

#include <string.h>

#include "runtime/server/missing_trainers.h"
#include "runtime/base/error.h"

#define BIT(state) (1u << (state))
#define ROUND_OVERHEAD_BYTES 512

static const struct
{
  const gchar *name;
  guint next; /* a set of BIT(): the states that may follow */
} round_states[] = {
  [TPS_ROUND_OPEN] = { "open", BIT (TPS_ROUND_REDUCING) | BIT (TPS_ROUND_EXPIRED)
                                   | BIT (TPS_ROUND_ABORTED) },
  [TPS_ROUND_REDUCING] = { "reducing", BIT (TPS_ROUND_COMPLETE) | BIT (TPS_ROUND_ABORTED) },
  [TPS_ROUND_COMPLETE] = { "complete", 0 },
  [TPS_ROUND_EXPIRED] = { "expired", 0 },
  [TPS_ROUND_ABORTED] = { "aborted", 0 },
};

static void
set_state (TpsRound *round, TpsRoundState state)
{
  if (!(round_states[round->state].next & BIT (state)))
    g_error ("round (batch %" G_GINT64_FORMAT ", param_loc %d) cannot go from %s to %s",
             round->batch, round->param_loc, round_states[round->state].name,
             round_states[state].name);
  if (round->state == TPS_ROUND_OPEN)
    g_queue_unlink (round->open_rounds, &round->open_link);
  round->state = state;
}

/* Returns the memory of a round: contributions by trainer, digests, spans of metrics, and the entry
 * in the batch. */
static gsize
count_bytes (const TpsAveragingOptions *options)
{
  return sizeof (TpsRound) + ROUND_OVERHEAD_BYTES
         + options->n_trainers * (sizeof (TpsContribution *) + sizeof (TpsDigest));
}

TpsRound *
tps_round_new (const TpsAveragingOptions *options, gint64 batch, gint32 param_loc,
               gint64 deadline_ns, GQueue *open_rounds, GError **error)
{
  TpsCharge charge = { options->budget, 0 };
  TpsRound *round;

  if (!tps_charge_set (&charge, count_bytes (options), error))
    return NULL;
  round = g_new0 (TpsRound, 1);
  round->charge = charge;
  round->options = options;
  round->batch = batch;
  round->param_loc = param_loc;
  round->state = TPS_ROUND_OPEN;
  round->deadline_ns = deadline_ns;
  round->by_trainer = g_new0 (TpsContribution *, options->n_trainers);
  round->open_rounds = open_rounds;
  round->open_link.data = round;
  g_queue_push_tail_link (open_rounds, &round->open_link);
  tps_reduction_init (&round->reduction, options->is_sum, options->buffers);
  round->reduction.shared_buffers = options->shared_buffers;
  round->reduction.on_device = options->on_device;
  return round;
}

void
tps_contribution_free (TpsContribution *contribution)
{
  tps_gradient_clear (&contribution->item.gradient);
  g_free (contribution);
}

void
tps_round_free (TpsRound *round)
{
  for (guint i = 0; round->by_trainer != NULL && i < round->options->n_trainers; i++)
    g_clear_pointer (&round->by_trainer[i], tps_contribution_free);
  g_free (round->by_trainer);
  g_free (round->digests);
  tps_reduction_clear (&round->reduction);
  tps_gradient_clear (&round->average);
  g_clear_error (&round->error);
  tps_charge_clear (&round->charge);
  g_free (round);
}

gboolean
tps_round_is_closed (const TpsRound *round)
{
  return round->state == TPS_ROUND_EXPIRED || round->state == TPS_ROUND_ABORTED;
}

gboolean
tps_round_has_contribution (const TpsRound *round, gint32 trainer)
{
  return round->state == TPS_ROUND_COMPLETE || round->by_trainer[trainer] != NULL;
}

static void
push_ticket (TpsTicketList *list, TpsAveragingTicket *ticket)
{
  ticket->next = NULL;
  if (list->last == NULL)
    list->first = ticket;
  else
    list->last->next = ticket;
  list->last = ticket;
}

static TpsAveragingTicket *
pop_ticket (TpsTicketList *list)
{
  TpsAveragingTicket *ticket = list->first;

  if (ticket == NULL)
    return NULL;
  list->first = ticket->next;
  if (list->first == NULL)
    list->last = NULL;
  ticket->next = NULL;
  return ticket;
}

static void
bury_contribution (TpsContribution *contribution, TpsAveragingOutput *output)
{
  contribution->next = output->dead_contributions;
  output->dead_contributions = contribution;
}

/* Adds a ticket to the answered tickets of the output. The answer must be in the ticket. */
static void
answer (TpsAveragingTicket *ticket, TpsAveragingOutput *output)
{
  TpsTicketList list = { output->answered, output->last_answered };

  if (ticket->contribution != NULL)
    bury_contribution (g_steal_pointer (&ticket->contribution), output);
  push_ticket (&list, ticket);
  output->answered = list.first;
  output->last_answered = list.last;
}

void
tps_ticket_fail (TpsAveragingTicket *ticket, GError *error, TpsAveragingOutput *output)
{
  ticket->error = error;
  answer (ticket, output);
}

static void
answer_with_average (const TpsRound *round, TpsAveragingTicket *ticket, TpsAveragingOutput *output)
{
  tps_gradient_init_ref (&ticket->average, &round->average);
  answer (ticket, output);
}

static gboolean
has_come (gconstpointer round, guint trainer)
{
  return ((const TpsRound *) round)->by_trainer[trainer] != NULL;
}

gchar *
tps_round_describe_missing (const TpsRound *round)
{
  guint n_trainers = round->options->n_trainers;

  return tps_missing_trainers_to_string (n_trainers, n_trainers - round->n_arrived, has_come,
                                         round);
}

void
tps_round_describe (const TpsRound *round, gint64 now_ns, guint *n_looks, TpsOpenRound *open)
{
  const TpsAveragingOptions *options = round->options;

  open->batch = round->batch;
  open->param_loc = round->param_loc;
  open->n_arrived = round->n_arrived;
  open->remaining_ns = round->deadline_ns - now_ns;
  open->age_ns = options->round_timeout_ns - open->remaining_ns;
  tps_open_round_list_missing (open, options->n_trainers, has_come, round, n_looks);
}

/* A contribution of weight 0 without data matches every other contribution. */
static gboolean
signatures_agree (const TpsGradient *a, const TpsGradient *b)
{
  if (a->kind == TPS_GRADIENT_NONE || b->kind == TPS_GRADIENT_NONE)
    return TRUE;
  if (a->kind != b->kind)
    return FALSE;
  if (a->kind == TPS_GRADIENT_DENSE)
    return tps_shape_equal (&a->dense.shape, &b->dense.shape);
  return a->rows == b->rows && a->values.shape.dtype == b->values.shape.dtype
         && a->values.shape.dims[1] == b->values.shape.dims[1];
}

gboolean
tps_round_check_signature (const TpsRound *round, const TpsAveragingTicket *ticket, GError **error)
{
  const TpsGradient *gradient = tps_averaging_ticket_get_gradient (ticket);
  g_autofree gchar *got = NULL;
  g_autofree gchar *expected = NULL;

  if (signatures_agree (&round->signature, gradient))
    return TRUE;
  got = tps_gradient_to_string (gradient);
  expected = tps_gradient_to_string (&round->signature);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "trainer %d sent %s to round (batch %" G_GINT64_FORMAT
               ", param_loc %d), where trainer %d sent %s",
               ticket->trainer, got, round->batch, round->param_loc, round->signature_trainer,
               expected);
  return FALSE;
}

static void
adopt_signature (TpsRound *round, const TpsAveragingTicket *ticket)
{
  const TpsGradient *gradient = tps_averaging_ticket_get_gradient (ticket);

  if (round->signature.kind != TPS_GRADIENT_NONE)
    return;
  round->signature_trainer = ticket->trainer;
  round->signature.kind = gradient->kind;
  round->signature.rows = gradient->rows;
  round->signature.dense.shape = gradient->dense.shape;
  round->signature.values.shape = gradient->values.shape;
}

static gsize
gradient_n_bytes (const TpsGradient *gradient)
{
  if (gradient->kind == TPS_GRADIENT_DENSE)
    return tps_shape_n_bytes (&gradient->dense.shape);
  if (gradient->kind == TPS_GRADIENT_SPARSE)
    return tps_shape_n_bytes (&gradient->indices.shape)
           + tps_shape_n_bytes (&gradient->values.shape);
  return 0;
}

/* Adds a job for `items`, whose ownership is taken, to the output. */
static TpsAveragingJob *
add_job (TpsRound *round, TpsContribution **items, guint n_items, TpsAveragingOutput *output)
{
  TpsAveragingJob *job = g_new0 (TpsAveragingJob, 1);

  job->round = round;
  job->items = items;
  job->n_items = n_items;
  for (guint i = 0; i < n_items; i++)
    {
      job->n_bytes += gradient_n_bytes (&items[i]->item.gradient);
      items[i]->stage = TPS_CONTRIBUTION_BUSY;
    }
  round->n_jobs++;
  if (output->jobs == NULL)
    output->jobs = job;
  else
    output->last_job->next = job;
  output->last_job = job;
  return job;
}

static void
add_digest_job (TpsRound *round, TpsContribution *contribution, TpsAveragingOutput *output)
{
  TpsContribution **items = g_new (TpsContribution *, 1);

  items[0] = contribution;
  add_job (round, items, 1, output);
}

/* Returns TRUE if the contribution should wait, to be folded together with the next contribution,
 * which has not arrived. */
static gboolean
waits_for_next (const TpsRound *round, const TpsContribution *contribution)
{
  return round->n_arrived < round->options->n_trainers
         && round->by_trainer[round->next_trainer] == contribution
         && tps_reduction_gains_by_waiting (&round->reduction, &contribution->item);
}

/* Adds a job that folds the next contributions in ascending order of their trainers, if a fold is
 * allowed and possible now. */
static void
advance (TpsRound *round, TpsAveragingOutput *output)
{
  guint n_trainers = round->options->n_trainers;
  guint begin = round->next_trainer;
  guint end = begin;
  TpsAveragingJob *job;

  if (round->is_folding || !round->options->may_fold (round->n_arrived, n_trainers))
    return;
  while (end < n_trainers && round->by_trainer[end] != NULL
         && round->by_trainer[end]->stage == TPS_CONTRIBUTION_IDLE)
    end++;
  if (end == begin || (end == begin + 1 && waits_for_next (round, round->by_trainer[begin])))
    return;
  job = add_job (round,
                 g_memdup2 (&round->by_trainer[begin], (end - begin) * sizeof round->by_trainer[0]),
                 end - begin, output);
  job->is_fold = TRUE;
  job->is_last = end == n_trainers;
  /* The division reads the whole sum. Every fold of sparse gradients may copy the sum. */
  if (job->is_last || round->reduction.sum.kind == TPS_GRADIENT_SPARSE)
    job->n_bytes += gradient_n_bytes (&round->reduction.sum);
  round->is_folding = TRUE;
  round->next_trainer = end;
}

/* Returns TRUE if a fold will soon take the contribution of `trainer`. The fold computes the
 * digest, too, so a job for the digest alone would be a waste. */
static gboolean
is_next_to_fold (const TpsRound *round, guint trainer)
{
  return round->n_arrived == round->options->n_trainers
         || (round->is_folding && trainer == round->next_trainer)
         || (!round->is_folding && waits_for_next (round, round->by_trainer[trainer]));
}

void
tps_round_accept (TpsRound *round, TpsAveragingTicket *ticket, TpsAveragingOutput *output)
{
  TpsContribution *contribution;

  adopt_signature (round, ticket);
  contribution = g_steal_pointer (&ticket->contribution);
  round->by_trainer[ticket->trainer] = contribution;
  push_ticket (&round->waiters, ticket);
  if (++round->n_arrived == round->options->n_trainers)
    {
      set_state (round, TPS_ROUND_REDUCING);
      output->has_all = TRUE;
    }
  advance (round, output);
  if (contribution->stage == TPS_CONTRIBUTION_IDLE && !contribution->item.has_digest
      && !is_next_to_fold (round, (guint) ticket->trainer))
    add_digest_job (round, contribution, output);
}

/* Returns the digest of a trainer's first push; NULL if it is not known yet. */
static const TpsDigest *
find_digest (const TpsRound *round, gint32 trainer)
{
  const TpsContribution *first;

  if (round->state == TPS_ROUND_COMPLETE)
    return &round->digests[trainer];
  first = round->by_trainer[trainer];
  return first->stage != TPS_CONTRIBUTION_BUSY && first->item.has_digest ? &first->item.digest
                                                                         : NULL;
}

static GError *
new_other_bytes_error (const TpsRound *round, gint32 trainer)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                      "trainer %d has already sent other bytes to round (batch %" G_GINT64_FORMAT
                      ", param_loc %d); a repeat must be the same",
                      trainer, round->batch, round->param_loc);
}

static GError *
new_cannot_wait_error (const TpsRound *round)
{
  return g_error_new (
      TPS_ERROR, TPS_ERROR_UNAVAILABLE,
      "round (batch %" G_GINT64_FORMAT
      ", param_loc %d) waits for other trainers, and a call cannot wait on this server: "
      "it serves one connection at a time",
      round->batch, round->param_loc);
}

/* Answers a repeat, or adds it to the waiting tickets. Returns FALSE if a job still uses the
 * repeat, or if the digest of the first push is not known yet. */
static gboolean
settle_repeat (TpsRound *round, TpsAveragingTicket *ticket, TpsAveragingOutput *output)
{
  const TpsFoldItem *item = &ticket->contribution->item;
  const TpsDigest *first;

  if (ticket->contribution->stage == TPS_CONTRIBUTION_BUSY)
    return FALSE;
  if (tps_round_is_closed (round))
    {
      tps_ticket_fail (ticket, g_error_copy (round->error), output);
      return TRUE;
    }
  first = find_digest (round, ticket->trainer);
  if (first == NULL)
    return FALSE;
  if (!tps_digest_equal (first, &item->digest))
    tps_ticket_fail (ticket, new_other_bytes_error (round, ticket->trainer), output);
  else if (round->state == TPS_ROUND_COMPLETE)
    answer_with_average (round, ticket, output);
  else if (!ticket->may_wait && round->state == TPS_ROUND_OPEN)
    tps_ticket_fail (ticket, new_cannot_wait_error (round), output);
  else
    {
      bury_contribution (g_steal_pointer (&ticket->contribution), output);
      push_ticket (&round->waiters, ticket);
    }
  return TRUE;
}

static void
settle_repeats (TpsRound *round, TpsAveragingOutput *output)
{
  TpsTicketList pending = round->repeats;
  TpsAveragingTicket *ticket;

  round->repeats = (TpsTicketList) { NULL, NULL };
  while ((ticket = pop_ticket (&pending)) != NULL)
    if (!settle_repeat (round, ticket, output))
      push_ticket (&round->repeats, ticket);
}

void
tps_round_repeat (TpsRound *round, TpsAveragingTicket *ticket, TpsAveragingOutput *output)
{
  TpsContribution *first = round->by_trainer != NULL ? round->by_trainer[ticket->trainer] : NULL;

  if (first != NULL && first->stage == TPS_CONTRIBUTION_IDLE && !first->item.has_digest)
    add_digest_job (round, first, output);
  if (!ticket->contribution->item.has_digest)
    add_digest_job (round, ticket->contribution, output);
  if (!settle_repeat (round, ticket, output))
    push_ticket (&round->repeats, ticket);
}

/* Moves the sum of an ended round to the dead contributions, so that it is freed without a lock. A
 * fold in progress keeps the sum. */
static void
release_sum (TpsRound *round, TpsAveragingOutput *output)
{
  TpsContribution *sum;

  if (round->is_folding || round->reduction.sum.kind == TPS_GRADIENT_NONE)
    return;
  sum = g_new0 (TpsContribution, 1);
  tps_gradient_move (&sum->item.gradient, &round->reduction.sum);
  bury_contribution (sum, output);
}

/* Releases the sum, and all contributions that no job uses. */
static void
release_contributions (TpsRound *round, TpsAveragingOutput *output)
{
  release_sum (round, output);
  for (guint i = 0; i < round->options->n_trainers; i++)
    if (round->by_trainer[i] != NULL && round->by_trainer[i]->stage != TPS_CONTRIBUTION_BUSY)
      bury_contribution (g_steal_pointer (&round->by_trainer[i]), output);
}

void
tps_round_close (TpsRound *round, TpsRoundState state, GError *error, TpsAveragingOutput *output)
{
  TpsAveragingTicket *ticket;

  set_state (round, state);
  round->error = error;
  while ((ticket = pop_ticket (&round->waiters)) != NULL)
    tps_ticket_fail (ticket, g_error_copy (error), output);
  settle_repeats (round, output);
  release_contributions (round, output);
}

/* Completes the round with the average of its last job. All contributions have been folded, so only
 * their digests are kept. */
static void
complete (TpsRound *round, TpsAveragingJob *job, TpsAveragingOutput *output)
{
  guint n_trainers = round->options->n_trainers;
  TpsAveragingTicket *ticket;

  round->digests = g_new (TpsDigest, n_trainers);
  for (guint i = 0; i < n_trainers; i++)
    round->digests[i] = round->by_trainer[i]->item.digest;
  release_contributions (round, output);
  g_clear_pointer (&round->by_trainer, g_free);
  tps_gradient_move (&round->average, &job->average);
  set_state (round, TPS_ROUND_COMPLETE);
  output->has_completed = TRUE;
  output->batch = round->batch;
  output->param_loc = round->param_loc;
  while ((ticket = pop_ticket (&round->waiters)) != NULL)
    answer_with_average (round, ticket, output);
}

static GError *
name_round (const TpsRound *round, GError *error)
{
  g_prefix_error (&error, "round (batch %" G_GINT64_FORMAT ", param_loc %d): ", round->batch,
                  round->param_loc);
  return error;
}

static void
fold_done (TpsRound *round, TpsAveragingJob *job, TpsAveragingOutput *output)
{
  round->is_folding = FALSE;
  if (tps_round_is_closed (round))
    return;
  if (job->error != NULL)
    tps_round_close (round, TPS_ROUND_ABORTED, name_round (round, g_steal_pointer (&job->error)),
                     output);
  else if (job->is_last)
    complete (round, job, output);
}

/* Moves a forgotten round to the output, which frees it, unless a job is outstanding. */
static void
bury_if_done (TpsRound *round, TpsAveragingOutput *output)
{
  if (!round->is_forgotten || round->n_jobs > 0)
    return;
  round->next = output->dead_rounds;
  output->dead_rounds = round;
}

void
tps_round_job_done (TpsRound *round, TpsAveragingJob *job, TpsAveragingOutput *output)
{
  round->n_jobs--;
  for (guint i = 0; i < job->n_items; i++)
    job->items[i]->stage = job->is_fold ? TPS_CONTRIBUTION_FOLDED : TPS_CONTRIBUTION_IDLE;
  if (job->is_fold)
    fold_done (round, job, output);
  if (tps_round_is_closed (round))
    release_contributions (round, output);
  else if (round->state != TPS_ROUND_COMPLETE)
    advance (round, output);
  settle_repeats (round, output);
  bury_if_done (round, output);
}

void
tps_round_forget (TpsRound *round, TpsAveragingOutput *output)
{
  round->is_forgotten = TRUE;
  bury_if_done (round, output);
}
