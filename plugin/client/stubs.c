/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/stubs.h"

#include "plugin/client/retry.h"
#include "plugin/wire/wire_rendezvous.h"
#include "plugin/wire/wire_trainer.h"
#include "runtime/base/error.h"
#include "runtime/base/outcome.h"

typedef struct
{
  const TpsRpc *rpc;
  gpointer result;
} Answer;

static gboolean
read_answer (TpsReader *in, TpsWireType type, gpointer user_data, GError **error)
{
  const Answer *answer = user_data;

  return tps_rpc_read_answer (answer->rpc, in, type, answer->result, error);
}

/* Calls a method and waits. `result` must be all zero on entry. The caller must clear it
 * afterwards, even after a failure. */
static gboolean
call_and_wait (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments, gpointer result,
               gint64 deadline_ns, GError **error)
{
  TpsRpcValue value = { rpc, arguments };
  Answer answer = { rpc, result };

  return tps_client_call_sync (client, rpc->service, rpc->name, tps_rpc_value_write_arguments,
                               &value, deadline_ns, read_answer, &answer, error);
}

/* ---- calls with retries ---------------------------------------------------------------------- */

typedef struct
{
  Answer answer;
  TpsOutcome outcome;
} Retried;

static void
end_retried (gpointer user_data, TpsReader *in, TpsWireType type, const GError *error)
{
  Retried *retried = user_data;
  g_autoptr (GError) unreadable = NULL;

  if (error == NULL)
    read_answer (in, type, &retried->answer, &unreadable);
  tps_outcome_set (&retried->outcome, error != NULL ? error : unreadable);
}

/* As call_and_wait(), but for a method that may be sent more than once. If the connection is lost,
 * or the server is recovering or busy, the call is repeated until the deadline (retry.h). */
static gboolean
ask_and_wait (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments, gpointer result,
              gint64 deadline_ns, GError **error)
{
  Retried retried = { .answer = { rpc, result } };

  tps_outcome_init (&retried.outcome);
  tps_client_call_with_retries (client, rpc, arguments, TPS_RETRY_UNTIL_DEADLINE, deadline_ns,
                                end_retried, &retried);
  return tps_outcome_wait (&retried.outcome, error);
}

/* ---- methods --------------------------------------------------------------------------------- */

gboolean
tps_remote_describe (TpsClient *client, gint64 deadline_ns, TpsNodeInfo *info, GError **error)
{
  g_auto (TpsNodeInfo) answered = { 0 };

  if (!call_and_wait (client, &tps_describe_rpc, NULL, &answered, deadline_ns, error))
    return FALSE;
  *info = answered;
  answered = (TpsNodeInfo) { 0 };
  return TRUE;
}

GPtrArray *
tps_remote_get_metrics (TpsClient *client, gboolean with_samples, gint64 deadline_ns,
                        GError **error)
{
  g_autoptr (GPtrArray) summaries = NULL;

  if (!call_and_wait (client, &tps_get_metrics_rpc, &with_samples, &summaries, deadline_ns, error))
    return NULL;
  return g_steal_pointer (&summaries);
}

gboolean
tps_remote_clear_metrics (TpsClient *client, gint64 deadline_ns, GError **error)
{
  return call_and_wait (client, &tps_clear_metrics_rpc, NULL, NULL, deadline_ns, error);
}

gboolean
tps_remote_reload_certificates (TpsClient *client, gint64 deadline_ns, GError **error)
{
  return call_and_wait (client, &tps_reload_certificates_rpc, NULL, NULL, deadline_ns, error);
}

gchar *
tps_remote_set_log_level (TpsClient *client, const gchar *levels, gint64 deadline_ns,
                          GError **error)
{
  g_autofree gchar *before = NULL;

  if (!call_and_wait (client, &tps_set_log_level_rpc, &levels, &before, deadline_ns, error))
    return NULL;
  return g_steal_pointer (&before);
}

gboolean
tps_remote_snapshot (TpsClient *client, gint64 deadline_ns, TpsWireSnapshotInfo *info,
                     GError **error)
{
  g_auto (TpsWireSnapshotInfo) answered = { 0 };
  gboolean is_incremental = FALSE; /* for servers that support increments */

  if (!call_and_wait (client, &tps_snapshot_rpc, &is_incremental, &answered, deadline_ns, error))
    return FALSE;
  *info = answered;
  answered = (TpsWireSnapshotInfo) { 0 };
  return TRUE;
}

gboolean
tps_remote_reset_state (TpsClient *client, gint64 deadline_ns, GError **error)
{
  return call_and_wait (client, &tps_reset_state_rpc, NULL, NULL, deadline_ns, error);
}

gboolean
tps_remote_init_model (TpsClient *client, TpsNamedTensor *parameters, guint n_parameters,
                       const TpsOptimizerSpec *optimizer, gint64 deadline_ns, GError **error)
{
  TpsInitModelArguments arguments = { .n_parameters = n_parameters,
                                      .parameters = parameters,
                                      .optimizer = *optimizer };

  return ask_and_wait (client, &tps_init_model_rpc, &arguments, NULL, deadline_ns, error);
}

TpsModelVersion *
tps_remote_get_model (TpsClient *client, gint64 deadline_ns, GError **error)
{
  TpsModelVersion *model = NULL;

  ask_and_wait (client, &tps_get_model_rpc, NULL, &model, deadline_ns, error);
  return model;
}

TpsModelVersion *
tps_remote_update_and_fetch_model (TpsClient *client, const TpsUpdateModelArguments *arguments,
                                   gint64 deadline_ns, GError **error)
{
  TpsModelVersion *model = NULL;

  /* Without a push id, the server cannot recognise a repeated update, and would count it towards
   * the next version. */
  if (arguments->push.client == NULL)
    call_and_wait (client, &tps_update_and_fetch_model_rpc, arguments, &model, deadline_ns, error);
  else
    ask_and_wait (client, &tps_update_and_fetch_model_rpc, arguments, &model, deadline_ns, error);
  return model;
}

gboolean
tps_remote_create_table (TpsClient *client, const TpsTableSpec *spec, gint64 deadline_ns,
                         GError **error)
{
  return call_and_wait (client, &tps_create_table_rpc, spec, NULL, deadline_ns, error);
}

gboolean
tps_remote_drop_table (TpsClient *client, const gchar *table, gint64 deadline_ns, GError **error)
{
  return call_and_wait (client, &tps_drop_table_rpc, &table, NULL, deadline_ns, error);
}

gboolean
tps_remote_lookup_rows_with_lsns (TpsClient *client, const TpsLookupRowsArguments *arguments,
                                  gint64 deadline_ns, TpsRowsWithLsns *rows, GError **error)
{
  g_auto (TpsRowsWithLsns) answered = { 0 };

  if (!ask_and_wait (client, &tps_lookup_rows_with_lsns_rpc, arguments, &answered, deadline_ns,
                     error))
    return FALSE;
  *rows = answered;
  answered = (TpsRowsWithLsns) { 0 };
  return TRUE;
}

gboolean
tps_remote_assign_rows (TpsClient *client, const TpsAssignRowsArguments *arguments,
                        gint64 deadline_ns, GError **error)
{
  /* Without an LSN or a push id, a repeated call would overwrite the rows that other clients have
   * assigned in the meantime. */
  if (arguments->lsn == 0 && arguments->push.client == NULL)
    return call_and_wait (client, &tps_assign_rows_rpc, arguments, NULL, deadline_ns, error);
  return ask_and_wait (client, &tps_assign_rows_rpc, arguments, NULL, deadline_ns, error);
}

gboolean
tps_remote_flush (TpsClient *client, gint64 deadline_ns, gint64 *lsn, GError **error)
{
  gint64 answered = 0;

  if (!ask_and_wait (client, &tps_flush_rpc, NULL, &answered, deadline_ns, error))
    return FALSE;
  *lsn = answered;
  return TRUE;
}

gboolean
tps_remote_read_log (TpsClient *client, const TpsReadLogArguments *arguments, gint64 deadline_ns,
                     TpsWireLogBatch *batch, GError **error)
{
  g_auto (TpsWireLogBatch) answered = { 0 };

  if (!ask_and_wait (client, &tps_read_log_rpc, arguments, &answered, deadline_ns, error))
    return FALSE;
  *batch = answered;
  answered = (TpsWireLogBatch) { 0 };
  return TRUE;
}

gboolean
tps_remote_train (TpsClient *client, const TpsTrainPlan *plan, gint64 deadline_ns, GError **error)
{
  return call_and_wait (client, &tps_train_rpc, plan, NULL, deadline_ns, error);
}

gboolean
tps_remote_get_train_status (TpsClient *client, gint64 deadline_ns, TpsTrainStatus *status,
                             GError **error)
{
  g_auto (TpsTrainStatus) answered = { 0 };

  if (!call_and_wait (client, &tps_train_status_rpc, NULL, &answered, deadline_ns, error))
    return FALSE;
  *status = answered;
  answered = (TpsTrainStatus) { 0 };
  return TRUE;
}

gboolean
tps_remote_cancel_train (TpsClient *client, gint64 deadline_ns, GError **error)
{
  return call_and_wait (client, &tps_cancel_train_rpc, NULL, NULL, deadline_ns, error);
}

/* Returns arguments that borrow `key` for one call. The fields of the struct normally own their
 * values, so the result must not be cleared. */
static TpsRendezvousArguments
borrow_key (const gchar *key)
{
  return (TpsRendezvousArguments) { .key = (gchar *) (gsize) key };
}

gboolean
tps_remote_put (TpsClient *client, const gchar *key, GBytes *value, gint64 deadline_ns,
                GError **error)
{
  TpsRendezvousArguments arguments = borrow_key (key);

  arguments.value = value;
  return call_and_wait (client, &tps_rendezvous_put_rpc, &arguments, NULL, deadline_ns, error);
}

GBytes *
tps_remote_get (TpsClient *client, const gchar *key, gint32 timeout_ms, gint64 deadline_ns,
                GError **error)
{
  TpsRendezvousArguments arguments = borrow_key (key);
  g_autoptr (GBytes) value = NULL;

  arguments.timeout_ms = timeout_ms;
  if (!call_and_wait (client, &tps_rendezvous_get_rpc, &arguments, &value, deadline_ns, error))
    return NULL;
  return g_steal_pointer (&value);
}

gboolean
tps_remote_remove (TpsClient *client, const gchar *prefix, gint64 deadline_ns, GError **error)
{
  TpsRendezvousArguments arguments = borrow_key (prefix);

  return call_and_wait (client, &tps_rendezvous_remove_rpc, &arguments, NULL, deadline_ns, error);
}
