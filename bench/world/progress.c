/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/world/progress.h"

void
tps_progress_init (TpsProgress *progress, const gchar *title, guint steps_per_epoch, guint epochs)
{
  *progress = (TpsProgress) { .title = title,
                              .steps_per_epoch = steps_per_epoch,
                              .epochs = epochs };
  tps_status_line_init (&progress->line);
}

void
tps_progress_show (TpsProgress *progress, const TpsTrainStatus *status)
{
  gint64 epoch = status->steps_done / MAX (progress->steps_per_epoch, 1);
  g_autoptr (GString) text = NULL;

  if (!tps_status_line_is_due (&progress->line))
    return;
  text = g_string_new (NULL);
  g_string_printf (
      text, "%s: epoch %" G_GINT64_FORMAT " of %u, step %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT,
      progress->title, MIN (epoch + 1, progress->epochs), progress->epochs, status->steps_done,
      status->steps_total);
  if (status->has_loss)
    g_string_append_printf (text, ", loss %.4f", status->loss);
  tps_status_line_show (&progress->line, text->str);
}

void
tps_progress_end (TpsProgress *progress)
{
  tps_status_line_end (&progress->line);
}
