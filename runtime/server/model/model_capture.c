/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/model/model_capture.h"

#include <string.h>

#include "runtime/base/error.h"

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
add_answers (TpsModelCapture *capture, const TpsKeptVersions *kept, guint n_trainers)
{
  capture->answers = g_array_new (FALSE, FALSE, sizeof (TpsModelAnswer));
  for (guint i = 0; i < n_trainers; i++)
    {
      TpsModelAnswer answer = { i, kept->last_answers[i] };

      if (tps_kept_versions_find (kept, answer.version) != NULL)
        g_array_append_val (capture->answers, answer);
    }
}

gboolean
tps_model_capture_take (TpsModelCapture *capture, TpsTrainedModel *model,
                        const TpsKeptVersions *kept, guint n_trainers)
{
  TpsBuffer *spare = capture->state;
  gsize n_floats;

  tps_trained_model_get_state (model, &n_floats);
  if (spare == NULL || tps_buffer_get_size (spare) < n_floats * sizeof (gfloat))
    return FALSE;
  capture->optimizer = *tps_trained_model_get_optimizer (model);
  capture->beginning = *tps_trained_model_get_beginning (model);
  for (guint i = 0; i < kept->n_kept; i++)
    add_version (capture, kept->kept[i].model);
  add_version (capture, tps_trained_model_get_newest (model));
  qsort (capture->versions, capture->n_versions, sizeof capture->versions[0], compare_versions);
  add_answers (capture, kept, n_trainers);
  capture->state = tps_trained_model_share_state (model, spare);
  capture->model = tps_trained_model_ref (model);
  return TRUE;
}

void
tps_model_capture_clear (TpsModelCapture *capture)
{
  for (guint i = 0; i < capture->n_versions; i++)
    tps_model_version_unref (capture->versions[i]);
  g_clear_pointer (&capture->state, tps_buffer_unref);
  g_clear_pointer (&capture->answers, g_array_unref);
  g_clear_pointer (&capture->model, tps_trained_model_unref);
  *capture = (TpsModelCapture) { 0 };
}

TpsTrainedModel *
tps_model_capture_new_model (const TpsModelCapture *capture, TpsBufferPool *buffers, GError **error)
{
  TpsTrainedModel *model;
  gfloat *state;
  gsize n_floats;

  model = tps_trained_model_new_restored (capture->versions[capture->n_versions - 1],
                                          &capture->optimizer, &capture->beginning, buffers, error);
  if (model == NULL)
    return NULL;
  state = tps_trained_model_get_state (model, &n_floats);
  if (tps_buffer_get_size (capture->state) < n_floats * sizeof (gfloat))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "the optimizer's state has %" G_GSIZE_FORMAT " bytes, the model needs "
                   "%" G_GSIZE_FORMAT,
                   tps_buffer_get_size (capture->state), n_floats * sizeof (gfloat));
      tps_trained_model_unref (model);
      return NULL;
    }
  memcpy (state, tps_buffer_get_data (capture->state), n_floats * sizeof (gfloat));
  return model;
}

void
tps_model_capture_keep_versions (const TpsModelCapture *capture, TpsKeptVersions *kept,
                                 guint n_trainers, GPtrArray *dropped)
{
  g_autofree gint32 *trainers = g_new (gint32, capture->answers->len + 1);

  for (guint v = 0; v < capture->n_versions; v++)
    {
      guint n = 0;

      for (guint i = 0; i < capture->answers->len; i++)
        {
          TpsModelAnswer answer = g_array_index (capture->answers, TpsModelAnswer, i);

          if (answer.version == capture->versions[v]->version && answer.trainer < n_trainers)
            trainers[n++] = (gint32) answer.trainer;
        }
      if (n > 0)
        tps_kept_versions_add (kept, capture->versions[v], trainers, n, dropped);
    }
}
