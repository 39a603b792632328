/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/peer.h"

#include <stdio.h>
#include <string.h>

#include "bench/dlrm/click_log.h"
#include "bench/process/interrupt.h"
#include "bench/process/python.h"
#include "bench/process/runfiles.h"
#include "runtime/base/error.h"

#define SCRIPT "bench/peers/pytorch_dlrm.py"

/* -- samples -- */

static gboolean
write_batch (FILE *file, const TpsClickShape *shape, const TpsClickBatch *batch)
{
  gsize n = batch->n_samples;
  gboolean ok = fwrite (batch->labels, sizeof *batch->labels, n, file) == n
                && fwrite (batch->dense, TPS_CLICK_DENSE * sizeof *batch->dense, n, file) == n;

  for (guint t = 0; ok && t < TPS_CLICK_TABLES; t++)
    ok = fwrite (batch->ids[t], shape->bag_length[t] * sizeof *batch->ids[t], n, file) == n;
  return ok;
}

static gboolean
write_batches (const TpsDlrmOptions *options, FILE *file, const gchar *path, GError **error)
{
  guint64 n_steps = tps_dlrm_options_get_warm_up (options)
                    + (guint64) options->run.repeats * (guint64) options->steps;
  guint64 n_samples = (guint64) options->n_trainers * (guint64) options->batch;
  g_auto (TpsClickLog) log = { 0 };
  g_auto (TpsClickBatch) batch = { 0 };
  TpsSyntheticLog synthetic;

  tps_dlrm_options_init_log (options, &synthetic);
  if (!tps_click_log_init (&log, &synthetic, options->data, error))
    return FALSE;
  tps_click_batch_init (&batch, &options->shape, n_samples);
  for (guint64 step = 0; step < n_steps; step++)
    {
      if (!tps_click_log_read (&log, step * n_samples, &batch, error))
        return FALSE;
      if (write_batch (file, &options->shape, &batch))
        continue;
      g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s: cannot be written", path);
      return FALSE;
    }
  return TRUE;
}

static gboolean
write_samples (const TpsDlrmOptions *options, const gchar *path, GError **error)
{
  FILE *file = fopen (path, "we");
  gboolean ok = file != NULL && write_batches (options, file, path, error);

  if (file != NULL && fclose (file) != 0 && ok)
    ok = FALSE;
  if (!ok && error != NULL && *error == NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s: cannot be written", path);
  return ok;
}

/* -- the process -- */

static gchar *
join_numbers (const TpsDlrmOptions *options, gboolean is_rows)
{
  GString *text = g_string_new (NULL);

  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, t > 0 ? "," : "",
                            is_rows ? options->shape.rows[t]
                                    : (gint64) options->shape.bag_length[t]);
  return g_string_free (text, FALSE);
}

static GPtrArray *
make_argv (const TpsDlrmOptions *options, const gchar *script, const gchar *samples)
{
  GPtrArray *argv = g_ptr_array_new_with_free_func (g_free);
  g_autofree gchar *rows = join_numbers (options, TRUE);
  g_autofree gchar *lengths = join_numbers (options, FALSE);

  g_ptr_array_add (argv, g_strdup (tps_bench_find_python ()));
  g_ptr_array_add (argv, g_strdup (script));
  g_ptr_array_add (argv, g_strdup_printf ("--samples=%s", samples));
  g_ptr_array_add (
      argv, g_strdup_printf ("--batch=%" G_GINT64_FORMAT, options->batch * options->n_trainers));
  g_ptr_array_add (argv, g_strdup_printf ("--dim=%" G_GINT64_FORMAT, options->dim));
  g_ptr_array_add (argv, g_strdup_printf ("--rows=%s", rows));
  g_ptr_array_add (argv, g_strdup_printf ("--bag-lengths=%s", lengths));
  g_ptr_array_add (argv, g_strdup_printf ("--optimizer=%s",
                                          tps_optimizer_kind_name (options->table_optimizer.kind)));
  g_ptr_array_add (argv, g_strdup_printf ("--lr=%.17g", options->lr));
  g_ptr_array_add (argv, g_strdup_printf ("--threads=%d", options->n_threads));
  g_ptr_array_add (argv, g_strdup_printf ("--seed=%" G_GINT64_FORMAT, options->seed));
  g_ptr_array_add (argv, NULL);
  return argv;
}

/* Returns the first line of the peer; NULL if it has ended without one. */
static gchar *
start_script (TpsDlrmSystem *system, TpsSupervisor *supervisor, gchar **argv, GError **error)
{
  g_autofree gchar *name = g_strdup_printf ("%s, process 0", system->name);
  gchar *line;

  if (!tps_dlrm_system_start (system, supervisor, argv, error))
    return NULL;
  line = tps_child_receive (system->children->pdata[0], error);
  if (line == NULL)
    tps_supervisor_forget_dead (supervisor, name, NULL);
  else if (g_str_has_prefix (line, "skip "))
    tps_child_kill (system->children->pdata[0]);
  return line;
}

gboolean
tps_dlrm_peer_start (const TpsDlrmOptions *options, TpsSupervisor *supervisor, const gchar *folder,
                     TpsDlrmSystem **peer, gchar **version, gchar **reason, GError **error)
{
  g_autofree gchar *samples = g_build_filename (folder, "samples", NULL);
  g_autofree gchar *script = tps_bench_find_file (SCRIPT, error);
  g_autoptr (TpsDlrmSystem) system = tps_dlrm_system_new (TPS_DLRM_PEER, folder);
  g_autoptr (GPtrArray) argv = NULL;
  g_autoptr (GError) failure = NULL;
  g_autofree gchar *line = NULL;

  *peer = NULL;
  *version = *reason = NULL;
  if (script == NULL || !write_samples (options, samples, error))
    return FALSE;
  argv = make_argv (options, script, samples);
  line = start_script (system, supervisor, (gchar **) argv->pdata, &failure);
  if (line == NULL && tps_interrupt_is_set ())
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  if (line != NULL && g_str_has_prefix (line, "torch "))
    {
      *version = g_steal_pointer (&line);
      *peer = g_steal_pointer (&system);
    }
  else
    *reason = g_strdup (line == NULL                       ? failure->message
                        : g_str_has_prefix (line, "skip ") ? line + strlen ("skip ")
                                                           : line);
  return TRUE;
}
