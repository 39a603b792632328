/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/pass_file.h"

#include <unistd.h>

#include "runtime/base/error.h"

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
