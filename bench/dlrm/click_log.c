/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/click_log.h"

gboolean
tps_click_log_init (TpsClickLog *log, const TpsSyntheticLog *synthetic, const gchar *path,
                    GError **error)
{
  *log = (TpsClickLog) { .synthetic = *synthetic };
  if (path != NULL)
    log->file = tps_criteo_log_open (path, &synthetic->shape, error);
  return path == NULL || log->file != NULL;
}

void
tps_click_log_clear (TpsClickLog *log)
{
  g_clear_pointer (&log->file, tps_criteo_log_free);
}

gboolean
tps_click_log_read (TpsClickLog *log, guint64 first, TpsClickBatch *batch, GError **error)
{
  if (log->file == NULL)
    {
      tps_synthetic_log_fill (&log->synthetic, first, batch);
      return TRUE;
    }
  g_assert (first >= log->position);
  if (!tps_criteo_log_skip (log->file, first - log->position, error)
      || !tps_criteo_log_read (log->file, batch, error))
    return FALSE;
  log->position = first + batch->n_samples;
  return TRUE;
}
