/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/model/model_capture.h"

#include <string.h>

#include "runtime/base/error.h"

/* -- kept versions -- */

void
tps_kept_versions_init (TpsKeptVersions *versions, guint n_trainers)
{
  *versions = (TpsKeptVersions) { .last_answers = g_new0 (gint64, n_trainers) };
}

void
tps_kept_versions_clear (TpsKeptVersions *versions)
{
  for (guint i = 0; i < versions->n_kept; i++)
    tps_model_version_unref (versions->kept[i].model);
  versions->n_kept = 0;
  g_clear_pointer (&versions->last_answers, g_free);
}

static TpsKeptVersion *
find (const TpsKeptVersions *versions, gint64 version)
{
  for (guint i = 0; i < versions->n_kept; i++)
    if (versions->kept[i].model->version == version)
      return (TpsKeptVersion *) (guintptr) &versions->kept[i];
  return NULL;
}

static void
drop (TpsKeptVersions *versions, TpsKeptVersion *kept, GPtrArray *dropped)
{
  guint i = (guint) (kept - versions->kept);

  g_ptr_array_add (dropped, kept->model);
  versions->n_kept--;
  memmove (kept, kept + 1, (versions->n_kept - i) * sizeof *kept);
}

void
tps_kept_versions_add (TpsKeptVersions *versions, TpsModelVersion *model, const gint32 *trainers,
                       guint n_trainers, GPtrArray *dropped)
{
  for (guint i = 0; i < n_trainers; i++)
    {
      TpsKeptVersion *last = find (versions, versions->last_answers[trainers[i]]);

      if (last != NULL && --last->n_trainers == 0)
        drop (versions, last, dropped);
      versions->last_answers[trainers[i]] = model->version;
    }
  versions->kept[versions->n_kept++] = (TpsKeptVersion) {
    .model = tps_model_version_ref (model),
    .n_trainers = n_trainers,
  };
  if (versions->n_kept > TPS_MAX_KEPT_VERSIONS)
    drop (versions, &versions->kept[0], dropped);
}

void
tps_kept_versions_reset (TpsKeptVersions *versions, guint n_trainers, GPtrArray *dropped)
{
  while (versions->n_kept > 0)
    drop (versions, &versions->kept[versions->n_kept - 1], dropped);
  memset (versions->last_answers, 0, n_trainers * sizeof *versions->last_answers);
}

TpsModelVersion *
tps_kept_versions_find (const TpsKeptVersions *versions, gint64 version)
{
  const TpsKeptVersion *kept = find (versions, version);

  return kept != NULL ? kept->model : NULL;
}

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
  capture->optimizer = model->optimizer;
  capture->beginning = model->beginning;
  for (guint i = 0; i < kept->n_kept; i++)
    add_version (capture, kept->kept[i].model);
  add_version (capture, model->newest);
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
