/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/log_stage.h"

#include "runtime/base/planted_bug.h"
static gsize
pad (gsize n_bytes)
{
  return (n_bytes + TPS_DISK_BLOCK - 1) & ~(gsize) (TPS_DISK_BLOCK - 1);
}

void
tps_log_stage_empty (TpsLogStage *stage)
{
  g_array_set_size (stage->waiting, 0);
  stage->n_used = TPS_LOG_GROUP_HEADER;
  stage->n_records = 0;
  stage->is_full = FALSE;
  stage->is_urgent = FALSE;
  stage->write_ns = G_MAXINT64;
  stage->due_ns = G_MAXINT64;
  stage->has_held = FALSE;
  stage->large = NULL;
}

void
tps_log_stage_init (TpsLogStage *stage, gsize capacity)
{
  *stage = (TpsLogStage) { .data = g_aligned_alloc (1, capacity, TPS_DISK_BLOCK),
                           .capacity = capacity,
                           .waiting = g_array_new (FALSE, FALSE, sizeof (TpsLogEntry)) };
  tps_log_stage_empty (stage);
}

void
tps_log_stage_clear (TpsLogStage *stage)
{
  g_array_unref (stage->waiting);
  g_aligned_free (stage->data);
}

gboolean
tps_log_stage_is_empty (const TpsLogStage *stage)
{
  return stage->n_records == 0 && stage->waiting->len == 0;
}

gint64
tps_log_stage_get_bytes (const TpsLogStage *stage)
{
  if (stage->n_records == 0)
    return 0;
  return stage->large != NULL ? stage->large_bytes : (gint64) pad (stage->n_used);
}

/* Adds the record of an entry. FALSE: the stage is not empty, and has no room for this record. */
static gboolean
add_record (TpsLogStage *stage, const TpsLogEntry *entry)
{
  gsize n_bytes;

  tps_record_plan_set (&stage->plan, entry->command, entry->durability != TPS_DURABILITY_NONE);
  n_bytes = stage->plan.n_bytes;
  if (stage->large != NULL || (n_bytes > stage->capacity - stage->n_used && stage->n_records > 0))
    return FALSE;
  if (n_bytes > stage->capacity - stage->n_used)
    {
      stage->large = entry->command; /* encoded while it is written */
      stage->large_bytes = (gint64) pad (stage->n_used + n_bytes);
    }
  else
    {
      tps_record_encode (&stage->plan, stage->data + stage->n_used);
      stage->n_used += n_bytes;
    }
  if (stage->n_records++ == 0)
    stage->first_lsn = entry->lsn;
  stage->last_lsn = entry->lsn;
  return TRUE;
}

gboolean
tps_log_stage_add (TpsLogStage *stage, const TpsLogEntry *entry, const TpsLogInterval *interval,
                   gboolean *has_copied)
{
  *has_copied = FALSE;
  if (entry->command != NULL && !add_record (stage, entry))
    {
      stage->is_full = TRUE;
      return FALSE;
    }
  TPS_PLANT ("ack-when-staged", stage->is_urgent = *has_copied = TRUE; return TRUE);
  if (entry->command == NULL || entry->durability == TPS_DURABILITY_COMMIT || stage->large != NULL)
    {
      stage->is_urgent = TRUE;
      g_array_append_val (stage->waiting, *entry);
      return TRUE;
    }
  if (entry->durability == TPS_DURABILITY_INTERVAL)
    {
      stage->write_ns = MIN (stage->write_ns, interval->write_ns);
      stage->due_ns = MIN (stage->due_ns, interval->due_ns);
      if (interval->must_wait)
        {
          stage->has_held = TRUE;
          g_array_append_val (stage->waiting, *entry);
          return TRUE;
        }
    }
  *has_copied = TRUE;
  return TRUE;
}

void
tps_log_entries_end (const GArray *entries, gint64 lsn, const GError *error)
{
  for (guint i = 0; i < entries->len; i++)
    {
      const TpsLogEntry *entry = &g_array_index (entries, TpsLogEntry, i);

      entry->done (entry->user_data, entry->command != NULL ? entry->lsn : lsn, error);
    }
}
