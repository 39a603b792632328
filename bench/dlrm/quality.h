/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The quality of predictions, made before the model was trained on their samples. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A prediction and the outcome, in the format of the files of processes. */
typedef struct
{
  gdouble logit;
  gdouble label; /* 0 or 1 */
} TpsPrediction;

/* Returns the mean binary cross-entropy of `predictions` (TpsPrediction); NAN without any. */
gdouble tps_quality_get_log_loss (const GArray *predictions);

/* Returns the area under the ROC curve. This is the probability that a click has a larger logit
 * than a sample without a click; equal logits count as one half. Returns NAN unless there are both.
 * `predictions` is an array of TpsPrediction, which the function sorts. */
gdouble tps_quality_get_auc (GArray *predictions);

G_END_DECLS
