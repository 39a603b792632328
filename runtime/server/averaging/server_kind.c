/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/averaging/server_kind.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define MAX_KINDS 64

#define STRAGGLER_METRIC "parameter_server_straggler_metric"
#define BATCH_METRIC "parameter_server_batch_metric"

/* A round needs the memory of one gradient if the trainers arrive in order. */
static gboolean
fold_on_arrival (guint n_arrived, guint n_trainers)
{
  return TRUE;
}

/* A round needs the memory of all gradients. Each gradient is visited once, after the last gradient
 * has arrived. */
static gboolean
fold_at_the_end (guint n_arrived, guint n_trainers)
{
  return n_arrived == n_trainers;
}

static const TpsServerKind eager_kind = {
  .name = "AverageParameterServer",
  .summary = "adds each gradient to a running sum when it arrives",
  .may_fold = fold_on_arrival,
};

static const TpsServerKind batch_kind = {
  .name = "AverageBatchParameterServer",
  .summary = "keeps all gradients and adds them up when the last one has arrived",
  .may_fold = fold_at_the_end,
};

static TpsMutex lock = TPS_MUTEX_INIT; /* guards everything below */
static const TpsServerKind *kinds[MAX_KINDS] = { &eager_kind, &batch_kind };
static guint n_kinds = 2;

/* The lock must be held. */
static const TpsServerKind *
find_locked (const gchar *name)
{
  for (guint i = 0; i < n_kinds; i++)
    if (g_str_equal (kinds[i]->name, name))
      return kinds[i];
  return NULL;
}

const TpsServerKind **
tps_server_kind_list (void)
{
  const TpsServerKind **list = g_new0 (const TpsServerKind *, MAX_KINDS + 1);

  TPS_LOCK_SCOPE (&lock);
  memcpy (list, kinds, n_kinds * sizeof kinds[0]);
  return list;
}

const TpsServerKind *
tps_server_kind_find (const gchar *name, GError **error)
{
  const TpsServerKind *kind;
  g_autoptr (GString) known = NULL;

  if (name == NULL)
    name = TPS_SERVER_KIND_DEFAULT;
  TPS_LOCK_SCOPE (&lock);
  kind = find_locked (name);
  if (kind != NULL)
    return kind;
  known = g_string_new (NULL);
  for (guint i = 0; i < n_kinds; i++)
    g_string_append_printf (known, "%s%s", i > 0 ? ", " : "", kinds[i]->name);
  return tps_fail_null (error, TPS_ERROR_NOT_FOUND, "unknown server \"%s\"; known: %s", name,
                        known->str);
}

gboolean
tps_server_kind_register (const TpsServerKind *kind, GError **error)
{
  TPS_LOCK_SCOPE (&lock);
  if (find_locked (kind->name) != NULL)
    return tps_fail (error, TPS_ERROR_ALREADY_EXISTS, "server \"%s\" is already registered",
                     kind->name);
  if (n_kinds == MAX_KINDS)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED, "server \"%s\": at most %d kinds",
                     kind->name, MAX_KINDS);
  kinds[n_kinds++] = kind;
  return TRUE;
}

/* Errors are ignored. If the metrics were cleared between start and end, there is no span to
 * end. */
void
tps_server_kind_record (TpsMetrics *metrics, TpsServerRecord record, const TpsRoundId *round)
{
  gchar key[32];

  g_snprintf (key, sizeof key, "%" G_GINT64_FORMAT ",%d", round->batch, round->param_loc);
  switch (record)
    {
    case TPS_RECORD_STRAGGLER_START:
      tps_metrics_record_start (metrics, STRAGGLER_METRIC, key, "param_index_straggler", NULL);
      break;
    case TPS_RECORD_BATCH_START:
      tps_metrics_record_start (metrics, BATCH_METRIC, key, "param_index_batch", NULL);
      break;
    case TPS_RECORD_STRAGGLER_END:
      tps_metrics_record_end (metrics, STRAGGLER_METRIC, key, NULL);
      break;
    case TPS_RECORD_BATCH_END:
      tps_metrics_record_end (metrics, BATCH_METRIC, key, NULL);
      break;
    }
}
