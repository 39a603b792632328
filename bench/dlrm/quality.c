/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/quality.h"

#include <math.h>
#include <unistd.h>

#include "runtime/base/error.h"

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

void
tps_dlrm_pass_init (TpsDlrmPass *pass)
{
  pass->times = g_array_new (FALSE, FALSE, sizeof (gdouble));
  pass->predictions = g_array_new (FALSE, FALSE, sizeof (TpsPrediction));
}

void
tps_dlrm_pass_clear (TpsDlrmPass *pass)
{
  g_clear_pointer (&pass->times, g_array_unref);
  g_clear_pointer (&pass->predictions, g_array_unref);
}

gboolean
tps_dlrm_pass_write (const TpsDlrmPass *pass, const gchar *path, GError **error)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();

  g_byte_array_append (bytes, (const guint8 *) pass->times->data,
                       pass->times->len * (guint) sizeof (gdouble));
  g_byte_array_append (bytes, (const guint8 *) pass->predictions->data,
                       pass->predictions->len * (guint) sizeof (TpsPrediction));
  return g_file_set_contents (path, (const gchar *) bytes->data, (gssize) bytes->len, error);
}

gboolean
tps_dlrm_pass_take (TpsDlrmPass *pass, const gchar *path, guint n_steps, GError **error)
{
  gsize n_times = (gsize) n_steps * TPS_DLRM_N_PHASES, n_bytes, n_rest;
  g_autofree gchar *bytes = NULL;

  if (!g_file_get_contents (path, &bytes, &n_bytes, error))
    return FALSE;
  unlink (path);
  n_rest = n_bytes - n_times * sizeof (gdouble);
  if (n_bytes < n_times * sizeof (gdouble) || n_rest % sizeof (TpsPrediction) != 0)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                   "%s: %" G_GSIZE_FORMAT " bytes for %u steps", path, n_bytes, n_steps);
      return FALSE;
    }
  g_array_append_vals (pass->times, bytes, (guint) n_times);
  g_array_append_vals (pass->predictions, bytes + n_times * sizeof (gdouble),
                       (guint) (n_rest / sizeof (TpsPrediction)));
  return TRUE;
}
