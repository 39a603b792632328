/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/model/kept_versions.h"

#include <string.h>

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
find (TpsKeptVersions *versions, gint64 version)
{
  for (guint i = 0; i < versions->n_kept; i++)
    if (versions->kept[i].model->version == version)
      return &versions->kept[i];
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

/* Removes the trainer from the version that was its last answer. Drops the version if it was the
 * last answer to no other trainer. */
static void
leave_last_answer (TpsKeptVersions *versions, gint32 trainer, GPtrArray *dropped)
{
  TpsKeptVersion *last = find (versions, versions->last_answers[trainer]);

  if (last != NULL && --last->n_trainers == 0)
    drop (versions, last, dropped);
}

void
tps_kept_versions_add (TpsKeptVersions *versions, TpsModelVersion *model, const gint32 *trainers,
                       guint n_trainers, GPtrArray *dropped)
{
  for (guint i = 0; i < n_trainers; i++)
    {
      leave_last_answer (versions, trainers[i], dropped);
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
  for (guint i = 0; i < versions->n_kept; i++)
    if (versions->kept[i].model->version == version)
      return versions->kept[i].model;
  return NULL;
}
