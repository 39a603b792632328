/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Batches, the admission of pushes to rounds, and the ends of rounds. The interior of a round is in
 * round.c. */

#include "runtime/server/averaging/averaging.h"

#include "runtime/server/averaging/round.h"
#include "runtime/base/error.h"
#include "runtime/base/trace.h"

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

guint
tps_averaging_get_default_max_rounds (guint n_trainers)
{
  return CLAMP (MAX_SLOTS / MAX (n_trainers, 1), MIN_MAX_ROUNDS, MAX_ROUNDS);
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
    averaging->options.max_rounds = tps_averaging_get_default_max_rounds (options->n_trainers);
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
    tps_round_forget (round, output);
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
  TpsAveragingOutput output;

  tps_averaging_output_init (&output);
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
  g_clear_pointer (&ticket->contribution, tps_contribution_free);
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

static TpsRound *
find_round (const Batch *batch, gint32 param_loc)
{
  return batch == NULL ? NULL : g_hash_table_lookup (batch->rounds, GINT_TO_POINTER (param_loc));
}

static gboolean
is_older (const TpsAveraging *averaging, gint64 batch)
{
  return averaging->current != NULL && batch < averaging->current->number;
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
    if (!tps_round_is_closed (value))
      return TRUE;
  return FALSE;
}

/* Aborts all open rounds, because `ticket` begins a newer batch. tps_round_close() removes each
 * round from the queue. */
static void
abort_open_rounds (TpsAveraging *averaging, const TpsAveragingTicket *ticket,
                   TpsAveragingOutput *output)
{
  while (averaging->open_rounds.head != NULL)
    {
      TpsRound *round = averaging->open_rounds.head->data;
      g_autofree gchar *missing = tps_round_describe_missing (round);

      tps_round_close (
          round, TPS_ROUND_ABORTED,
          g_error_new (
              TPS_ERROR, TPS_ERROR_ABORTED,
              "round (batch %" G_GINT64_FORMAT
              ", param_loc %d) was ended by trainer %d, which began batch %" G_GINT64_FORMAT
              "; missing: %s",
              round->batch, round->param_loc, ticket->trainer, ticket->batch, missing),
          output);
    }
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
  if (averaging->current != NULL)
    {
      abort_open_rounds (averaging, ticket, output);
      retire_current (averaging, output);
    }
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

  if (round != NULL && !tps_round_check_signature (round, ticket, &error))
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
  round = tps_round_new (&averaging->options, ticket->batch, ticket->param_loc,
                         now_ns + averaging->options.round_timeout_ns, &averaging->open_rounds,
                         error);
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
      tps_ticket_fail (ticket, error, output);
      return;
    }
  note_progress (averaging, ticket->trainer, ticket->batch, output);
  tps_round_accept (round, ticket, output);
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
      round = find_round (batch, ticket->param_loc);
      if (round == NULL && is_older (averaging, ticket->batch))
        error = new_stale_error (averaging, ticket);
      else if (round != NULL && tps_round_is_closed (round))
        error = g_error_copy (round->error);
      else if (round != NULL && tps_round_has_contribution (round, ticket->trainer))
        {
          tps_round_repeat (round, ticket, output);
          return;
        }
      else
        error = check_first_push (averaging, batch, round, ticket);
    }
  if (error != NULL)
    tps_ticket_fail (ticket, error, output);
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
  tps_round_job_done (job->round, job, output);
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
  g_autofree gchar *missing = tps_round_describe_missing (round);

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

      tps_round_close (round, TPS_ROUND_EXPIRED, new_deadline_error (averaging, round), output);
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
    tps_round_describe (item->data, now_ns, &n_looks, &rounds[status->n_listed++]);
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
        tps_round_close (round, TPS_ROUND_ABORTED, g_error_copy (error), output);
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
tps_averaging_output_init (TpsAveragingOutput *output)
{
  *output = (TpsAveragingOutput) { 0 };
}

void
tps_averaging_output_clear (TpsAveragingOutput *output)
{
  for (TpsContribution *dead = output->dead_contributions, *next; dead != NULL; dead = next)
    {
      next = dead->next;
      tps_contribution_free (dead);
    }
  for (TpsRound *dead = output->dead_rounds, *next; dead != NULL; dead = next)
    {
      next = dead->next;
      tps_round_free (dead);
    }
  tps_averaging_output_init (output);
}
