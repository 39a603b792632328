/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/model/model_capture.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/server/model/model_server_private.h"

static gint
compare_versions (gconstpointer a, gconstpointer b)
{
  const TpsModelVersion *left = *(TpsModelVersion *const *) a;
  const TpsModelVersion *right = *(TpsModelVersion *const *) b;

  return (left->version > right->version) - (left->version < right->version);
}

static gboolean
has_version (const TpsModelCapture *capture, gint64 version)
{
  for (guint i = 0; i < capture->n_versions; i++)
    if (capture->versions[i]->version == version)
      return TRUE;
  return FALSE;
}

static void
add_version (TpsModelCapture *capture, TpsModelVersion *version)
{
  if (!has_version (capture, version->version))
    capture->versions[capture->n_versions++] = tps_model_version_ref (version);
}

static void
add_answers (TpsModelCapture *capture, const TpsModelServer *server)
{
  capture->answers = g_array_new (FALSE, FALSE, sizeof (TpsModelAnswer));
  for (guint i = 0; i < server->options.n_trainers; i++)
    {
      TpsModelAnswer answer = { i, server->kept.last_answers[i] };

      if (tps_kept_versions_find (&server->kept, answer.version) != NULL)
        g_array_append_val (capture->answers, answer);
    }
}

/* Captures the state. Takes ownership of `spare`, the buffer in which the next update will write
 * its copy of the optimizer's state. The buffer must be at least as large as this state. The lock
 * must be held, and no update may be in progress. */
static void
take (TpsModelServer *server, TpsModelCapture *capture, TpsBuffer *spare)
{
  TpsTrainedModel *model = server->model;

  capture->incarnation = server->incarnation;
  capture->optimizer = *tps_trained_model_get_optimizer (model);
  capture->beginning = *tps_trained_model_get_beginning (model);
  for (guint i = 0; i < server->kept.n_kept; i++)
    add_version (capture, server->kept.kept[i].model);
  add_version (capture, tps_trained_model_get_newest (model));
  qsort (capture->versions, capture->n_versions, sizeof capture->versions[0], compare_versions);
  add_answers (capture, server);
  capture->state = tps_trained_model_share_state (model, spare);
  capture->model = tps_trained_model_ref (model);
}

/* Captures the state, if there is a model. Returns FALSE if the spare in `capture->state` is too
 * small for the optimizer's state. The lock must be held. */
static gboolean
try_take (TpsModelServer *server, TpsModelCapture *capture)
{
  TpsBuffer *spare = capture->state;
  gsize n_floats;

  capture->lsn = server->lsn;
  if (server->model == NULL)
    {
      g_clear_pointer (&capture->state, tps_buffer_unref);
      return TRUE;
    }
  tps_trained_model_get_state (server->model, &n_floats);
  if (spare == NULL || tps_buffer_get_size (spare) < n_floats * sizeof (gfloat))
    return FALSE;
  take (server, capture, spare);
  return TRUE;
}

void
tps_model_capture_take (TpsModelServer *server)
{
  if (server->wanted == NULL)
    return;
  if (!try_take (server, server->wanted))
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
    ok = try_take (server, capture);
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

static void
drop_spare (TpsModelServer *server, TpsTrainedModel *model)
{
  tps_mutex_lock (&server->shell.lock);
  if (!tps_updating_has_job (server->updating)) /* an update may take the spare without the lock */
    tps_trained_model_drop_spare (model);
  tps_mutex_unlock (&server->shell.lock);
}

void
tps_model_capture_clear (TpsModelServer *server, TpsModelCapture *capture)
{
  for (guint i = 0; i < capture->n_versions; i++)
    tps_model_version_unref (capture->versions[i]);
  g_clear_pointer (&capture->state, tps_buffer_unref);
  g_clear_pointer (&capture->answers, g_array_unref);
  if (capture->model != NULL)
    {
      drop_spare (server, capture->model);
      tps_trained_model_unref (capture->model);
    }
  *capture = (TpsModelCapture) { 0 };
}

/* ---- restoring ------------------------------------------------------------------------------- */

/* Adds the captured versions to the kept versions, in ascending order. Each version is the last
 * answer to its trainers. The lock must be held. */
static void
keep_versions (TpsModelServer *server, const TpsModelCapture *capture, GPtrArray *dropped)
{
  g_autofree gint32 *trainers = g_new (gint32, capture->answers->len + 1);

  for (guint v = 0; v < capture->n_versions; v++)
    {
      guint n = 0;

      for (guint i = 0; i < capture->answers->len; i++)
        {
          TpsModelAnswer answer = g_array_index (capture->answers, TpsModelAnswer, i);

          if (answer.version == capture->versions[v]->version
              && answer.trainer < server->options.n_trainers)
            trainers[n++] = (gint32) answer.trainer;
        }
      if (n > 0)
        tps_kept_versions_add (&server->kept, capture->versions[v], trainers, n, dropped);
    }
}

static void
install (TpsModelServer *server, const TpsModelCapture *capture, TpsTrainedModel *model)
{
  g_autoptr (GPtrArray)
      dropped = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_model_version_unref);
  const TpsModelVersion *newest = capture->versions[capture->n_versions - 1];

  tps_mutex_lock (&server->shell.lock);
  tps_updating_set_model (server->updating, newest->parameters, newest->n_parameters);
  tps_updating_set_version (server->updating, newest->version);
  keep_versions (server, capture, dropped);
  server->model = model;
  server->incarnation = capture->incarnation;
  tps_mutex_unlock (&server->shell.lock);
}

gboolean
tps_model_server_restore (TpsModelServer *server, const TpsModelCapture *capture, GError **error)
{
  TpsTrainedModel *model;
  gfloat *state;
  gsize n_floats;

  server->lsn = capture->lsn;
  if (capture->incarnation == 0)
    return TRUE;
  model = tps_trained_model_new_restored (capture->versions[capture->n_versions - 1],
                                          &capture->optimizer, &capture->beginning,
                                          server->options.buffers, error);
  if (model == NULL)
    return FALSE;
  tps_trained_model_set_shared_versions (model, server->options.shared_versions);
  state = tps_trained_model_get_state (model, &n_floats);
  if (tps_buffer_get_size (capture->state) < n_floats * sizeof (gfloat))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "the optimizer's state has %" G_GSIZE_FORMAT " bytes, the model needs "
                   "%" G_GSIZE_FORMAT,
                   tps_buffer_get_size (capture->state), n_floats * sizeof (gfloat));
      tps_trained_model_unref (model);
      return FALSE;
    }
  memcpy (state, tps_buffer_get_data (capture->state), n_floats * sizeof (gfloat));
  install (server, capture, model);
  return TRUE;
}

TpsPushWindow *
tps_model_server_get_pushes (TpsModelServer *server)
{
  return server->pushes;
}
