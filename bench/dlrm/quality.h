/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The quality of predictions, each made before its sample was trained. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A prediction and the outcome, as processes write them to files. */
typedef struct
{
  gdouble logit;
  gdouble label; /* 0 or 1 */
} TpsPrediction;

/* Returns the mean binary cross-entropy; NAN without predictions. `predictions` are of
 * TpsPrediction. */
gdouble tps_quality_get_log_loss (const GArray *predictions);

/* Returns the area under the ROC curve: the probability that a click has a larger logit than a
 * sample without a click, where equal logits count half. NAN if there are not both. Sorts
 * `predictions`. */
gdouble tps_quality_get_auc (GArray *predictions);

G_END_DECLS
