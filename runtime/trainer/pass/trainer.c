/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Runs passes, one at a time, each on a thread of its own.
 *
 * tps_trainer_train() checks and creates the pass on the caller's thread and sets the state to
 * RUNNING. The thread then runs the pass and sets a final state. start_lock serialises these calls,
 * so the second of two concurrent calls finds the pass of the first call. `lock` guards the marked
 * fields and is taken after start_lock. `lock` is held while a pass is cancelled, which keeps the
 * pass alive. The locks of the pass are taken last.
 */

#include "runtime/trainer/pass/trainer.h"

#include <string.h>

#include "runtime/trainer/pass/pass.h"
#include "runtime/trainer/pass/pass_plan.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/thread.h"
#include "runtime/base/trace.h"

static TpsTraceEvent pass_ended = TPS_TRACE_EVENT ("pass_ended", TPS_TRACE_INFO);
static TpsTraceEvent pass_failed = TPS_TRACE_EVENT ("pass_failed", TPS_TRACE_INFO);

struct TpsTrainer
{
  TpsTrainerLinks links;
  gchar *host;
  TpsMetrics *metrics;

  TpsMutex start_lock;
  gboolean has_thread;
  TpsThread thread;

  TpsMutex lock;
  /* Under the lock. */
  TpsTrainState state;
  gchar *pass_name;
  TpsPass *pass; /* the last pass, kept for its progress */
  GError *error;
};

TpsTrainer *
tps_trainer_new (const TpsTrainerLinks *links, TpsMetrics *metrics)
{
  TpsTrainer *trainer = g_new0 (TpsTrainer, 1);

  trainer->links = *links;
  trainer->host = g_strdup (links->host);
  trainer->links.host = trainer->host;
  trainer->metrics = tps_metrics_ref (metrics);
  trainer->state = TPS_TRAIN_IDLE;
  trainer->pass_name = g_strdup ("");
  tps_mutex_init (&trainer->start_lock);
  tps_mutex_init (&trainer->lock);
  return trainer;
}

/* Joins the thread of the last pass. Must be called with start_lock held, unless the trainer has no
 * other caller. */
static void
join_thread (TpsTrainer *trainer)
{
  if (!trainer->has_thread)
    return;
  tps_sync_check (pthread_join (trainer->thread, NULL));
  trainer->has_thread = FALSE;
}

void
tps_trainer_free (TpsTrainer *trainer)
{
  if (trainer == NULL)
    return;
  tps_trainer_cancel (trainer);
  join_thread (trainer);
  tps_pass_free (trainer->pass);
  g_clear_error (&trainer->error);
  g_free (trainer->pass_name);
  g_free (trainer->host);
  tps_metrics_unref (trainer->metrics);
  tps_mutex_clear (&trainer->lock);
  tps_mutex_clear (&trainer->start_lock);
  g_free (trainer);
}

/* Traces the end of a pass. `error` is NULL if the pass has succeeded. */
static void
trace_end (const TpsPass *pass, gboolean is_cancelled, const GError *error)
{
  tps_trace (error != NULL && !is_cancelled ? &pass_failed : &pass_ended,
             tps_field_text ("pass", pass->plan->pass_name),
             tps_field_uint ("rank", pass->plan->rank), tps_field_bool ("cancelled", is_cancelled),
             tps_field_text ("reason", error != NULL ? error->message : NULL));
}

static gpointer
run_pass (gpointer user_data)
{
  TpsTrainer *trainer = user_data;
  GError *error = NULL;
  TpsPass *pass;
  gboolean ok;

  tps_mutex_lock (&trainer->lock);
  pass = trainer->pass;
  tps_mutex_unlock (&trainer->lock);
  ok = tps_pass_run (pass, &error);
  trace_end (pass, !ok && tps_pass_is_cancelled (pass), error);

  tps_mutex_lock (&trainer->lock);
  if (ok)
    trainer->state = TPS_TRAIN_SUCCEEDED;
  else if (tps_pass_is_cancelled (pass))
    trainer->state = TPS_TRAIN_CANCELLED;
  else
    {
      trainer->state = TPS_TRAIN_FAILED;
      trainer->error = g_steal_pointer (&error);
    }
  tps_mutex_unlock (&trainer->lock);
  g_clear_error (&error);
  return NULL;
}

/* Must be called with the lock held. */
static void
set_running (TpsTrainer *trainer, TpsPass *pass)
{
  trainer->pass = pass;
  trainer->state = TPS_TRAIN_RUNNING;
  g_free (trainer->pass_name);
  trainer->pass_name = g_strdup (pass->plan->pass_name);
  g_clear_error (&trainer->error);
}

/* Starts the thread of a pass. Takes over the pass, even on error. Must be called with start_lock
 * held while no pass is running. */
static gboolean
start (TpsTrainer *trainer, TpsPass *pass, GError **error)
{
  GError *failure = NULL;
  TpsPass *previous;

  join_thread (trainer);
  tps_metrics_clear (trainer->metrics);
  tps_mutex_lock (&trainer->lock);
  previous = trainer->pass;
  set_running (trainer, pass);
  tps_mutex_unlock (&trainer->lock);
  tps_pass_free (previous);

  trainer->has_thread = tps_thread_start (&trainer->thread, "tps-trainer", run_pass, trainer,
                                          &failure);
  if (trainer->has_thread)
    return TRUE;
  g_prefix_error (&failure, "pass %s: ", trainer->pass_name);
  tps_mutex_lock (&trainer->lock);
  trainer->state = TPS_TRAIN_FAILED;
  trainer->error = failure;
  g_propagate_error (error, g_error_copy (trainer->error));
  tps_mutex_unlock (&trainer->lock);
  return FALSE;
}

static gboolean
check_idle (TpsTrainer *trainer, GError **error)
{
  gboolean is_running;

  TPS_LOCK_SCOPE (&trainer->lock);
  is_running = trainer->state == TPS_TRAIN_RUNNING;
  if (is_running)
    g_set_error (error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS, "pass %s is still running",
                 trainer->pass_name);
  return !is_running;
}

gboolean
tps_trainer_train (TpsTrainer *trainer, TpsTrainPlan *plan, GError **error)
{
  gboolean ok = FALSE;

  TPS_LOCK_SCOPE (&trainer->start_lock);
  if (!check_idle (trainer, error))
    tps_train_plan_free (plan);
  else
    {
      TpsPass *pass = tps_pass_new (plan, &trainer->links, trainer->metrics);

      if (tps_pass_resolve (pass, error))
        ok = start (trainer, pass, error);
      else
        tps_pass_free (pass);
    }
  return ok;
}

gboolean
tps_trainer_check_plan (TpsTrainPlan *plan, GError **error)
{
  const TpsTrainerLinks nowhere = { 0 };
  TpsMetrics *metrics = tps_metrics_new (NULL, NULL);
  TpsPass *pass = tps_pass_new (plan, &nowhere, metrics);
  gboolean ok;

  /* The author of the plan may have no device, so the check uses the CPU. */
  g_free (plan->device);
  plan->device = g_strdup ("cpu");
  ok = tps_pass_resolve (pass, error);
  tps_pass_free (pass);
  tps_metrics_unref (metrics);
  return ok;
}

void
tps_trainer_get_status (TpsTrainer *trainer, TpsTrainStatus *status)
{
  memset (status, 0, sizeof *status);
  TPS_LOCK_SCOPE (&trainer->lock);
  status->state = trainer->state;
  status->pass_name = g_strdup (trainer->pass_name);
  if (trainer->error != NULL)
    status->error = g_error_copy (trainer->error);
  if (trainer->pass != NULL)
    tps_pass_get_progress (trainer->pass, status);
}

void
tps_trainer_cancel (TpsTrainer *trainer)
{
  TPS_LOCK_SCOPE (&trainer->lock);
  if (trainer->state == TPS_TRAIN_RUNNING)
    tps_pass_cancel (trainer->pass);
}
