/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/model/updating.h"

#include <string.h>

#include "runtime/server/open_rounds.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/server/model/update_digest.h"
#include "runtime/base/trace.h"

static TpsTraceEvent update_incomplete = TPS_TRACE_EVENT ("update_incomplete", TPS_TRACE_INFO);
static TpsTraceEvent update_expired = TPS_TRACE_EVENT ("update_expired", TPS_TRACE_WARNING);

struct TpsUpdateContribution
{
  TpsRefcount refcount;
  gint64 version;
  guint n_gradients;
  TpsTensor *gradients;
  gboolean has_digest;
  TpsPushDigest digest;
};

struct TpsUpdateRound
{
  TpsUpdateContribution **by_trainer; /* [n_trainers], NULL = has not contributed */
  guint n_trainers;
  guint n_arrived;
  guint n_lost; /* lost trainers among the arrived trainers */
  gint64 started_ns;
  gint64 deadline_ns;
  TpsUpdateTicket *waiting;
  TpsUpdateTicket *last_waiting;
  gboolean is_forgotten; /* its tickets have been answered, but its job is outstanding */
  TpsUpdateRound *next;  /* in TpsUpdatingOutput.dead_rounds */
};

struct TpsUpdating
{
  TpsUpdatingOptions options;
  gint64 version; /* 0 = no model */
  guint n_parameters;
  gchar **names;
  TpsShape *shapes;
  TpsUpdateRound *open;     /* NULL before the first trainer contributes */
  TpsUpdateRound *updating; /* NULL if no job is outstanding */
  guint n_lost;
  gboolean *is_lost; /* [n_trainers] */
};

TpsUpdating *
tps_updating_new (const TpsUpdatingOptions *options)
{
  TpsUpdating *updating = g_new0 (TpsUpdating, 1);

  g_return_val_if_fail (options->n_trainers >= 1 && options->min_trainers >= 1
                            && options->min_trainers <= options->n_trainers
                            && options->round_timeout_ns > 0,
                        NULL);
  updating->options = *options;
  updating->is_lost = g_new0 (gboolean, options->n_trainers);
  return updating;
}

static void
forget_model (TpsUpdating *updating)
{
  for (guint i = 0; i < updating->n_parameters; i++)
    g_free (updating->names[i]);
  g_clear_pointer (&updating->names, g_free);
  g_clear_pointer (&updating->shapes, g_free);
  updating->n_parameters = 0;
  updating->version = 0;
}

void
tps_updating_free (TpsUpdating *updating)
{
  forget_model (updating);
  g_free (updating->is_lost);
  g_free (updating);
}

void
tps_updating_set_model (TpsUpdating *updating, const TpsNamedTensor *parameters, guint n_parameters)
{
  g_return_if_fail (updating->version == 0);
  updating->version = 1;
  updating->n_parameters = n_parameters;
  updating->names = g_new (gchar *, n_parameters);
  updating->shapes = g_new (TpsShape, n_parameters);
  for (guint i = 0; i < n_parameters; i++)
    {
      updating->names[i] = g_strdup (parameters[i].name);
      updating->shapes[i] = parameters[i].tensor.shape;
    }
}

void
tps_updating_set_version (TpsUpdating *updating, gint64 version)
{
  g_return_if_fail (updating->version > 0 && updating->open == NULL && updating->updating == NULL);
  updating->version = version;
}

gboolean
tps_updating_has_job (const TpsUpdating *updating)
{
  return updating->updating != NULL;
}

/* ---- tickets and outputs ---- */

static void
free_tensors (TpsTensor *tensors, guint n_tensors)
{
  for (guint i = 0; tensors != NULL && i < n_tensors; i++)
    tps_tensor_clear (&tensors[i]);
  g_free (tensors);
}

void
tps_update_ticket_clear (TpsUpdateTicket *ticket)
{
  free_tensors (g_steal_pointer (&ticket->gradients), ticket->n_gradients);
  g_clear_error (&ticket->error);
}

static void
round_free (TpsUpdateRound *round)
{
  for (guint i = 0; i < round->n_trainers; i++)
    g_clear_pointer (&round->by_trainer[i], tps_update_contribution_unref);
  g_free (round->by_trainer);
  g_free (round);
}

void
tps_updating_output_clear (TpsUpdatingOutput *output)
{
  for (TpsUpdateRound *round = output->dead_rounds, *next; round != NULL; round = next)
    {
      next = round->next;
      round_free (round);
    }
  *output = (TpsUpdatingOutput) { 0 };
}

/* Appends to the list of tickets [*first, *last]. */
static void
append (TpsUpdateTicket **first, TpsUpdateTicket **last, TpsUpdateTicket *ticket)
{
  ticket->next = NULL;
  if (*first == NULL)
    *first = ticket;
  else
    (*last)->next = ticket;
  *last = ticket;
}

static void
answer (TpsUpdateTicket *ticket, GError *error, TpsUpdatingOutput *output)
{
  ticket->error = error;
  append (&output->answered, &output->last_answered, ticket);
}

/* ---- contributions ---- */

/* Takes ownership of the ticket's gradients. */
static TpsUpdateContribution *
contribution_new (TpsUpdateTicket *ticket)
{
  TpsUpdateContribution *contribution = g_new (TpsUpdateContribution, 1);

  tps_refcount_init (&contribution->refcount);
  contribution->version = ticket->version;
  contribution->n_gradients = ticket->n_gradients;
  contribution->gradients = g_steal_pointer (&ticket->gradients);
  contribution->has_digest = ticket->has_digest;
  contribution->digest = ticket->digest;
  return contribution;
}

static TPS_DEFINE_REF (TpsUpdateContribution, contribution)

    void tps_update_contribution_unref (TpsUpdateContribution *contribution)
{
  if (!tps_refcount_dec (&contribution->refcount))
    return;
  free_tensors (contribution->gradients, contribution->n_gradients);
  g_free (contribution);
}

TpsPushDigest
tps_update_contribution_compute_digest (const TpsUpdateContribution *contribution, gint32 trainer)
{
  return tps_update_digest_compute (trainer, contribution->version, contribution->gradients,
                                    contribution->n_gradients);
}

void
tps_update_contribution_set_digest (TpsUpdateContribution *contribution,
                                    const TpsPushDigest *digest)
{
  contribution->has_digest = TRUE;
  contribution->digest = *digest;
}

/* ---- rounds ---- */

static gboolean
has_come (gconstpointer round, guint trainer)
{
  return ((const TpsUpdateRound *) round)->by_trainer[trainer] != NULL;
}

/* Answers all waiting tickets with `error` (borrowed); NULL = with the model. */
static void
answer_round (TpsUpdateRound *round, const GError *error, TpsUpdatingOutput *output)
{
  TpsUpdateTicket *ticket = g_steal_pointer (&round->waiting);

  for (TpsUpdateTicket *next; ticket != NULL; ticket = next)
    {
      next = ticket->next;
      answer (ticket, error != NULL ? g_error_copy (error) : NULL, output);
    }
}

static void
bury (TpsUpdateRound *round, TpsUpdatingOutput *output)
{
  round->next = output->dead_rounds;
  output->dead_rounds = round;
}

static void
add_part (TpsUpdatingJob *job, gint32 trainer, const TpsUpdateContribution *contribution)
{
  guint i = job->n_took_part++;

  job->trainers[i] = trainer;
  job->gradients[i] = contribution->gradients;
  job->marks[i] = (TpsUpdateMark) { .version = contribution->version,
                                    .has_digest = contribution->has_digest,
                                    .digest = contribution->digest };
}

static void
close_round (TpsUpdating *updating, gint64 now_ns, TpsUpdatingOutput *output)
{
  TpsUpdateRound *round = g_steal_pointer (&updating->open);
  TpsUpdatingJob *job = g_new0 (TpsUpdatingJob, 1);

  updating->updating = round;
  job->round = round;
  job->started_ns = round->started_ns;
  job->closed_ns = now_ns;
  job->trainers = g_new (gint32, round->n_arrived);
  job->gradients = g_new (const TpsTensor *, round->n_arrived);
  job->marks = g_new (TpsUpdateMark, round->n_arrived);
  for (guint i = 0; i < round->n_trainers; i++)
    if (round->by_trainer[i] != NULL)
      add_part (job, (gint32) i, round->by_trainer[i]);
  output->job = job;
}

/* Returns TRUE if all trainers have contributed to the open round, or if enough trainers have
 * contributed and all others are lost. */
static gboolean
is_complete (const TpsUpdating *updating)
{
  const TpsUpdateRound *round = updating->open;
  guint n_missing = round->n_trainers - round->n_arrived;

  return n_missing == 0
         || (round->n_arrived >= updating->options.min_trainers
             && n_missing == updating->n_lost - round->n_lost);
}

/* Closes the open round without the missing trainers. */
static void
close_incomplete (TpsUpdating *updating, gint64 now_ns, TpsUpdatingOutput *output)
{
  tps_trace (&update_incomplete, tps_field_int ("version", updating->version),
             tps_field_uint ("trainers", updating->options.n_trainers),
             tps_field_uint ("arrived", updating->open->n_arrived),
             tps_field_uint ("lost", updating->n_lost - updating->open->n_lost));
  close_round (updating, now_ns, output);
}

static void
close_if_complete (TpsUpdating *updating, gint64 now_ns, TpsUpdatingOutput *output)
{
  if (updating->open == NULL || updating->updating != NULL || !is_complete (updating))
    return;
  if (updating->open->n_arrived < updating->options.n_trainers)
    close_incomplete (updating, now_ns, output);
  else
    close_round (updating, now_ns, output);
}

static void
abort_open_round (TpsUpdating *updating, const GError *error, TpsUpdatingOutput *output)
{
  TpsUpdateRound *round = g_steal_pointer (&updating->open);

  answer_round (round, error, output);
  bury (round, output);
}

/* ---- push ---- */

static GError *
check_gradients (const TpsUpdating *updating, const TpsUpdateTicket *ticket)
{
  if (ticket->n_gradients != updating->n_parameters)
    return g_error_new (TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                        "gradients has %u tensors, the model has %u parameters",
                        ticket->n_gradients, updating->n_parameters);
  for (guint i = 0; i < ticket->n_gradients; i++)
    {
      const TpsShape *shape = &ticket->gradients[i].shape;
      g_autofree gchar *got = NULL;
      g_autofree gchar *expected = NULL;

      if (tps_shape_equal (shape, &updating->shapes[i]))
        continue;
      got = tps_shape_to_string (shape);
      expected = tps_shape_to_string (&updating->shapes[i]);
      return g_error_new (TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                          "gradients[%u] is %s, parameter %s is %s", i, got, updating->names[i],
                          expected);
    }
  return NULL;
}

GError *
tps_updating_new_no_model_error (void)
{
  return g_error_new_literal (TPS_ERROR, TPS_ERROR_NOT_FOUND,
                              "there is no model: init_model has not been called");
}

static GError *
check_ticket (const TpsUpdating *updating, const TpsUpdateTicket *ticket)
{
  if (updating->version == 0)
    return tps_updating_new_no_model_error ();
  if (ticket->trainer < 0 || (guint) ticket->trainer >= updating->options.n_trainers)
    return g_error_new (TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                        "trainer is %d, expected 0 <= trainer < %u", ticket->trainer,
                        updating->options.n_trainers);
  if (ticket->version < 0 || ticket->version > updating->version)
    return g_error_new (TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                        "version is %" G_GINT64_FORMAT
                        ", expected 0 <= version <= %" G_GINT64_FORMAT ", the newest",
                        ticket->version, updating->version);
  return check_gradients (updating, ticket);
}

/* `newest` is the version from which the open round starts, so an update in progress counts. */
static GError *
check_staleness (const TpsUpdating *updating, const TpsUpdateTicket *ticket)
{
  gint64 newest = updating->version + (updating->updating != NULL);

  if (ticket->version == 0 || newest - ticket->version <= (gint64) updating->options.max_staleness)
    return NULL;
  return g_error_new (TPS_ERROR, TPS_ERROR_STALE,
                      "the gradients are of model version %" G_GINT64_FORMAT
                      ", and the newest is %" G_GINT64_FORMAT ": they may be at most %u versions "
                      "behind (--max-staleness); fetch the model and continue with it",
                      ticket->version, newest, updating->options.max_staleness);
}

static void
set_lost (TpsUpdating *updating, guint trainer, gboolean is_lost)
{
  guint change = is_lost ? 1 : -1u; /* modulo 2^32 */

  if (updating->is_lost[trainer] == is_lost)
    return;
  updating->is_lost[trainer] = is_lost;
  updating->n_lost += change;
  if (updating->open != NULL && has_come (updating->open, trainer))
    updating->open->n_lost += change;
}

static GError *
check_may_wait (const TpsUpdating *updating, const TpsUpdateTicket *ticket, guint n_arrived)
{
  if (ticket->may_wait || n_arrived >= updating->options.n_trainers)
    return NULL;
  return g_error_new_literal (TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                              "the update would wait for other trainers, and a call cannot wait "
                              "on this server: it serves one connection at a time");
}

/* Handles a further ticket of a trainer that has already contributed to the round. */
static void
repeat (TpsUpdating *updating, TpsUpdateRound *round, TpsUpdateTicket *ticket,
        TpsUpdatingOutput *output)
{
  TpsUpdateContribution *first = round->by_trainer[ticket->trainer];
  GError *error = NULL;

  if (!first->has_digest || !ticket->has_digest)
    {
      output->undecided = ticket;
      output->original = contribution_ref (first);
      return;
    }
  if (memcmp (&first->digest, &ticket->digest, sizeof first->digest) != 0)
    error = g_error_new (TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                         "trainer %d has already contributed other gradients or "
                         "another version to this update",
                         ticket->trainer);
  else if (round == updating->open)
    error = check_may_wait (updating, ticket, round->n_arrived);
  if (error != NULL)
    answer (ticket, error, output);
  else
    append (&round->waiting, &round->last_waiting, ticket);
}

static TpsUpdateRound *
ensure_open_round (TpsUpdating *updating, gint64 now_ns)
{
  TpsUpdateRound *round = updating->open;

  if (round != NULL)
    return round;
  round = g_new0 (TpsUpdateRound, 1);
  round->n_trainers = updating->options.n_trainers;
  round->by_trainer = g_new0 (TpsUpdateContribution *, round->n_trainers);
  round->started_ns = now_ns;
  round->deadline_ns = now_ns + updating->options.round_timeout_ns;
  updating->open = round;
  return round;
}

static void
take_part (TpsUpdating *updating, TpsUpdateTicket *ticket, gint64 now_ns, TpsUpdatingOutput *output)
{
  TpsUpdateRound *round = ensure_open_round (updating, now_ns);

  round->by_trainer[ticket->trainer] = contribution_new (ticket);
  output->has_taken = TRUE;
  output->n_before = round->n_arrived++;
  append (&round->waiting, &round->last_waiting, ticket);
  close_if_complete (updating, now_ns, output);
}

void
tps_updating_push (TpsUpdating *updating, TpsUpdateTicket *ticket, gint64 now_ns,
                   TpsUpdatingOutput *output)
{
  GError *error = check_ticket (updating, ticket);
  guint trainer = (guint) ticket->trainer;

  if (error == NULL)
    set_lost (updating, trainer, FALSE);
  if (error == NULL && updating->updating != NULL && has_come (updating->updating, trainer))
    {
      repeat (updating, updating->updating, ticket, output);
      return;
    }
  if (error == NULL && updating->open != NULL && has_come (updating->open, trainer))
    {
      repeat (updating, updating->open, ticket, output);
      return;
    }
  if (error == NULL)
    error = check_staleness (updating, ticket);
  if (error == NULL)
    error = check_may_wait (updating, ticket,
                            updating->open == NULL ? 1 : updating->open->n_arrived + 1);
  if (error != NULL)
    answer (ticket, error, output);
  else
    take_part (updating, ticket, now_ns, output);
}

void
tps_updating_lose (TpsUpdating *updating, gint32 trainer, gint64 now_ns, TpsUpdatingOutput *output)
{
  set_lost (updating, (guint) trainer, TRUE);
  close_if_complete (updating, now_ns, output);
}

void
tps_updating_find (TpsUpdating *updating, gint32 trainer)
{
  set_lost (updating, (guint) trainer, FALSE);
}

gboolean
tps_updating_has_contribution (const TpsUpdating *updating, gint32 trainer)
{
  return (updating->open != NULL && has_come (updating->open, (guint) trainer))
         || (updating->updating != NULL && has_come (updating->updating, (guint) trainer));
}

/* ---- ends of rounds ---- */

/* Copies the digests of the job to the contributions, which may still be compared with repeats, and
 * to the waiting tickets of the round. */
static void
give_digests (TpsUpdateRound *round, const TpsUpdatingJob *job)
{
  for (guint i = 0; i < job->n_took_part; i++)
    tps_update_contribution_set_digest (round->by_trainer[job->trainers[i]], &job->marks[i].digest);
  for (TpsUpdateTicket *ticket = round->waiting; ticket != NULL; ticket = ticket->next)
    {
      ticket->has_digest = TRUE;
      ticket->digest = round->by_trainer[ticket->trainer]->digest;
    }
}

void
tps_updating_job_done (TpsUpdating *updating, TpsUpdatingJob *job, GError *error, gint64 now_ns,
                       TpsUpdatingOutput *output)
{
  TpsUpdateRound *round = job->round;

  if (!round->is_forgotten)
    {
      updating->updating = NULL;
      if (error == NULL)
        {
          updating->version++;
          give_digests (round, job);
        }
      answer_round (round, error, output);
      close_if_complete (updating, now_ns, output);
    }
  bury (round, output);
  g_clear_error (&error);
  g_free (job->trainers);
  g_free (job->gradients);
  g_free (job->marks);
  g_free (job);
}

gint64
tps_updating_get_deadline (const TpsUpdating *updating)
{
  return updating->open == NULL || updating->updating != NULL ? G_MAXINT64
                                                              : updating->open->deadline_ns;
}

static GError *
new_missing_error (const TpsUpdating *updating)
{
  const TpsUpdateRound *round = updating->open;
  guint n_trainers = updating->options.n_trainers;
  g_autofree gchar *missing = tps_missing_trainers_to_string (
      n_trainers, n_trainers - round->n_arrived, has_come, round);

  tps_trace (&update_expired, tps_field_int ("version", updating->version),
             tps_field_uint ("trainers", n_trainers), tps_field_text ("missing", missing));
  return g_error_new (TPS_ERROR, TPS_ERROR_ABORTED,
                      "the update of model version %" G_GINT64_FORMAT
                      " timed out after %g s: %u of %u trainers contributed, %u are needed; "
                      "missing: %s",
                      updating->version, (gdouble) updating->options.round_timeout_ns / 1e9,
                      round->n_arrived, n_trainers, updating->options.min_trainers, missing);
}

void
tps_updating_expire (TpsUpdating *updating, gint64 now_ns, TpsUpdatingOutput *output)
{
  g_autoptr (GError) error = NULL;

  if (tps_updating_get_deadline (updating) > now_ns || updating->open == NULL)
    return;
  if (updating->open->n_arrived >= updating->options.min_trainers)
    {
      close_incomplete (updating, now_ns, output);
      return;
    }
  error = new_missing_error (updating);
  abort_open_round (updating, error, output);
}

void
tps_updating_get_status (const TpsUpdating *updating, gint64 now_ns, TpsUpdatingStatus *status)
{
  const TpsUpdatingOptions *options = &updating->options;
  const TpsUpdateRound *round = updating->open;
  guint n_looks = TPS_OPEN_ROUNDS_MAX_LOOKS;

  *status = (TpsUpdatingStatus) {
    .n_trainers = options->n_trainers,
    .min_trainers = options->min_trainers,
    .round_timeout_ns = options->round_timeout_ns,
    .version = updating->version,
    .is_updating = updating->updating != NULL,
    .has_round = round != NULL,
  };
  if (round == NULL)
    return;
  status->round.n_arrived = round->n_arrived;
  status->round.age_ns = now_ns - round->started_ns;
  status->round.remaining_ns = round->deadline_ns - now_ns;
  tps_open_round_list_missing (&status->round, options->n_trainers, has_come, round, &n_looks);
}

void
tps_updating_end_all (TpsUpdating *updating, const GError *error, TpsUpdatingOutput *output)
{
  if (updating->updating != NULL)
    {
      answer_round (updating->updating, error, output);
      updating->updating->is_forgotten = TRUE;
      updating->updating = NULL;
    }
  if (updating->open != NULL)
    abort_open_round (updating, error, output);
  forget_model (updating);
  memset (updating->is_lost, 0, updating->options.n_trainers * sizeof (gboolean));
  updating->n_lost = 0;
}
