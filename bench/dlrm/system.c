/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/system.h"

#include <string.h>

#include "runtime/base/error.h"

static void
free_child (gpointer child)
{
  tps_child_free (child);
}

TpsDlrmSystem *
tps_dlrm_system_new (const gchar *name, const gchar *folder)
{
  TpsDlrmSystem *system = g_new0 (TpsDlrmSystem, 1);

  system->name = name;
  system->folder = folder;
  system->children = g_ptr_array_new_with_free_func (free_child);
  system->log_loss = g_array_new (FALSE, FALSE, sizeof (gdouble));
  system->auc = g_array_new (FALSE, FALSE, sizeof (gdouble));
  return system;
}

void
tps_dlrm_system_free (TpsDlrmSystem *system)
{
  g_ptr_array_unref (system->children);
  g_array_unref (system->log_loss);
  g_array_unref (system->auc);
  g_free (system);
}

gboolean
tps_dlrm_system_start (TpsDlrmSystem *system, TpsSupervisor *supervisor, gchar **argv,
                       GError **error)
{
  g_autofree gchar *name = g_strdup_printf ("%s, process %u", system->name, system->children->len);
  TpsChild *child = tps_child_start (supervisor, name, argv, error);

  if (child != NULL)
    g_ptr_array_add (system->children, child);
  return child != NULL;
}

static gboolean
check_answer (const TpsDlrmSystem *system, const gchar *answer, const gchar *expected,
              GError **error)
{
  if (answer == NULL)
    return FALSE;
  if (g_str_has_prefix (answer, expected))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "%s: %.500s", system->name, answer);
  return FALSE;
}

gboolean
tps_dlrm_system_wait (TpsDlrmSystem *system, GError **error)
{
  for (guint i = 0; i < system->children->len; i++)
    {
      g_autofree gchar *answer = tps_child_receive (system->children->pdata[i], error);

      if (!check_answer (system, answer, "ready", error))
        return FALSE;
    }
  return TRUE;
}

static gchar *
get_path (const TpsDlrmSystem *system, guint child)
{
  return g_strdup_printf ("%s/%s-%u.pass", system->folder, system->name, child);
}

static gboolean
order (TpsDlrmSystem *system, guint n_steps, GError **error)
{
  for (guint i = 0; i < system->children->len; i++)
    {
      g_autofree gchar *path = get_path (system, i);
      g_autofree gchar *line = g_strdup_printf ("%" G_GUINT64_FORMAT " %u %s", system->n_steps,
                                                n_steps, path);

      if (!tps_child_send (system->children->pdata[i], line, error))
        return FALSE;
    }
  system->n_steps += n_steps;
  return TRUE;
}

gdouble
tps_dlrm_system_run (TpsDlrmSystem *system, guint n_steps, TpsDlrmPass *pass, GError **error)
{
  gdouble slowest = 0;

  if (!order (system, n_steps, error))
    return -1;
  for (guint i = 0; i < system->children->len; i++)
    {
      g_autofree gchar *answer = tps_child_receive (system->children->pdata[i], error);
      g_autofree gchar *path = get_path (system, i);

      if (!check_answer (system, answer, "ok ", error)
          || !tps_dlrm_pass_take (pass, path, n_steps, error))
        return -1;
      slowest = MAX (slowest, g_ascii_strtod (answer + strlen ("ok "), NULL));
    }
  return slowest;
}
