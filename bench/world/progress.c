/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/world/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "runtime/sync.h"

#define TERMINAL_INTERVAL_NS G_GINT64_CONSTANT (200000000)
#define FILE_INTERVAL_NS G_GINT64_CONSTANT (5000000000)

static gint64
interval (const TpsProgress *progress)
{
  return progress->is_terminal ? TERMINAL_INTERVAL_NS : FILE_INTERVAL_NS;
}

void
tps_progress_init (TpsProgress *progress, const gchar *title, guint steps_per_epoch, guint epochs)
{
  *progress = (TpsProgress) { .title = title,
                              .steps_per_epoch = steps_per_epoch,
                              .epochs = epochs,
                              .is_terminal = isatty (STDERR_FILENO) };
  progress->next_ns = tps_clock_now_ns () + interval (progress);
}

void
tps_progress_show (TpsProgress *progress, const TpsTrainStatus *status)
{
  gint64 now_ns = tps_clock_now_ns ();
  gint64 epoch = status->steps_done / MAX (progress->steps_per_epoch, 1);

  if (now_ns < progress->next_ns)
    return;
  progress->next_ns = now_ns + interval (progress);
  progress->shown = TRUE;
  fprintf (stderr,
           "%s%s: epoch %" G_GINT64_FORMAT " of %u, step %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT,
           progress->is_terminal ? "\r" : "", progress->title, MIN (epoch + 1, progress->epochs),
           progress->epochs, status->steps_done, status->steps_total);
  if (status->has_loss)
    fprintf (stderr, ", loss %.4f", status->loss);
  fputs (progress->is_terminal ? "\033[K" : "\n", stderr);
  fflush (stderr);
}

void
tps_progress_end (TpsProgress *progress)
{
  if (progress->shown && progress->is_terminal)
    fputs ("\r\033[K", stderr);
}
