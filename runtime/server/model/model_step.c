/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The consequences of a step of the machine: the timer is set, events are reported, calls are
 * answered, and an update is computed and passed back to the machine.
 *
 * The overview is in model_server_private.h.
 */

#include "runtime/server/model/model_server_private.h"

#include "runtime/server/model/update_digest.h"

#define STRAGGLER_METRIC "parameter_server_straggler_metric"
#define BATCH_METRIC "parameter_server_batch_metric"

struct TpsModelStep
{
  TpsModelServer *server;
  TpsUpdatingJob *job;
  TpsTrainedModel *model;
  TpsModelUpdate arithmetic;
  GError *error;
  gint64 started_ns;
};

TpsModelStep *
tps_model_step_begin (TpsModelServer *server, TpsUpdatingOutput *output)
{
  TpsModelStep *step = NULL;

  if (output->has_taken)
    tps_update_news_add_arrival (&server->news, output->n_before);
  if (output->job != NULL)
    {
      step = g_new0 (TpsModelStep, 1);
      step->server = server;
      step->job = output->job;
      step->model = tps_trained_model_ref (server->model);
      tps_shell_begin (&server->shell);
    }
  tps_gauge_set (server->numbers.open, tps_updating_get_deadline (server->updating) != G_MAXINT64);
  tps_shell_set_deadline (&server->shell, tps_updating_get_deadline (server->updating));
  return step;
}

/* Records the spans of an update. They must be complete before calls are answered, because callers
 * may read the metrics. The lock must be held. */
static void
record_spans (TpsModelServer *server, const TpsModelStep *step)
{
  const TpsUpdatingJob *job = step->job;
  gint64 now_ns = tps_clock_now_ns ();

  tps_metrics_record (server->metrics, STRAGGLER_METRIC, "update_straggler",
                      (gdouble) (job->closed_ns - job->started_ns) / 1e6);
  tps_metrics_record (server->metrics, BATCH_METRIC, "update_batch",
                      (gdouble) (now_ns - job->started_ns) / 1e6);
  tps_metrics_record (server->metrics, "method_metric", "update computation",
                      (gdouble) (now_ns - step->started_ns) / 1e6);
}

/* Makes the new version the newest version and the last answer to the trainers of the round.
 * Versions that are no longer kept are moved to `dropped`, so that they are freed without the lock.
 * Returns the command of the update; NULL if there was a reset meanwhile. The lock must be held. */
static TpsModelCommand *
install (TpsModelServer *server, TpsModelStep *step, GPtrArray *dropped)
{
  gboolean is_current = server->model == step->model;
  TpsModelVersion *newest;

  tps_model_update_end (&step->arithmetic);
  if (!is_current)
    return NULL;
  newest = tps_trained_model_get_newest (server->model);
  tps_kept_versions_add (&server->kept, newest, step->job->trainers, step->job->n_took_part,
                         dropped);
  record_spans (server, step);
  tps_counter_add (server->numbers.completed, 1);
  tps_update_news_add_update (&server->news, newest->version, step->job->n_took_part);
  return tps_model_command_admit_update (server, step->job, newest->n_parameters);
}

/* Gives the newest model to all calls that are answered without an error. The lock must be held. */
static void
give_model (TpsModelServer *server, TpsUpdateTicket *answered)
{
  for (TpsUpdateTicket *ticket = answered; ticket != NULL; ticket = ticket->next)
    if (ticket->error == NULL)
      {
        TpsModelCall *call = tps_model_call_of (ticket);

        call->model = tps_model_version_ref (tps_trained_model_get_newest (server->model));
        call->lsn = server->lsn;
      }
}

/* Computes the missing digests from the hashes of the blocks. All blocks must have been run. */
static void
mark_gradients (TpsModelStep *step)
{
  const TpsUpdatingJob *job = step->job;

  for (guint i = 0; i < job->n_took_part; i++)
    if (step->arithmetic.hashes[i] != NULL)
      job->marks[i].digest = tps_update_digest_combine (
          job->trainers[i], job->marks[i].version, job->gradients[i],
          step->arithmetic.version->n_parameters, step->arithmetic.hashes[i]);
}

/* Passes a complete or failed update back to the machine, and frees `step`. Sets `command` to the
 * command of the update, or NULL. Returns the update that is due next, or NULL. */
static TpsModelStep *
finish_update (TpsModelStep *step, TpsUpdatingOutput *output, TpsModelCommand **command)
{
  TpsModelServer *server = step->server;
  g_autoptr (GPtrArray)
      dropped = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_model_version_unref);
  TpsModelStep *next;

  *command = NULL;
  if (step->error == NULL)
    mark_gradients (step);
  tps_updating_output_init (output);
  tps_mutex_lock (&server->shell.lock);
  if (step->error == NULL)
    *command = install (server, step, dropped);
  tps_model_server_take_wanted (server); /* no update is in progress here */
  tps_updating_job_done (server->updating, step->job, g_steal_pointer (&step->error),
                         tps_clock_now_ns (), output);
  give_model (server, output->answered);
  if (*command != NULL)
    tps_model_command_take_answered (*command, output);
  next = tps_model_step_begin (server, output);
  tps_mutex_unlock (&server->shell.lock);
  tps_trained_model_unref (step->model);
  g_free (step);
  return next;
}

static void carry_out (TpsModelServer *server, TpsUpdatingOutput *output, TpsModelCommand *command,
                       TpsModelStep *step);

static void
blocks_done (gpointer user_data)
{
  TpsModelStep *step = user_data;
  TpsModelServer *server = step->server;
  TpsUpdatingOutput output;
  TpsModelCommand *command;
  TpsModelStep *next = finish_update (step, &output, &command);

  carry_out (server, &output, command, next);
  tps_shell_end (&server->shell);
}

/* Begins to compute an update. Returns TRUE if the update is complete or has failed, and FALSE if
 * workers continue it. */
static gboolean
compute (TpsModelServer *server, TpsModelStep *step)
{
  const TpsUpdatingJob *job = step->job;
  guint n_threads = tps_trained_model_get_n_threads (step->model, server->workers);

  step->started_ns = tps_clock_now_ns ();
  if (!tps_model_update_begin (&step->arithmetic, step->model, job->gradients, job->n_took_part,
                               n_threads, &step->error))
    return TRUE;
  for (guint i = 0; i < job->n_took_part; i++)
    if (!job->marks[i].has_digest)
      tps_model_update_want_hashes (&step->arithmetic, i);
  return tps_model_update_compute (&step->arithmetic, server->workers, blocks_done, step);
}

void
tps_model_step_answer (TpsUpdateTicket *first)
{
  TpsAnswers answers = { NULL, NULL };

  for (TpsUpdateTicket *ticket = first; ticket != NULL; ticket = ticket->next)
    tps_answers_add (&answers, &tps_model_call_of (ticket)->answer, tps_model_call_answer);
  tps_answers_give (&answers);
}

/* Carries out all actions of a step of the machine, and all actions that follow from them.
 * `command` is the command of the update that has just ended, or NULL. No lock may be held. */
static void
carry_out (TpsModelServer *server, TpsUpdatingOutput *output, TpsModelCommand *command,
           TpsModelStep *step)
{
  for (;;)
    {
      TpsUpdateTicket *answered = output->answered;

      tps_update_news_tell (&server->news);
      /* Must precede the replies, because it releases shared memory. */
      tps_updating_output_clear (output);
      tps_model_step_answer (answered);
      if (command != NULL)
        tps_model_command_finish (command);
      if (step == NULL || !compute (server, step))
        return;
      step = finish_update (step, output, &command);
      tps_shell_end (&server->shell);
    }
}

void
tps_model_step_carry_out (TpsModelServer *server, TpsUpdatingOutput *output, TpsModelStep *step)
{
  carry_out (server, output, NULL, step);
}

void
tps_model_step_expire (gpointer user_data)
{
  TpsModelServer *server = user_data;
  TpsUpdatingOutput output;
  TpsModelStep *step;

  tps_updating_output_init (&output);
  tps_mutex_lock (&server->shell.lock);
  tps_updating_expire (server->updating, tps_clock_now_ns (), &output);
  step = tps_model_step_begin (server, &output);
  tps_mutex_unlock (&server->shell.lock);
  tps_model_step_carry_out (server, &output, step);
}
