/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The synchronous forms of the asynchronous calls. */

#include "plugin/client/tables/remote_tables_private.h"

typedef struct
{
  guint n_outputs;
  TpsTensor *outputs;
  GError *error;
  TpsMutex lock; /* guards the next line */
  gboolean done;
  TpsCond finished;
} Wait;

static void
wait_init (Wait *wait, TpsTensor *outputs, guint n_outputs)
{
  *wait = (Wait) { .n_outputs = n_outputs, .outputs = outputs };
  tps_mutex_init (&wait->lock);
  tps_cond_init (&wait->finished);
}

/* The wait needs no deadline. The call ends at its own deadline, and borrows its arguments until
 * then. */
static gboolean
wait_end (Wait *wait, GError **error)
{
  tps_mutex_lock (&wait->lock);
  while (!wait->done)
    tps_cond_wait (&wait->finished, &wait->lock);
  tps_mutex_unlock (&wait->lock);
  tps_cond_clear (&wait->finished);
  tps_mutex_clear (&wait->lock);
  if (wait->error == NULL)
    return TRUE;
  g_propagate_error (error, wait->error);
  return FALSE;
}

static void
on_applied (gpointer user_data, const GError *error)
{
  Wait *wait = user_data;

  tps_mutex_lock (&wait->lock);
  wait->error = error != NULL ? g_error_copy (error) : NULL;
  wait->done = TRUE;
  tps_cond_signal (&wait->finished);
  tps_mutex_unlock (&wait->lock);
}

static void
on_looked_up (gpointer user_data, TpsTensor *outputs, const GError *error)
{
  Wait *wait = user_data;

  for (guint i = 0; error == NULL && i < wait->n_outputs; i++)
    tps_tensor_move (&wait->outputs[i], &outputs[i]);
  on_applied (wait, error);
}

gboolean
tps_remote_tables_lookup_bags_sync (TpsRemoteTables *tables, const TpsBagQuery *queries,
                                    guint n_queries, gint64 deadline_ns, TpsTensor *outputs,
                                    GError **error)
{
  Wait wait;

  wait_init (&wait, outputs, n_queries);
  tps_remote_tables_lookup_bags (tables, queries, n_queries, deadline_ns, on_looked_up, &wait);
  return wait_end (&wait, error);
}

gboolean
tps_remote_tables_apply_bags_sync (TpsRemoteTables *tables, const TpsBagGradient *gradients,
                                   guint n_gradients, gint64 deadline_ns, GError **error)
{
  Wait wait;

  wait_init (&wait, NULL, 0);
  tps_remote_tables_apply_bags (tables, gradients, n_gradients, deadline_ns, on_applied, &wait);
  return wait_end (&wait, error);
}

gboolean
tps_remote_tables_lookup_rows_sync (TpsRemoteTables *tables, const gchar *name,
                                    TpsTensorView indices, gint64 deadline_ns, TpsTensor *rows,
                                    GError **error)
{
  Wait wait;

  wait_init (&wait, rows, 1);
  tps_remote_tables_lookup_rows (tables, name, indices, deadline_ns, on_looked_up, &wait);
  return wait_end (&wait, error);
}

gboolean
tps_remote_tables_apply_rows_sync (TpsRemoteTables *tables, const gchar *name,
                                   TpsTensorView indices, TpsTensorView values, gint64 deadline_ns,
                                   GError **error)
{
  Wait wait;

  wait_init (&wait, NULL, 0);
  tps_remote_tables_apply_rows (tables, name, indices, values, deadline_ns, on_applied, &wait);
  return wait_end (&wait, error);
}

gboolean
tps_remote_tables_assign_rows_sync (TpsRemoteTables *tables, const gchar *name,
                                    TpsTensorView indices, TpsTensorView values, gint64 deadline_ns,
                                    GError **error)
{
  Wait wait;

  wait_init (&wait, NULL, 0);
  tps_remote_tables_assign_rows (tables, name, indices, values, deadline_ns, on_applied, &wait);
  return wait_end (&wait, error);
}
