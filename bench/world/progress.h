/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The status line of a pass. */

#pragma once

#include "bench/process/status_line.h"
#include "runtime/trainer/pass/train_plan.h"

G_BEGIN_DECLS

typedef struct
{
  const gchar *title; /* borrowed */
  guint steps_per_epoch;
  guint epochs;
  TpsStatusLine line;
} TpsProgress;

void tps_progress_init (TpsProgress *progress, const gchar *title, guint steps_per_epoch,
                        guint epochs);
void tps_progress_show (TpsProgress *progress, const TpsTrainStatus *status);
void tps_progress_end (TpsProgress *progress);

G_END_DECLS
