/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/pass/pass_control.h"

#include <string.h>

#include "runtime/trainer/pass/device_spans.h"
#include "runtime/base/error.h"

TpsPassControl *
tps_pass_control_new (const TpsTrainerLinks *links, const TpsTrainPlan *plan)
{
  TpsPassControl *control = g_new0 (TpsPassControl, 1);

  control->links = *links;
  control->steps_total = (gint64) plan->epochs * plan->steps_per_epoch;
  tps_mutex_init (&control->links_lock);
  tps_mutex_init (&control->lock);
  return control;
}

void
tps_pass_control_free (TpsPassControl *control)
{
  tps_mutex_clear (&control->links_lock);
  tps_mutex_clear (&control->lock);
  g_free (control);
}

guint
tps_pass_get_local_rank (const TpsPass *pass)
{
  return pass->control->links.local_rank;
}

void
tps_pass_set_digest (TpsPass *pass, const guint8 digest[16])
{
  TpsPassControl *control = pass->control;

  tps_mutex_lock (&control->lock);
  memcpy (control->digest, digest, sizeof control->digest);
  control->has_digest = TRUE;
  tps_mutex_unlock (&control->lock);
}

/* -- access from other threads -- */

void
tps_pass_cancel (TpsPass *pass)
{
  TpsPassControl *control = pass->control;

  tps_mutex_lock (&control->lock);
  control->is_cancelled = TRUE;
  tps_mutex_unlock (&control->lock);
  tps_pass_cancel_links (pass);
}

gboolean
tps_pass_is_cancelled (TpsPass *pass)
{
  gboolean is_cancelled;

  tps_mutex_lock (&pass->control->lock);
  is_cancelled = pass->control->is_cancelled;
  tps_mutex_unlock (&pass->control->lock);
  return is_cancelled;
}

gboolean
tps_pass_check_cancelled (TpsPass *pass, GError **error)
{
  if (!tps_pass_is_cancelled (pass))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED, "pass %s was cancelled", pass->plan->pass_name);
  return FALSE;
}

void
tps_pass_show_loss (TpsPass *pass)
{
  TpsPassControl *control = pass->control;

  tps_mutex_lock (&control->lock);
  control->has_loss = TRUE;
  control->loss = *(const gdouble *) (gpointer) tps_buffer_get_data (pass->loss);
  tps_mutex_unlock (&control->lock);
}

void
tps_pass_step_done (TpsPass *pass)
{
  if (pass->loss != NULL)
    tps_pass_show_loss (pass);
  tps_mutex_lock (&pass->control->lock);
  pass->control->steps_done++;
  tps_mutex_unlock (&pass->control->lock);
  tps_pass_alive (pass, 0);
}

void
tps_pass_set_samples (TpsPass *pass, gint64 samples, gint64 epoch_samples)
{
  tps_mutex_lock (&pass->control->lock);
  pass->control->samples = samples;
  pass->control->epoch_samples = epoch_samples;
  tps_mutex_unlock (&pass->control->lock);
}

void
tps_pass_alive (TpsPass *pass, gint64 until_ns)
{
  tps_mutex_lock (&pass->control->lock);
  pass->control->heartbeat++;
  pass->control->alive_until_ns = until_ns;
  tps_mutex_unlock (&pass->control->lock);
}

void
tps_pass_get_progress (TpsPass *pass, TpsTrainStatus *status)
{
  TpsPassControl *control = pass->control;

  tps_mutex_lock (&control->lock);
  /* A pass that waits with a deadline is alive. Until the deadline, each query counts as a
   * heartbeat. */
  if (tps_clock_now_ns () < control->alive_until_ns)
    control->heartbeat++;
  status->steps_done = control->steps_done;
  status->steps_total = control->steps_total;
  status->heartbeat = control->heartbeat;
  status->has_loss = control->has_loss;
  status->loss = control->loss;
  status->has_digest = control->has_digest;
  memcpy (status->parameters_digest, control->digest, sizeof control->digest);
  status->samples = control->samples;
  status->epoch_samples = control->epoch_samples;
  tps_mutex_unlock (&control->lock);
}

/* -- metrics -- */

gboolean
tps_pass_record_start (TpsPass *pass, const gchar *type, const gchar *key, const gchar *name,
                       GError **error)
{
  if (pass->spans != NULL)
    return tps_device_spans_start (pass->spans, type, key, name, error);
  return tps_metrics_record_start (pass->metrics, type, key, name, error);
}

gboolean
tps_pass_record_end (TpsPass *pass, const gchar *type, const gchar *key, GError **error)
{
  if (pass->spans != NULL)
    return tps_device_spans_end (pass->spans, type, key, error);
  return tps_metrics_record_end (pass->metrics, type, key, error);
}

void
tps_pass_record_method (TpsPass *pass, const gchar *type, const gchar *name,
                        void (*method) (gpointer user_data), gpointer user_data)
{
  gint64 start_ns = tps_clock_now_ns ();

  method (user_data);
  tps_metrics_record (pass->metrics, type == NULL ? "method_metric" : type, name,
                      (gdouble) (tps_clock_now_ns () - start_ns) / 1e6);
}

gchar *
tps_pass_epoch_key (guint epoch, guint index)
{
  return g_strdup_printf ("%u,%u", epoch, index);
}
