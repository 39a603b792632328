/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One line on stderr that says how far a pass is: rewritten in place on a terminal, a new line
 * every few seconds elsewhere. */

#pragma once

#include "runtime/ddp/train_plan.h"

G_BEGIN_DECLS

typedef struct
{
  const gchar *title; /* borrowed */
  guint steps_per_epoch;
  guint epochs;
  gboolean is_terminal;
  gint64 next_ns;
  gboolean shown;
} TpsProgress;

void tps_progress_init (TpsProgress *progress, const gchar *title, guint steps_per_epoch,
                        guint epochs);
void tps_progress_show (TpsProgress *progress, const TpsTrainStatus *status);
void tps_progress_end (TpsProgress *progress);

G_END_DECLS
