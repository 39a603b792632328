/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A round has contributions, the sum of those that are folded, and the tickets that wait.
 *
 * A contribution is idle, busy (a job reads or writes it, and no other code may access it) or
 * folded. Only one fold is in progress at a time; it takes the next contributions in ascending
 * order of their trainers. If a contribution cannot be folded yet, its digest is computed
 * meanwhile, so that the later fold has less work. */

#include "runtime/server/averaging/averaging.h"

#include "runtime/server/averaging/reduction.h"
#include "runtime/server/open_rounds.h"
#include "runtime/base/error.h"
#include "runtime/base/trace.h"

typedef enum
{
  TPS_ROUND_OPEN,
  TPS_ROUND_REDUCING,
  TPS_ROUND_COMPLETE,
  TPS_ROUND_EXPIRED,
  TPS_ROUND_ABORTED,
} TpsRoundState;

typedef enum
{
  TPS_CONTRIBUTION_IDLE,
  TPS_CONTRIBUTION_BUSY,
  TPS_CONTRIBUTION_FOLDED,
} TpsContributionStage;

struct TpsContribution
{
  TpsFoldItem item;
  TpsContributionStage stage;
  TpsContribution *next; /* in TpsAveragingOutput.dead_contributions */
};

typedef struct
{
  TpsAveragingTicket *first;
  TpsAveragingTicket *last;
} TpsTicketList;

struct TpsRound
{
  const TpsAveragingOptions *options; /* borrowed */
  gint64 batch;
  gint32 param_loc;
  TpsRoundState state;
  gint64 deadline_ns;
  GQueue *open_rounds;   /* borrowed: all open rounds, oldest first */
  GList open_link;       /* its link in that queue */
  gboolean is_forgotten; /* belongs to no batch; freed after its last job */
  guint n_jobs;          /* jobs that have not been returned */

  /* Valid until the round is complete or has ended. */
  TpsContribution **by_trainer; /* [n_trainers]; NULL = has not arrived */
  guint n_arrived;
  guint next_trainer; /* the lowest trainer whose contribution no fold has taken */
  gboolean is_folding;
  TpsGradient signature; /* the kind, dtype and shape of all gradients; no elements */
  gint32 signature_trainer;
  TpsReduction reduction;

  /* Valid once the round is complete. */
  TpsGradient average;
  TpsDigest *digests; /* [n_trainers] */

  /* Valid once the round has ended without an average. */
  GError *error;

  TpsCharge charge;
  TpsTicketList waiters;
  TpsTicketList repeats; /* repeats whose bytes have not yet been compared with the first push */
  TpsRound *next;        /* in TpsAveragingOutput.dead_rounds */
};

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

static TpsTraceEvent round_expired = TPS_TRACE_EVENT ("round_expired", TPS_TRACE_WARNING);

/* The maximum number of older batches that are kept: the previous batch, and an older batch with
 * averages. */
#define MAX_OLD_BATCHES 2

/* The default of max_rounds is MAX_SLOTS / n_trainers, within the limits MIN_MAX_ROUNDS and
 * MAX_ROUNDS. */
#define MAX_ROUNDS 65536
#define MIN_MAX_ROUNDS 256
#define MAX_SLOTS (64 * 1024 * 1024)

typedef struct
{
  gint64 number;
  GHashTable *rounds; /* param_loc -> TpsRound; owns them */
  guint n_past;       /* trainers that have taken part in a newer batch */
} Batch;

struct TpsAveraging
{
  TpsAveragingOptions options;
  Batch *current;              /* NULL before the first push */
  Batch *old[MAX_OLD_BATCHES]; /* newest first; then NULLs */
  gint64 *newest;              /* [n_trainers]: the highest batch number of each; -1 = none */
  GQueue open_rounds;          /* by deadline, because all rounds have the same timeout */
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

/* Creates an open round, owned by the caller, and appends it to `open_rounds`. Charges its memory,
 * apart from the gradients. Errors: RESOURCE_EXHAUSTED. */
static TpsRound *
round_new (const TpsAveragingOptions *options, gint64 batch, gint32 param_loc, gint64 deadline_ns,
           GQueue *open_rounds, GError **error)
{
  TpsCharge charge = { options->budget, 0 };
  TpsRound *round;

  if (!tps_charge_set (&charge,
                       sizeof (TpsRound) + ROUND_OVERHEAD_BYTES
                           + options->n_trainers
                                 * (sizeof (TpsContribution *) + sizeof (TpsDigest)),
                       error))
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

static void
contribution_free (TpsContribution *contribution)
{
  tps_gradient_clear (&contribution->item.gradient);
  g_free (contribution);
}

static void
round_free (TpsRound *round)
{
  for (guint i = 0; round->by_trainer != NULL && i < round->options->n_trainers; i++)
    g_clear_pointer (&round->by_trainer[i], contribution_free);
  g_free (round->by_trainer);
  g_free (round->digests);
  tps_reduction_clear (&round->reduction);
  tps_gradient_clear (&round->average);
  g_clear_error (&round->error);
  tps_charge_clear (&round->charge);
  g_free (round);
}

/* Returns TRUE if the round has ended without an average. */
static gboolean
round_is_closed (const TpsRound *round)
{
  return round->state == TPS_ROUND_EXPIRED || round->state == TPS_ROUND_ABORTED;
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

/* Answers a ticket with `error`, of which it takes ownership. */
static void
fail_ticket (TpsAveragingTicket *ticket, GError *error, TpsAveragingOutput *output)
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

/* Returns a text with the trainers that have not contributed: "trainers 3, 5 and 1000 more". Owned
 * by the caller. */
static gchar *
round_describe_missing (const TpsRound *round)
{
  guint n_trainers = round->options->n_trainers;

  return tps_missing_trainers_to_string (n_trainers, n_trainers - round->n_arrived, has_come,
                                         round);
}

/* Describes an open round, for reports; `n_looks` as in tps_open_round_list_missing(). */
static void
round_describe (const TpsRound *round, gint64 now_ns, guint *n_looks, TpsOpenRound *open)
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

/* Checks that kind, dtype and shape of the ticket's gradient match those of the other gradients.
 * Errors: TPS_ERROR_INVALID_ARGUMENT naming both forms. */
static gboolean
round_check_signature (const TpsRound *round, const TpsAveragingTicket *ticket, GError **error)
{
  const TpsGradient *gradient = tps_averaging_ticket_get_gradient (ticket);
  g_autofree gchar *got = NULL;
  g_autofree gchar *expected = NULL;

  if (signatures_agree (&round->signature, gradient))
    return TRUE;
  got = tps_gradient_to_string (gradient);
  expected = tps_gradient_to_string (&round->signature);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "trainer %d sent %s to round (batch %" G_GINT64_FORMAT
                   ", param_loc %d), where trainer %d sent %s",
                   ticket->trainer, got, round->batch, round->param_loc, round->signature_trainer,
                   expected);
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

/* Takes the first contribution of a trainer. The ticket waits for the end of the round. */
static void
round_accept (TpsRound *round, TpsAveragingTicket *ticket, TpsAveragingOutput *output)
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

/* Answers a repeat, or adds it to the waiting tickets. Returns FALSE if a job still uses the
 * repeat, or if the digest of the first push is not known yet. */
static gboolean
settle_repeat (TpsRound *round, TpsAveragingTicket *ticket, TpsAveragingOutput *output)
{
  const TpsFoldItem *item = &ticket->contribution->item;
  const TpsDigest *first;

  if (ticket->contribution->stage == TPS_CONTRIBUTION_BUSY)
    return FALSE;
  if (round_is_closed (round))
    {
      fail_ticket (ticket, g_error_copy (round->error), output);
      return TRUE;
    }
  first = find_digest (round, ticket->trainer);
  if (first == NULL)
    return FALSE;
  if (!tps_digest_equal (first, &item->digest))
    fail_ticket (
        ticket,
        g_error_new (TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                     "trainer %d has already sent other bytes to round (batch %" G_GINT64_FORMAT
                     ", param_loc %d); a repeat must be the same",
                     ticket->trainer, round->batch, round->param_loc),
        output);
  else if (round->state == TPS_ROUND_COMPLETE)
    answer_with_average (round, ticket, output);
  else if (!ticket->may_wait && round->state == TPS_ROUND_OPEN)
    fail_ticket (ticket,
                 g_error_new (TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                              "round (batch %" G_GINT64_FORMAT
                              ", param_loc %d) waits for other trainers, and a call cannot wait on "
                              "this server: it serves one connection at a time",
                              round->batch, round->param_loc),
                 output);
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

/* Takes a further push of a trainer that has contributed. The ticket waits until the digests of
 * both pushes are known. If they differ, it fails with INVALID_ARGUMENT. Otherwise it is treated as
 * the first push: it receives the average, or waits for the end of the round. */
static void
round_repeat (TpsRound *round, TpsAveragingTicket *ticket, TpsAveragingOutput *output)
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

static void
release_contributions (TpsRound *round, TpsAveragingOutput *output)
{
  release_sum (round, output);
  for (guint i = 0; i < round->options->n_trainers; i++)
    if (round->by_trainer[i] != NULL && round->by_trainer[i]->stage != TPS_CONTRIBUTION_BUSY)
      bury_contribution (g_steal_pointer (&round->by_trainer[i]), output);
}

static void
round_close (TpsRound *round, TpsRoundState state, GError *error, TpsAveragingOutput *output)
{
  TpsAveragingTicket *ticket;

  set_state (round, state);
  round->error = error;
  while ((ticket = pop_ticket (&round->waiters)) != NULL)
    fail_ticket (ticket, g_error_copy (error), output);
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

static void
fold_done (TpsRound *round, TpsAveragingJob *job, TpsAveragingOutput *output)
{
  round->is_folding = FALSE;
  if (round_is_closed (round))
    return;
  if (job->error != NULL)
    {
      g_prefix_error (&job->error,
                      "round (batch %" G_GINT64_FORMAT ", param_loc %d): ", round->batch,
                      round->param_loc);
      round_close (round, TPS_ROUND_ABORTED, g_steal_pointer (&job->error), output);
    }
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

guint
tps_averaging_get_n_open (const TpsAveraging *averaging)
{
  return averaging->open_rounds.length;
}

static void
forget_trainers (TpsAveraging *averaging)
{
  for (guint i = 0; i < averaging->options.n_trainers; i++)
    averaging->newest[i] = -1;
}

TpsAveraging *
tps_averaging_new (const TpsAveragingOptions *options)
{
  TpsAveraging *averaging = g_new0 (TpsAveraging, 1);

  g_return_val_if_fail (options->n_trainers >= 1 && options->round_timeout_ns > 0, NULL);
  averaging->options = *options;
  if (options->max_rounds == 0)
    averaging->options.max_rounds = CLAMP (MAX_SLOTS / options->n_trainers, MIN_MAX_ROUNDS,
                                           MAX_ROUNDS);
  averaging->newest = g_new (gint64, options->n_trainers);
  forget_trainers (averaging);
  g_queue_init (&averaging->open_rounds);
  return averaging;
}

static Batch *
batch_new (gint64 number)
{
  Batch *batch = g_new0 (Batch, 1);

  batch->number = number;
  batch->rounds = g_hash_table_new (NULL, NULL);
  return batch;
}

static void
forget_batch (Batch *batch, TpsAveragingOutput *output)
{
  GHashTableIter iter;
  gpointer round;

  g_hash_table_iter_init (&iter, batch->rounds);
  while (g_hash_table_iter_next (&iter, NULL, &round))
    {
      /* It is freed with `output`, or with that of its last job. */
      ((TpsRound *) round)->is_forgotten = TRUE;
      bury_if_done (round, output);
    }
  g_hash_table_unref (batch->rounds);
  g_free (batch);
}

static void
forget_batches (TpsAveraging *averaging, TpsAveragingOutput *output)
{
  for (guint i = 0; i < MAX_OLD_BATCHES; i++)
    if (averaging->old[i] != NULL)
      forget_batch (g_steal_pointer (&averaging->old[i]), output);
  if (averaging->current != NULL)
    forget_batch (g_steal_pointer (&averaging->current), output);
}

void
tps_averaging_free (TpsAveraging *averaging)
{
  TpsAveragingOutput output = { 0 };

  forget_batches (averaging, &output);
  tps_averaging_output_clear (&output);
  g_free (averaging->newest);
  g_free (averaging);
}

void
tps_averaging_ticket_init (TpsAveragingTicket *ticket, gint32 trainer, gint64 batch,
                           gint32 param_loc, TpsGradient *gradient, gboolean may_wait)
{
  *ticket = (TpsAveragingTicket) {
    .trainer = trainer, .batch = batch, .param_loc = param_loc, .may_wait = may_wait
  };
  ticket->contribution = g_new0 (TpsContribution, 1);
  tps_gradient_move (&ticket->contribution->item.gradient, gradient);
}

void
tps_averaging_ticket_clear (TpsAveragingTicket *ticket)
{
  g_clear_pointer (&ticket->contribution, contribution_free);
  tps_gradient_clear (&ticket->average);
  g_clear_error (&ticket->error);
}

static void
give_digest (TpsFoldItem *item)
{
  item->digest = tps_digest_of_gradient (&item->gradient);
  item->has_digest = TRUE;
}

void
tps_averaging_ticket_compute_digest (TpsAveragingTicket *ticket)
{
  give_digest (&ticket->contribution->item);
}

TpsGradient *
tps_averaging_ticket_get_gradient (const TpsAveragingTicket *ticket)
{
  return &ticket->contribution->item.gradient;
}

static GError *
check_ticket (const TpsAveraging *averaging, const TpsAveragingTicket *ticket)
{
  if (ticket->trainer < 0 || (guint) ticket->trainer >= averaging->options.n_trainers)
    return g_error_new (TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                        "trainer is %d, expected 0 <= trainer < %u", ticket->trainer,
                        averaging->options.n_trainers);
  if (ticket->batch < 0)
    return g_error_new (TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                        "batch is %" G_GINT64_FORMAT ", expected 0 or more", ticket->batch);
  if (ticket->param_loc < 0)
    return g_error_new (TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                        "param_loc is %d, expected 0 or more", ticket->param_loc);
  return NULL;
}

/* Returns the batch with this number; NULL if it is not kept any more, or has not begun. */
static Batch *
find_batch (TpsAveraging *averaging, gint64 number)
{
  if (averaging->current != NULL && averaging->current->number == number)
    return averaging->current;
  for (guint i = 0; i < MAX_OLD_BATCHES; i++)
    if (averaging->old[i] != NULL && averaging->old[i]->number == number)
      return averaging->old[i];
  return NULL;
}

/* Returns TRUE if a round of an older batch has an average, or is computing its average. An older
 * batch has no open rounds. */
static gboolean
has_averages (const Batch *batch)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, batch->rounds);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (!round_is_closed (value))
      return TRUE;
  return FALSE;
}

/* Makes the current batch the previous batch. Of the other older batches, only the newest batch
 * with averages is kept. */
static void
retire_current (TpsAveraging *averaging, TpsAveragingOutput *output)
{
  Batch *kept = NULL;

  for (guint i = 0; i < MAX_OLD_BATCHES; i++)
    {
      Batch *old = g_steal_pointer (&averaging->old[i]);

      if (old != NULL && kept == NULL && has_averages (old))
        kept = old;
      else if (old != NULL)
        forget_batch (old, output);
    }
  averaging->old[0] = g_steal_pointer (&averaging->current);
  averaging->old[1] = kept;
}

static void
begin_batch (TpsAveraging *averaging, const TpsAveragingTicket *ticket, TpsAveragingOutput *output)
{
  while (averaging->open_rounds.head != NULL)
    {
      TpsRound *round = averaging->open_rounds.head->data;
      g_autofree gchar *missing = round_describe_missing (round);

      round_close (
          round, TPS_ROUND_ABORTED,
          g_error_new (
              TPS_ERROR, TPS_ERROR_ABORTED,
              "round (batch %" G_GINT64_FORMAT
              ", param_loc %d) was ended by trainer %d, which began batch %" G_GINT64_FORMAT
              "; missing: %s",
              round->batch, round->param_loc, ticket->trainer, ticket->batch, missing),
          output);
    }
  if (averaging->current != NULL)
    retire_current (averaging, output);
  averaging->current = batch_new (ticket->batch);
}

/* Notes that a trainer has taken part in `batch`. Forgets each older batch if all trainers have
 * taken part in newer batches. */
static void
note_progress (TpsAveraging *averaging, gint32 trainer, gint64 batch, TpsAveragingOutput *output)
{
  gint64 before = averaging->newest[trainer];
  guint n_kept = 0;

  if (batch <= before)
    return;
  averaging->newest[trainer] = batch;
  for (guint i = 0; i < MAX_OLD_BATCHES; i++)
    {
      Batch *old = g_steal_pointer (&averaging->old[i]);

      if (old == NULL)
        continue;
      if (before <= old->number && batch > old->number)
        old->n_past++;
      if (old->n_past == averaging->options.n_trainers)
        forget_batch (old, output);
      else
        averaging->old[n_kept++] = old;
    }
}

static GError *
new_stale_error (const TpsAveraging *averaging, const TpsAveragingTicket *ticket)
{
  return g_error_new (
      TPS_ERROR, TPS_ERROR_STALE,
      "round (batch %" G_GINT64_FORMAT
      ", param_loc %d) has ended and is no longer kept: the current batch is %" G_GINT64_FORMAT,
      ticket->batch, ticket->param_loc, averaging->current->number);
}

/* Returns the error with which the first push of a trainer in a round must be refused; NULL = the
 * push is accepted. `batch` and `round` are NULL if they do not exist yet. */
static GError *
check_first_push (const TpsAveraging *averaging, const Batch *batch, const TpsRound *round,
                  const TpsAveragingTicket *ticket)
{
  guint n_arrived = round == NULL ? 0 : round->n_arrived;
  GError *error = NULL;

  if (round != NULL && !round_check_signature (round, ticket, &error))
    return error;
  if (!ticket->may_wait && n_arrived + 1 < averaging->options.n_trainers)
    return g_error_new (
        TPS_ERROR, TPS_ERROR_UNAVAILABLE,
        "round (batch %" G_GINT64_FORMAT
        ", param_loc %d) would wait for other trainers, and a call cannot wait on this server: "
        "it serves one connection at a time",
        ticket->batch, ticket->param_loc);
  if (round == NULL && batch != NULL
      && g_hash_table_size (batch->rounds) >= averaging->options.max_rounds)
    return g_error_new (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                        "batch %" G_GINT64_FORMAT " already has %u rounds, the maximum: "
                        "param_loc %d is refused",
                        ticket->batch, averaging->options.max_rounds, ticket->param_loc);
  return NULL;
}

/* Returns `round`. If it is NULL, returns a new round, and begins the batch if necessary. Returns
 * NULL if there is no memory for a new round. A new batch begins even then, so that older batches
 * can be forgotten. */
static TpsRound *
ensure_round (TpsAveraging *averaging, TpsRound *round, const TpsAveragingTicket *ticket,
              gint64 now_ns, TpsAveragingOutput *output, GError **error)
{
  if (round != NULL)
    return round;
  if (averaging->current == NULL || averaging->current->number < ticket->batch)
    begin_batch (averaging, ticket, output);
  round = round_new (&averaging->options, ticket->batch, ticket->param_loc,
                     now_ns + averaging->options.round_timeout_ns, &averaging->open_rounds, error);
  if (round == NULL)
    return NULL;
  g_hash_table_insert (averaging->current->rounds, GINT_TO_POINTER (ticket->param_loc), round);
  output->has_started = TRUE;
  return round;
}

static void
push_first (TpsAveraging *averaging, TpsRound *round, TpsAveragingTicket *ticket, gint64 now_ns,
            TpsAveragingOutput *output)
{
  GError *error = NULL;

  round = ensure_round (averaging, round, ticket, now_ns, output, &error);
  if (round == NULL)
    {
      fail_ticket (ticket, error, output);
      return;
    }
  note_progress (averaging, ticket->trainer, ticket->batch, output);
  round_accept (round, ticket, output);
}

void
tps_averaging_push (TpsAveraging *averaging, TpsAveragingTicket *ticket, gint64 now_ns,
                    TpsAveragingOutput *output)
{
  GError *error = check_ticket (averaging, ticket);
  TpsRound *round = NULL;
  Batch *batch = NULL;

  output->batch = ticket->batch;
  output->param_loc = ticket->param_loc;
  if (error == NULL)
    {
      batch = find_batch (averaging, ticket->batch);
      if (batch != NULL)
        round = g_hash_table_lookup (batch->rounds, GINT_TO_POINTER (ticket->param_loc));
      if (round == NULL && averaging->current != NULL && ticket->batch < averaging->current->number)
        error = new_stale_error (averaging, ticket);
      else if (round != NULL && round_is_closed (round))
        error = g_error_copy (round->error);
      else if (round != NULL
               && (round->state == TPS_ROUND_COMPLETE
                   || round->by_trainer[ticket->trainer] != NULL))
        {
          round_repeat (round, ticket, output);
          return;
        }
      else
        error = check_first_push (averaging, batch, round, ticket);
    }
  if (error != NULL)
    fail_ticket (ticket, error, output);
  else
    push_first (averaging, round, ticket, now_ns, output);
}

guint
tps_averaging_job_begin (TpsAveragingJob *job)
{
  TpsFoldItem **items;

  if (!job->is_fold)
    return 1;
  items = g_new (TpsFoldItem *, job->n_items);
  for (guint i = 0; i < job->n_items; i++)
    items[i] = &job->items[i]->item;
  job->fold = g_new (TpsFold, 1);
  if (tps_fold_begin (job->fold, &job->round->reduction, items, job->n_items,
                      job->is_last ? &job->average : NULL, &job->error))
    return job->fold->n_blocks;
  g_clear_pointer (&job->fold, g_free);
  g_free (items);
  return 1;
}

void
tps_averaging_job_run_blocks (TpsAveragingJob *job, guint first_block, guint n_blocks)
{
  if (!job->is_fold)
    give_digest (&job->items[0]->item);
  else if (job->fold != NULL)
    tps_fold_run (job->fold, first_block, n_blocks);
}

void
tps_averaging_job_end (TpsAveragingJob *job)
{
  if (job->fold == NULL)
    return;
  tps_fold_end (job->fold, &job->error);
  g_free (job->fold->items);
  g_clear_pointer (&job->fold, g_free);
}

void
tps_averaging_job_run (TpsAveragingJob *job)
{
  guint n_blocks = tps_averaging_job_begin (job);

  tps_averaging_job_run_blocks (job, 0, n_blocks);
  tps_averaging_job_end (job);
}

TpsGradient *
tps_averaging_job_get_average (TpsAveragingJob *job, gint64 *batch, gint32 *param_loc)
{
  if (!job->is_last || job->error != NULL)
    return NULL;
  *batch = job->round->batch;
  *param_loc = job->round->param_loc;
  return &job->average;
}

void
tps_averaging_job_fail (TpsAveragingJob *job, GError *error)
{
  job->error = error;
}

void
tps_averaging_job_done (TpsAveraging *averaging, TpsAveragingJob *job, TpsAveragingOutput *output)
{
  TpsRound *round = job->round;

  round->n_jobs--;
  for (guint i = 0; i < job->n_items; i++)
    job->items[i]->stage = job->is_fold ? TPS_CONTRIBUTION_FOLDED : TPS_CONTRIBUTION_IDLE;
  if (job->is_fold)
    fold_done (round, job, output);
  if (round_is_closed (round))
    release_contributions (round, output);
  else if (round->state != TPS_ROUND_COMPLETE)
    advance (round, output);
  settle_repeats (round, output);
  bury_if_done (round, output);
  tps_gradient_clear (&job->average);
  g_clear_error (&job->error);
  g_free (job->items);
  g_free (job);
}

gint64
tps_averaging_get_deadline (const TpsAveraging *averaging)
{
  const TpsRound *round;

  if (averaging->open_rounds.head == NULL)
    return G_MAXINT64;
  round = averaging->open_rounds.head->data;
  return round->deadline_ns;
}

static GError *
new_deadline_error (const TpsAveraging *averaging, const TpsRound *round)
{
  g_autofree gchar *missing = round_describe_missing (round);

  tps_trace (&round_expired, tps_field_int ("batch", round->batch),
             tps_field_int ("param_loc", round->param_loc),
             tps_field_uint ("trainers", averaging->options.n_trainers),
             tps_field_text ("missing", missing));
  return g_error_new (
      TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED,
      "round (batch %" G_GINT64_FORMAT ", param_loc %d) timed out after %g s; missing: %s",
      round->batch, round->param_loc, (gdouble) averaging->options.round_timeout_ns / 1e9, missing);
}

void
tps_averaging_expire (TpsAveraging *averaging, gint64 now_ns, TpsAveragingOutput *output)
{
  while (tps_averaging_get_deadline (averaging) <= now_ns)
    {
      TpsRound *round = averaging->open_rounds.head->data;

      round_close (round, TPS_ROUND_EXPIRED, new_deadline_error (averaging, round), output);
    }
}

void
tps_averaging_get_status (const TpsAveraging *averaging, gint64 now_ns, TpsAveragingStatus *status,
                          TpsOpenRound *rounds, guint n_max)
{
  const TpsAveragingOptions *options = &averaging->options;
  const GList *item = averaging->open_rounds.head;
  guint n_looks = TPS_OPEN_ROUNDS_MAX_LOOKS;

  *status = (TpsAveragingStatus) {
    .n_trainers = options->n_trainers,
    .round_timeout_ns = options->round_timeout_ns,
    .batch = averaging->current != NULL ? averaging->current->number : -1,
    .n_open = averaging->open_rounds.length,
  };
  for (; item != NULL && status->n_listed < n_max; item = item->next)
    round_describe (item->data, now_ns, &n_looks, &rounds[status->n_listed++]);
}

static void
abort_batch (Batch *batch, const GError *error, TpsAveragingOutput *output)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, batch->rounds);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      TpsRound *round = value;

      if (round->state == TPS_ROUND_OPEN || round->state == TPS_ROUND_REDUCING)
        round_close (round, TPS_ROUND_ABORTED, g_error_copy (error), output);
    }
}

void
tps_averaging_end_all (TpsAveraging *averaging, const GError *error, TpsAveragingOutput *output)
{
  for (guint i = 0; i < MAX_OLD_BATCHES; i++)
    if (averaging->old[i] != NULL)
      abort_batch (averaging->old[i], error, output);
  if (averaging->current != NULL)
    abort_batch (averaging->current, error, output);
  forget_batches (averaging, output);
  forget_trainers (averaging);
}

void
tps_averaging_output_clear (TpsAveragingOutput *output)
{
  for (TpsContribution *dead = output->dead_contributions, *next; dead != NULL; dead = next)
    {
      next = dead->next;
      contribution_free (dead);
    }
  for (TpsRound *dead = output->dead_rounds, *next; dead != NULL; dead = next)
    {
      next = dead->next;
      round_free (dead);
    }
  *output = (TpsAveragingOutput) { 0 };
}
