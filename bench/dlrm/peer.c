/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/peer.h"

#include <stdio.h>
#include <string.h>

#include "bench/dlrm/click_log.h"
#include "bench/process/interrupt.h"
#include "bench/process/python.h"
#include "bench/process/runfiles.h"
#include "runtime/base/error.h"

typedef struct
{
  const gchar *name, *title, *script;
} Kind;

static const Kind kinds[] = {
  { TPS_DLRM_PYTORCH, "/ pytorch", "bench/peers/pytorch_dlrm.py" },
  { TPS_DLRM_TORCHREC, "/ torchrec", "bench/peers/torchrec_dlrm.py" },
};

/* A peer during its start. */
typedef struct
{
  const TpsDlrmOptions *options;
  TpsSupervisor *supervisor;
  const gchar *folder, *samples;
  TpsDlrmSystem *system;
} Start;

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

/* -- the processes -- */

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

static void
add_work (const TpsDlrmOptions *options, GPtrArray *argv)
{
  g_autofree gchar *rows = join_numbers (options, TRUE);
  g_autofree gchar *lengths = join_numbers (options, FALSE);

  g_ptr_array_add (argv, g_strdup_printf ("--batch=%" G_GINT64_FORMAT, options->batch));
  g_ptr_array_add (argv, g_strdup_printf ("--dim=%" G_GINT64_FORMAT, options->dim));
  g_ptr_array_add (argv, g_strdup_printf ("--rows=%s", rows));
  g_ptr_array_add (argv, g_strdup_printf ("--bag-lengths=%s", lengths));
  g_ptr_array_add (argv, g_strdup_printf ("--optimizer=%s",
                                          tps_optimizer_kind_name (options->table_optimizer.kind)));
  g_ptr_array_add (argv, g_strdup_printf ("--lr=%.17g", options->lr));
  g_ptr_array_add (argv, g_strdup_printf ("--threads=%d", options->n_threads));
  g_ptr_array_add (argv, g_strdup_printf ("--seed=%" G_GINT64_FORMAT, options->seed));
  g_ptr_array_add (argv, g_strdup_printf ("--ranks=%d", options->n_trainers));
}

static GPtrArray *
make_argv (const Start *start, const gchar *script)
{
  GPtrArray *argv = g_ptr_array_new_with_free_func (g_free);

  g_ptr_array_add (argv, g_strdup (tps_bench_find_python ()));
  g_ptr_array_add (argv, g_strdup (script));
  g_ptr_array_add (argv, g_strdup_printf ("--samples=%s", start->samples));
  add_work (start->options, argv);
  g_ptr_array_add (argv, g_strdup_printf ("--rank=%u", start->system->children->len));
  g_ptr_array_add (argv,
                   g_strdup_printf ("--store=%s/%s.store", start->folder, start->system->name));
  g_ptr_array_add (argv, NULL);
  return argv;
}

/* Starts the next rank. Returns its first line; NULL with an error if it exits first. The caller
 * owns the result. */
static gchar *
start_rank (const Start *start, const gchar *script, GError **error)
{
  GPtrArray *children = start->system->children;
  g_autoptr (GPtrArray) argv = make_argv (start, script);
  g_autofree gchar *name = g_strdup_printf ("%s, process %u", start->system->name, children->len);
  gchar *line;

  if (!tps_dlrm_system_start (start->system, start->supervisor, (gchar **) argv->pdata, error))
    return NULL;
  line = tps_child_receive (children->pdata[children->len - 1], error);
  /* A peer that is left out must not end the run. */
  if (line == NULL)
    tps_supervisor_forget_dead (start->supervisor, name, NULL);
  return line;
}

/* Starts the other ranks. They find the same libraries as the first rank, so no other rank is left
 * out. */
static gboolean
start_others (const Start *start, const gchar *script, GError **error)
{
  for (gint rank = 1; rank < start->options->n_trainers; rank++)
    {
      g_autofree gchar *line = start_rank (start, script, error);

      if (line == NULL)
        return FALSE;
    }
  return tps_dlrm_system_wait (start->system, error);
}

/* Returns the reason why a peer is left out: its line "skip REASON", or the failure. */
static gchar *
get_reason (const gchar *line, const GError *failure)
{
  if (line == NULL)
    return g_strdup (failure->message);
  return g_strdup (g_str_has_prefix (line, "skip ") ? line + strlen ("skip ") : line);
}

/* Starts a peer, or sets the reason why it is left out. Returns FALSE if the run cannot
 * continue. */
static gboolean
start_peer (Start *start, TpsDlrmPeer *peer, const gchar *script, GError **error)
{
  g_autoptr (TpsDlrmSystem) system = tps_dlrm_system_new (peer->name, start->folder);
  g_autoptr (GError) failure = NULL;
  g_autofree gchar *line = NULL;

  start->system = system;
  line = start_rank (start, script, &failure);
  if (line == NULL && tps_interrupt_is_set ())
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  if (line == NULL || !g_str_has_prefix (line, "torch "))
    {
      peer->reason = get_reason (line, failure);
      if (line != NULL)
        tps_child_kill (system->children->pdata[0]);
      return TRUE;
    }
  if (!start_others (start, script, error))
    return FALSE;
  peer->version = g_steal_pointer (&line);
  peer->system = g_steal_pointer (&system);
  return TRUE;
}

/* -- peers -- */

static void
free_peer (gpointer data)
{
  TpsDlrmPeer *peer = data;

  g_clear_pointer (&peer->system, tps_dlrm_system_free);
  g_free (peer->version);
  g_free (peer->reason);
  g_free (peer);
}

GPtrArray *
tps_dlrm_peers_new (void)
{
  return g_ptr_array_new_with_free_func (free_peer);
}

static gboolean
is_wanted (const TpsDlrmOptions *options, const Kind *kind)
{
  return g_str_equal (options->run.peer, kind->name) || g_str_equal (options->run.peer, "both");
}

gboolean
tps_dlrm_peers_start (const TpsDlrmOptions *options, TpsSupervisor *supervisor, const gchar *folder,
                      GPtrArray *peers, GError **error)
{
  g_autofree gchar *samples = g_build_filename (folder, "samples", NULL);
  Start start = {
    .options = options, .supervisor = supervisor, .folder = folder, .samples = samples
  };

  if (options->run.peer == NULL)
    return TRUE;
  if (!write_samples (options, samples, error))
    return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autofree gchar *script = NULL;
      TpsDlrmPeer *peer;

      if (!is_wanted (options, &kinds[i]))
        continue;
      script = tps_bench_find_file (kinds[i].script, error);
      if (script == NULL)
        return FALSE;
      peer = g_new0 (TpsDlrmPeer, 1);
      peer->name = kinds[i].name;
      peer->title = kinds[i].title;
      g_ptr_array_add (peers, peer);
      if (!start_peer (&start, peer, script, error))
        return FALSE;
    }
  return TRUE;
}
