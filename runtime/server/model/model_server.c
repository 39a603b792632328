/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Setting and reading the model, and the beginning and end of the server. The overview is in
 * model_server_private.h. */

#include "runtime/server/model/model_server.h"

#include "runtime/base/error.h"
#include "runtime/server/model/model_server_private.h"

#define MAX_TRAINERS (1024 * 1024)
#define DEFAULT_ROUND_TIMEOUT_NS (G_GINT64_CONSTANT (30) * 1000000000)

/* The error has a retry delay, because the server may be started again. */
GError *
tps_model_server_new_shut_down_error (void)
{
  GError *error = g_error_new_literal (TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                                       "the parameter server is shut down");

  tps_error_set_retry_after_ms (error, TPS_RETRY_AFTER_MS);
  return error;
}

GError *
tps_model_server_new_reset_error (void)
{
  return g_error_new_literal (TPS_ERROR, TPS_ERROR_ABORTED,
                              "the parameter server's state was reset");
}

/* ---- the model ---- */

/* Sets the model, and takes ownership of `model`. Returns when the record is durable. The lock of
 * init_model() must be held: a second call would find the model, but must not be answered before
 * the record of the first call is durable. */
static gboolean
set_model (TpsModelServer *server, TpsTrainedModel *model, GError **error)
{
  GError *refusal = NULL;
  TpsModelCommand *command = NULL;

  tps_mutex_lock (&server->shell.lock);
  if (server->shell.is_shut_down)
    refusal = tps_model_server_new_shut_down_error ();
  else if (server->model == NULL)
    {
      const TpsModelVersion *first = tps_trained_model_get_newest (model);

      tps_updating_set_model (server->updating, first->parameters, first->n_parameters);
      command = tps_model_command_admit_init (server, model);
      server->incarnation = server->lsn;
      server->model = g_steal_pointer (&model);
    }
  else if (!tps_trained_model_began_as (server->model, model))
    refusal = g_error_new_literal (
        TPS_ERROR, TPS_ERROR_ALREADY_EXISTS,
        "a model with other initial parameters or another optimizer already exists");
  tps_mutex_unlock (&server->shell.lock);
  if (command != NULL && !tps_model_command_finish_and_wait (command, &refusal))
    g_assert (refusal != NULL);
  if (model != NULL)
    tps_trained_model_unref (model);
  if (refusal == NULL)
    return TRUE;
  g_propagate_error (error, refusal);
  return FALSE;
}

static gsize
count_bytes (const TpsNamedTensor *parameters, guint n_parameters)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < n_parameters; i++)
    n_bytes += tps_shape_n_bytes (&parameters[i].tensor.shape);
  return n_bytes;
}

gboolean
tps_model_server_init_model (TpsModelServer *server, TpsNamedTensor *parameters, guint n_parameters,
                             const TpsOptimizerSpec *optimizer, GError **error)
{
  TpsTrainedModel *model = NULL;
  gboolean ok;

  if (tps_sequencer_may_admit (server->sequencer, count_bytes (parameters, n_parameters), error))
    model = tps_trained_model_new (parameters, n_parameters, optimizer, server->options.buffers,
                                   error);
  for (guint i = 0; i < n_parameters; i++)
    tps_named_tensor_clear (&parameters[i]);
  if (model == NULL)
    return FALSE;
  tps_trained_model_set_shared_versions (model, server->options.shared_versions);
  tps_mutex_lock (&server->init_lock);
  ok = set_model (server, model, error);
  tps_mutex_unlock (&server->init_lock);
  return ok;
}

TpsModelVersion *
tps_model_server_get_model (TpsModelServer *server, GError **error)
{
  TpsModelVersion *model = NULL;
  GError *refusal = NULL;

  tps_mutex_lock (&server->shell.lock);
  if (server->shell.is_shut_down)
    refusal = tps_model_server_new_shut_down_error ();
  else if (server->model == NULL)
    refusal = tps_updating_new_no_model_error ();
  else
    model = tps_model_version_ref (tps_trained_model_get_newest (server->model));
  tps_mutex_unlock (&server->shell.lock);
  if (refusal != NULL)
    g_propagate_error (error, refusal);
  return model;
}

/* ---- captures ---- */

/* Captures the state, if there is a model. Returns FALSE if the spare in `capture->state` is too
 * small for the optimizer's state. The lock must be held, and no update may be in progress. */
static gboolean
take_capture (TpsModelServer *server, TpsModelCapture *capture)
{
  capture->lsn = server->lsn;
  if (server->model == NULL)
    {
      g_clear_pointer (&capture->state, tps_buffer_unref);
      return TRUE;
    }
  capture->incarnation = server->incarnation;
  return tps_model_capture_take (capture, server->model, &server->kept, server->options.n_trainers);
}

void
tps_model_server_take_wanted (TpsModelServer *server)
{
  if (server->wanted == NULL)
    return;
  if (!take_capture (server, server->wanted))
    server->wanted->lsn = -1; /* the spare is too small */
  server->wanted = NULL;
  tps_cond_broadcast (&server->captured);
}

/* Returns the present size of the optimizer's state. A different model may be captured later. */
static gsize
get_state_bytes (TpsModelServer *server)
{
  gsize n_floats = 0;

  tps_mutex_lock (&server->shell.lock);
  if (server->model != NULL)
    tps_trained_model_get_state (server->model, &n_floats);
  tps_mutex_unlock (&server->shell.lock);
  return n_floats * sizeof (gfloat);
}

/* Waits for the end of the current update, if any, and captures the state. `capture->state` must
 * hold the spare. Returns FALSE if the spare is too small. */
static gboolean
wait_and_take (TpsModelServer *server, TpsModelCapture *capture)
{
  gboolean ok;

  tps_mutex_lock (&server->shell.lock);
  if (tps_updating_has_job (server->updating))
    {
      server->wanted = capture;
      while (server->wanted != NULL)
        tps_cond_wait (&server->captured, &server->shell.lock);
      ok = capture->lsn >= 0;
    }
  else
    ok = take_capture (server, capture);
  tps_mutex_unlock (&server->shell.lock);
  return ok;
}

gboolean
tps_model_server_capture (TpsModelServer *server, TpsModelCapture *capture, GError **error)
{
  for (;;)
    {
      gsize n_bytes = get_state_bytes (server);

      *capture = (TpsModelCapture) { .state = tps_buffer_pool_try_get (server->options.buffers,
                                                                       MAX (n_bytes, 1)) };
      if (capture->state == NULL)
        {
          g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                       "no memory for a copy of the optimizer's state: %" G_GSIZE_FORMAT " bytes",
                       n_bytes);
          return FALSE;
        }
      if (wait_and_take (server, capture))
        return TRUE;
      tps_buffer_unref (capture->state); /* there is another model now */
    }
}

void
tps_model_server_clear_capture (TpsModelServer *server, TpsModelCapture *capture)
{
  TpsTrainedModel *model = g_steal_pointer (&capture->model);

  tps_model_capture_clear (capture);
  if (model == NULL)
    return;
  tps_mutex_lock (&server->shell.lock);
  if (!tps_updating_has_job (server->updating)) /* an update may take the spare without the lock */
    tps_trained_model_drop_spare (model);
  tps_mutex_unlock (&server->shell.lock);
  tps_trained_model_unref (model);
}

gboolean
tps_model_server_restore (TpsModelServer *server, const TpsModelCapture *capture, GError **error)
{
  g_autoptr (GPtrArray)
      dropped = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_model_version_unref);
  const TpsModelVersion *newest;
  TpsTrainedModel *model;

  server->lsn = capture->lsn;
  if (capture->incarnation == 0)
    return TRUE;
  model = tps_model_capture_new_model (capture, server->options.buffers, error);
  if (model == NULL)
    return FALSE;
  tps_trained_model_set_shared_versions (model, server->options.shared_versions);
  newest = capture->versions[capture->n_versions - 1];
  tps_mutex_lock (&server->shell.lock);
  tps_updating_set_model (server->updating, newest->parameters, newest->n_parameters);
  tps_updating_set_version (server->updating, newest->version);
  tps_model_capture_keep_versions (capture, &server->kept, server->options.n_trainers, dropped);
  server->model = model;
  server->incarnation = capture->incarnation;
  tps_mutex_unlock (&server->shell.lock);
  return TRUE;
}

TpsPushWindow *
tps_model_server_get_pushes (TpsModelServer *server)
{
  return server->pushes;
}

/* ---- beginning and end ---- */

static gboolean
check_options (const TpsModelServerOptions *options, GError **error)
{
  if (options->n_trainers < 1 || options->n_trainers > MAX_TRAINERS)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%u trainers, expected 1 to %d",
                 options->n_trainers, MAX_TRAINERS);
  else if (options->min_trainers > options->n_trainers)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "min_trainers is %u, expected at most %u, the number of trainers",
                 options->min_trainers, options->n_trainers);
  else if (options->round_timeout_ns < 0)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "round timeout is %" G_GINT64_FORMAT " ns, expected 0 or more",
                 options->round_timeout_ns);
  else
    return TRUE;
  return FALSE;
}

TpsModelServer *
tps_model_server_new (const TpsModelServerOptions *options, GError **error)
{
  TpsUpdatingOptions rules = {
    .n_trainers = options->n_trainers,
    .min_trainers = options->min_trainers > 0 ? options->min_trainers : options->n_trainers,
    .round_timeout_ns = options->round_timeout_ns > 0 ? options->round_timeout_ns
                                                      : DEFAULT_ROUND_TIMEOUT_NS,
    .max_staleness = options->max_staleness,
  };
  TpsSequencerOptions own = { .workers = options->workers };
  TpsModelServer *server;

  if (!check_options (options, error))
    return NULL;
  server = g_new0 (TpsModelServer, 1);
  server->options = *options;
  server->options.buffers = tps_buffer_pool_ref (
      options->buffers != NULL ? options->buffers : tps_buffer_pool_get_default ());
  if (options->shared_versions != NULL)
    tps_buffer_pool_ref (options->shared_versions);
  server->workers = options->workers;
  server->metrics = options->metrics != NULL ? tps_metrics_ref (options->metrics)
                                             : tps_metrics_new (NULL, NULL);
  tps_round_numbers_init (&server->numbers, server->metrics, "updating");
  server->updating = tps_updating_new (&rules);
  tps_trainer_presence_init (&server->presence);
  tps_kept_versions_init (&server->kept, options->n_trainers);
  server->pushes = tps_push_window_new (&options->pushes);
  server->owns_sequencer = options->sequencer == NULL;
  server->sequencer = server->owns_sequencer ? tps_sequencer_new (&own) : options->sequencer;
  tps_update_news_init (&server->news, &server->options);
  tps_mutex_init (&server->init_lock);
  tps_cond_init (&server->captured);
  tps_shell_init (&server->shell, server->workers, tps_model_step_expire, server);
  return server;
}

/* Ends all waiting calls and forgets the model. If `is_end` is TRUE, also shuts the server down.
 * Otherwise returns the command of the reset; NULL = there was no model. */
static TpsModelCommand *
end_all (TpsModelServer *server, const GError *error, gboolean is_end)
{
  g_autoptr (GPtrArray)
      dropped = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_model_version_unref);
  TpsUpdatingOutput output;
  TpsTrainedModel *model;
  TpsModelCommand *command = NULL;

  tps_updating_output_init (&output);
  tps_mutex_lock (&server->shell.lock);
  tps_updating_end_all (server->updating, error, &output);
  tps_trainer_presence_reset (&server->presence);
  tps_kept_versions_reset (&server->kept, server->options.n_trainers, dropped);
  model = g_steal_pointer (&server->model);
  if (model != NULL && !is_end)
    command = tps_model_command_admit_reset (server);
  server->incarnation = 0;
  if (is_end)
    tps_shell_shut_down (&server->shell);
  else if (!server->shell.is_shut_down)
    tps_metrics_clear (server->metrics);
  tps_mutex_unlock (&server->shell.lock);
  tps_model_step_carry_out (server, &output, NULL);
  g_clear_pointer (&model, tps_trained_model_unref);
  return command;
}

gboolean
tps_model_server_reset_state (TpsModelServer *server, GError **error)
{
  g_autoptr (GError) answer = tps_model_server_new_reset_error ();
  TpsModelCommand *command;

  if (!tps_sequencer_may_admit (server->sequencer, 0, error))
    return FALSE;
  command = end_all (server, answer, FALSE);
  return command == NULL || tps_model_command_finish_and_wait (command, error);
}

void
tps_model_server_get_status (TpsModelServer *server, TpsUpdatingStatus *status)
{
  tps_mutex_lock (&server->shell.lock);
  tps_updating_get_status (server->updating, tps_clock_now_ns (), status);
  tps_mutex_unlock (&server->shell.lock);
}

void
tps_model_server_shut_down (TpsModelServer *server)
{
  g_autoptr (GError) error = tps_model_server_new_shut_down_error ();

  end_all (server, error, TRUE);
}

void
tps_model_server_free (TpsModelServer *server)
{
  tps_model_server_shut_down (server);
  tps_shell_drain (&server->shell);
  tps_updating_free (server->updating);
  tps_trainer_presence_clear (&server->presence);
  tps_kept_versions_clear (&server->kept);
  tps_push_window_free (server->pushes);
  if (server->owns_sequencer)
    tps_sequencer_free (server->sequencer);
  tps_update_news_clear (&server->news);
  tps_metrics_unref (server->metrics);
  tps_buffer_pool_unref (server->options.buffers);
  g_clear_pointer (&server->options.shared_versions, tps_buffer_pool_unref);
  tps_shell_clear (&server->shell);
  tps_mutex_clear (&server->init_lock);
  tps_cond_clear (&server->captured);
  g_free (server);
}
