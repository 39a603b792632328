/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/training.h"

/* -- the push, started in the backward pass -- */

/* Called when the gradients of the features are ready. Waits until all trainers have their rows,
 * and then pushes. */
static void
on_features (gpointer user_data, gfloat *gradient, G_GNUC_UNUSED gsize rows)
{
  TpsDlrmTraining *training = user_data;

  if (tps_dlrm_meeting_wait (&training->meeting, &training->push_error))
    tps_dlrm_embeddings_push (&training->embeddings, training->batch, training->n_parts, gradient,
                              &training->push_error);
}

static void
on_passed (gpointer user_data)
{
  ((TpsDlrmTraining *) user_data)->passed_ns = tps_clock_now_ns ();
}

/* -- life -- */

gboolean
tps_dlrm_training_init (TpsDlrmTraining *training, const TpsDlrmOptions *options,
                        TpsTableClient *client, TpsProcessGroup *group, gboolean is_single,
                        GError **error)
{
  gsize n_parts = is_single ? (gsize) options->n_trainers : 1;
  gsize max_samples = n_parts * (gsize) options->batch;
  TpsDlrmWatch watch = { .features_ready = on_features,
                         .passed = on_passed,
                         .user_data = training };
  TpsSyntheticLog synthetic;

  *training = (TpsDlrmTraining) { .options = options,
                                  .first_part = is_single ? 0 : group->rank,
                                  .n_parts = n_parts };
  tps_dlrm_options_init_log (options, &synthetic);
  tps_dlrm_meeting_init (&training->meeting, group);
  if (!tps_dlrm_embeddings_init (&training->embeddings, client, options, max_samples,
                                 is_single || options->plain, error)
      || !tps_click_log_init (&training->log, &synthetic, options->data, error)
      || !tps_dlrm_dense_init (&training->dense, (gsize) options->dim, max_samples, options->seed,
                               options->lr, group, error))
    return FALSE;
  tps_dlrm_model_watch (training->dense.model, &watch);
  return TRUE;
}

void
tps_dlrm_training_clear (TpsDlrmTraining *training)
{
  tps_dlrm_embeddings_clear (&training->embeddings);
  tps_dlrm_dense_clear (&training->dense);
  tps_dlrm_meeting_clear (&training->meeting);
  tps_click_log_clear (&training->log);
  g_clear_error (&training->push_error);
}

/* -- steps -- */

static gboolean
is_exact (const TpsDlrmTraining *training)
{
  return training->options->staleness == 0;
}

static gdouble
get_ms (gint64 *from_ns, gint64 to_ns)
{
  gdouble ms = (gdouble) (to_ns - *from_ns) / 1e6;

  *from_ns = to_ns;
  return ms;
}

static void
keep_predictions (const TpsClickBatch *batch, const gfloat *logits, TpsDlrmPass *pass)
{
  for (gsize i = 0; i < batch->n_samples; i++)
    {
      TpsPrediction prediction = { .logit = (gdouble) logits[i],
                                   .label = (gdouble) batch->labels[i] };

      g_array_append_val (pass->predictions, prediction);
    }
}

static gboolean
run_backward (TpsDlrmTraining *training, GError **error)
{
  gboolean ok = tps_dlrm_dense_backward (&training->dense, error);

  if (training->push_error == NULL)
    return ok;
  if (ok)
    g_propagate_error (error, g_steal_pointer (&training->push_error));
  return FALSE;
}

/* Waits for the push. With the staleness bound 0, also waits for the pushes of all other
 * trainers. */
static gboolean
end_push (TpsDlrmTraining *training, GError **error)
{
  if (!tps_dlrm_embeddings_wait (&training->embeddings, error))
    return FALSE;
  if (!is_exact (training) || training->meeting.group->size == 1)
    return TRUE;
  if (training->embeddings.steps != NULL)
    return tps_dlrm_exchange_changes (&training->meeting, training->embeddings.steps,
                                      TPS_CLICK_TABLES, error);
  tps_dlrm_meeting_arrive (&training->meeting);
  return tps_dlrm_meeting_wait (&training->meeting, error);
}

/* Runs one step. `next` is the batch of the next step, whose lookup starts early; NULL = none. */
static gboolean
run_step (TpsDlrmTraining *training, const TpsClickBatch *batch, const TpsClickBatch *next,
          TpsDlrmPass *pass, GError **error)
{
  const TpsDlrmOptions *options = training->options;
  gdouble divisor = (gdouble) options->batch * options->n_trainers;
  gint64 start_ns = tps_clock_now_ns (), at_ns = start_ns;
  gdouble times[TPS_DLRM_N_PHASES];
  const gfloat *logits;
  gfloat *features;

  training->batch = batch;
  if (!tps_dlrm_model_reserve (training->dense.model, batch->n_samples, &features, error)
      || !tps_dlrm_embeddings_prefetch (&training->embeddings, batch, error))
    return FALSE;
  times[TPS_DLRM_IDS] = get_ms (&at_ns, tps_clock_now_ns ());
  if (!tps_dlrm_embeddings_take (&training->embeddings, batch, features, error))
    return FALSE;
  if (is_exact (training))
    tps_dlrm_meeting_arrive (&training->meeting);
  times[TPS_DLRM_LOOKUP] = get_ms (&at_ns, tps_clock_now_ns ());
  if (next != NULL && !tps_dlrm_embeddings_prefetch (&training->embeddings, next, error))
    return FALSE;
  times[TPS_DLRM_IDS] += get_ms (&at_ns, tps_clock_now_ns ());
  if (!tps_dlrm_dense_forward (&training->dense, batch, divisor, &logits, error))
    return FALSE;
  times[TPS_DLRM_FORWARD] = get_ms (&at_ns, tps_clock_now_ns ());
  if (!run_backward (training, error))
    return FALSE;
  times[TPS_DLRM_BACKWARD] = get_ms (&at_ns, training->passed_ns);
  times[TPS_DLRM_AVERAGE] = get_ms (&at_ns, tps_clock_now_ns ());
  if (!end_push (training, error))
    return FALSE;
  times[TPS_DLRM_PUSH] = get_ms (&at_ns, tps_clock_now_ns ());
  times[TPS_DLRM_STEP] = get_ms (&start_ns, at_ns);
  g_array_append_vals (pass->times, times, TPS_DLRM_N_PHASES);
  keep_predictions (batch, logits, pass);
  return TRUE;
}

/* -- passes -- */

static gboolean
read_batches (TpsDlrmTraining *training, guint64 first, guint n_steps, TpsClickBatch *batches,
              GError **error)
{
  const TpsDlrmOptions *options = training->options;
  guint64 batch = (guint64) options->batch, n_trainers = (guint64) options->n_trainers;

  for (guint i = 0; i < n_steps; i++)
    {
      guint64 sample = ((first + i) * n_trainers + training->first_part) * batch;

      tps_click_batch_init (&batches[i], &options->shape, training->n_parts * batch);
      if (!tps_click_log_read (&training->log, sample, &batches[i], error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
run_steps (TpsDlrmTraining *training, guint64 first, guint n_steps, TpsClickBatch *batches,
           TpsDlrmPass *pass, gdouble *seconds, GError **error)
{
  gint64 start_ns;

  if (!read_batches (training, first, n_steps, batches, error))
    return FALSE;
  tps_dlrm_meeting_arrive (&training->meeting);
  if (!tps_dlrm_meeting_wait (&training->meeting, error))
    return FALSE;
  start_ns = tps_clock_now_ns ();
  for (guint i = 0; i < n_steps; i++)
    {
      gboolean looks_ahead = !training->options->no_prefetch && i + 1 < n_steps;

      if (run_step (training, &batches[i], looks_ahead ? &batches[i + 1] : NULL, pass, error))
        continue;
      g_prefix_error (error, "step %" G_GUINT64_FORMAT ": ", first + i);
      return FALSE;
    }
  if (!tps_dlrm_embeddings_settle (&training->embeddings, error))
    return FALSE;
  *seconds = (gdouble) (tps_clock_now_ns () - start_ns) / 1e9;
  return TRUE;
}

gboolean
tps_dlrm_training_run (TpsDlrmTraining *training, guint64 first, guint n_steps, TpsDlrmPass *pass,
                       gdouble *seconds, GError **error)
{
  g_autofree TpsClickBatch *batches = g_new0 (TpsClickBatch, n_steps);
  gboolean ok = run_steps (training, first, n_steps, batches, pass, seconds, error);

  if (!ok) /* calls in flight borrow the batches */
    tps_dlrm_embeddings_clear (&training->embeddings);
  for (guint i = 0; i < n_steps; i++)
    tps_click_batch_clear (&batches[i]);
  return ok;
}
