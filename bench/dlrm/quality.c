/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/quality.h"

#include <math.h>

static const TpsPrediction *
nth (const GArray *predictions, guint i)
{
  return &g_array_index (predictions, TpsPrediction, i);
}

gdouble
tps_quality_get_log_loss (const GArray *predictions)
{
  gdouble sum = 0;

  for (guint i = 0; i < predictions->len; i++)
    {
      gdouble logit = nth (predictions, i)->logit;

      sum += fmax (logit, 0) - logit * nth (predictions, i)->label + log1p (exp (-fabs (logit)));
    }
  return predictions->len > 0 ? sum / predictions->len : (gdouble) NAN;
}

static gint
compare (gconstpointer a, gconstpointer b)
{
  gdouble first = ((const TpsPrediction *) a)->logit, second = ((const TpsPrediction *) b)->logit;

  return (first > second) - (first < second);
}

/* Counts the pairs of a click and another sample in order, by ascending groups of equal logits. */
gdouble
tps_quality_get_auc (GArray *predictions)
{
  gdouble n_clicks = 0, n_others = 0, n_ordered = 0;
  guint i = 0;

  g_array_sort (predictions, compare);
  while (i < predictions->len)
    {
      gdouble logit = nth (predictions, i)->logit, clicks = 0, others = 0;

      for (; i < predictions->len && nth (predictions, i)->logit <= logit; i++)
        {
          clicks += nth (predictions, i)->label;
          others += 1 - nth (predictions, i)->label;
        }
      n_ordered += clicks * (n_others + others / 2);
      n_clicks += clicks;
      n_others += others;
    }
  return n_clicks > 0 && n_others > 0 ? n_ordered / (n_clicks * n_others) : (gdouble) NAN;
}
