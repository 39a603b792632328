/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Functions for one server: connection, Node, Durability, and rows with their LSNs. */

#include <unistd.h>

#include "plugin/python/native/json_text.h"
#include "plugin/python/native/python_request.h"
#include "plugin/python/native/table_options.h"
#include "plugin/python/native/tls_files.h"
#include "plugin/wire/wire_embedding_table.h"

TpsClient *
tps_python_client_new (const gchar *address, gboolean no_shared_memory, const TpsPythonTls *tls,
                       TpsPythonCall **failed)
{
  TpsClientOptions options = { .address = address,
                               .no_shared_memory = no_shared_memory,
                               .shares_answers = TRUE };
  g_autoptr (TpsTls) files = NULL;
  GError *error = NULL;
  TpsClient *client = NULL;

  if (tps_python_read_tls (tls, &files, &error))
    {
      options.tls = files;
      options.token = g_getenv ("THRIFTPS_TOKEN");
      client = tps_client_new (&options, &error);
    }
  if (client == NULL)
    *failed = tps_python_call_new_ended (error);
  return client;
}

void
tps_python_client_cancel (TpsClient *client)
{
  tps_client_cancel (client);
}

void
tps_python_client_free (TpsClient *client, gint32 owner)
{
  if (owner == getpid ())
    tps_client_free (client);
}

/* ---- Node ---- */

static void
take_node_info (TpsPythonCall *call, gpointer result)
{
  tps_python_call_take_text (call, tps_python_node_info_to_json (result));
}

static void
clear_node_info (gpointer result)
{
  tps_node_info_clear (result);
}

static void
take_metrics (TpsPythonCall *call, gpointer result)
{
  GPtrArray **summaries = result;

  tps_python_call_take_text (call, tps_python_metrics_to_json (*summaries));
}

static void
clear_metrics (gpointer result)
{
  GPtrArray **summaries = result;

  g_clear_pointer (summaries, g_ptr_array_unref);
}

TpsPythonCall *
tps_python_describe (TpsClient *client, gint64 timeout_ns)
{
  static const TpsPythonAnswer answer = { sizeof (TpsNodeInfo), take_node_info, clear_node_info };
  TpsPythonRequest request = { .rpc = &tps_describe_rpc,
                               .answer = &answer,
                               .retry = TPS_PYTHON_RETRY_UNTIL_DEADLINE };

  return tps_python_request_send (client, &request, timeout_ns);
}

TpsPythonCall *
tps_python_get_metrics (TpsClient *client, gint64 timeout_ns)
{
  static const TpsPythonAnswer answer = { sizeof (GPtrArray *), take_metrics, clear_metrics };
  static const gboolean with_samples = FALSE;
  TpsPythonRequest request = { .rpc = &tps_get_metrics_rpc,
                               .n_argument_bytes = sizeof with_samples,
                               .arguments = &with_samples,
                               .answer = &answer,
                               .retry = TPS_PYTHON_RETRY_ONCE };

  return tps_python_request_send (client, &request, timeout_ns);
}

TpsPythonCall *
tps_python_clear_metrics (TpsClient *client, gint64 timeout_ns)
{
  TpsPythonRequest request = { .rpc = &tps_clear_metrics_rpc, .retry = TPS_PYTHON_RETRY_ONCE };

  return tps_python_request_send (client, &request, timeout_ns);
}

static void
take_text (TpsPythonCall *call, gpointer result)
{
  gchar **text = result;

  tps_python_call_take_text (call, g_string_new (*text));
}

static void
clear_text (gpointer text)
{
  g_clear_pointer ((gchar **) text, g_free);
}

TpsPythonCall *
tps_python_set_log_level (TpsClient *client, const gchar *levels, gint64 timeout_ns)
{
  static const TpsPythonAnswer answer = { sizeof (gchar *), take_text, clear_text };
  gchar *copy = g_strdup (levels);
  TpsPythonRequest request = { .rpc = &tps_set_log_level_rpc,
                               .n_argument_bytes = sizeof copy,
                               .arguments = &copy,
                               .clear_arguments = clear_text,
                               .answer = &answer,
                               .retry = TPS_PYTHON_RETRY_NEVER };

  return tps_python_request_send (client, &request, timeout_ns);
}

static void
clear_forget_arguments (gpointer arguments)
{
  g_free (((TpsForgetPushClientsArguments *) arguments)->tenant);
}

TpsPythonCall *
tps_python_forget_push_clients (TpsClient *client, const gchar *tenant, gint64 idle_ms,
                                gint64 timeout_ns)
{
  TpsForgetPushClientsArguments arguments = { g_strdup (tenant), idle_ms };
  TpsPythonRequest request = {
    &tps_forget_push_clients_rpc, sizeof arguments,          &arguments,
    clear_forget_arguments,       &tps_python_number_answer, TPS_PYTHON_RETRY_NEVER
  };

  return tps_python_request_send (client, &request, timeout_ns);
}

/* ---- Durability ---- */

static void
take_snapshot (TpsPythonCall *call, gpointer result)
{
  tps_python_call_take_text (call, tps_python_snapshot_to_json (result));
}

static void
clear_snapshot (gpointer result)
{
  tps_wire_snapshot_info_clear (result);
}

static const TpsPythonAnswer snapshot_answer = { sizeof (TpsWireSnapshotInfo), take_snapshot,
                                                 clear_snapshot };

static void
clear_restore_arguments (gpointer arguments)
{
  tps_restore_arguments_clear (arguments);
}

static void
clear_import_arguments (gpointer arguments)
{
  tps_import_table_arguments_clear (arguments);
}

TpsPythonCall *
tps_python_flush (TpsClient *client, gint64 timeout_ns)
{
  TpsPythonRequest request = { .rpc = &tps_flush_rpc,
                               .answer = &tps_python_number_answer,
                               .retry = TPS_PYTHON_RETRY_UNTIL_DEADLINE };

  return tps_python_request_send (client, &request, timeout_ns);
}

TpsPythonCall *
tps_python_snapshot (TpsClient *client, gboolean is_incremental, gint64 timeout_ns)
{
  TpsPythonRequest request = { .rpc = &tps_snapshot_rpc,
                               .n_argument_bytes = sizeof is_incremental,
                               .arguments = &is_incremental,
                               .answer = &snapshot_answer,
                               .retry = TPS_PYTHON_RETRY_NEVER };

  return tps_python_request_send (client, &request, timeout_ns);
}

/* Adds the specs of all tables. The caller must clear `specs`, even after a failure. */
static gboolean
add_specs (TpsTableSpecs *specs, const TpsPythonTable *tables, guint n_tables, GError **error)
{
  for (guint i = 0; i < n_tables; i++)
    {
      g_auto (TpsTableSpec) spec = { 0 };

      if (!tps_python_table_to_spec (&tables[i], &spec, error)
          || !tps_table_specs_add (specs, &spec, error))
        return FALSE;
    }
  return TRUE;
}

TpsPythonCall *
tps_python_restore (TpsClient *client, const gchar *const *snapshots, const TpsPythonTable *tables,
                    guint n_tables, gint64 timeout_ns)
{
  GError *error = NULL;
  TpsRestoreArguments arguments = { 0 };
  TpsPythonRequest request = { &tps_restore_rpc,        sizeof arguments, &arguments,
                               clear_restore_arguments, &snapshot_answer, TPS_PYTHON_RETRY_NEVER };

  if (!add_specs (&arguments.tables, tables, n_tables, &error))
    {
      tps_restore_arguments_clear (&arguments);
      return tps_python_call_new_ended (error);
    }
  arguments.snapshots = g_strdupv ((gchar **) (gsize) snapshots);
  return tps_python_request_send (client, &request, timeout_ns);
}

TpsPythonCall *
tps_python_import_table (TpsClient *client, const TpsPythonTable *table, const gchar *const *files,
                         const gchar *tensor, gint64 timeout_ns)
{
  TpsImportTableArguments arguments = { 0 };
  TpsPythonRequest request = { &tps_import_table_rpc,  sizeof arguments, &arguments,
                               clear_import_arguments, &snapshot_answer, TPS_PYTHON_RETRY_NEVER };
  GError *error = NULL;

  if (!tps_python_table_to_spec (table, &arguments.spec, &error))
    {
      tps_import_table_arguments_clear (&arguments);
      return tps_python_call_new_ended (error);
    }
  arguments.files = g_strdupv ((gchar **) (gsize) files);
  arguments.tensor = g_strdup (tensor);
  return tps_python_request_send (client, &request, timeout_ns);
}

static void
take_log_batch (TpsPythonCall *call, gpointer result)
{
  TpsWireLogBatch *batch = result;

  tps_python_call_take_text (call, tps_python_log_batch_to_json (batch));
  if (batch->records != NULL)
    tps_python_call_take_bytes (call, g_steal_pointer (&batch->records));
}

static void
clear_log_batch (gpointer result)
{
  tps_wire_log_batch_clear (result);
}

TpsPythonCall *
tps_python_read_log (TpsClient *client, gint64 cursor, gint32 max_bytes, gint32 wait_ms,
                     gint64 timeout_ns)
{
  static const TpsPythonAnswer answer = { sizeof (TpsWireLogBatch), take_log_batch,
                                          clear_log_batch };
  TpsReadLogArguments arguments = { cursor, max_bytes, wait_ms };
  TpsPythonRequest request = { &tps_read_log_rpc, sizeof arguments,
                               &arguments,        NULL,
                               &answer,           TPS_PYTHON_RETRY_UNTIL_DEADLINE };

  return tps_python_request_send (client, &request, timeout_ns);
}

/* ---- rows ---- */

static void
take_rows (TpsPythonCall *call, gpointer result)
{
  TpsRowsWithLsns *rows = result;
  TpsTensor tensors[2] = { rows->rows, rows->lsns };

  *rows = (TpsRowsWithLsns) { 0 };
  tps_python_call_take_tensors (call, tensors, G_N_ELEMENTS (tensors));
}

static void
clear_rows (gpointer result)
{
  tps_rows_with_lsns_clear (result);
}

static void
clear_lookup_arguments (gpointer arguments)
{
  tps_lookup_rows_arguments_clear (arguments);
}

static void
clear_assign_arguments (gpointer arguments)
{
  tps_assign_rows_arguments_clear (arguments);
}

TpsPythonCall *
tps_python_lookup_rows_with_lsns (TpsClient *client, const gchar *table,
                                  const TpsTensorView *indices, gint64 timeout_ns)
{
  static const TpsPythonAnswer answer = { sizeof (TpsRowsWithLsns), take_rows, clear_rows };
  TpsLookupRowsArguments arguments = { .table = g_strdup (table) };
  TpsPythonRequest request = {
    &tps_lookup_rows_with_lsns_rpc, sizeof arguments, &arguments,
    clear_lookup_arguments,         &answer,          TPS_PYTHON_RETRY_UNTIL_DEADLINE
  };

  tps_python_borrow (&arguments.indices, indices);
  return tps_python_request_send (client, &request, timeout_ns);
}

TpsPythonCall *
tps_python_assign_rows (TpsClient *client, const gchar *table, const TpsTensorView *indices,
                        const TpsTensorView *values, gint64 lsn, const gchar *push_client,
                        gint64 push_sequence, gint64 timeout_ns)
{
  TpsAssignRowsArguments arguments = { .table = g_strdup (table),
                                       .lsn = lsn,
                                       .push = { g_strdup (push_client), push_sequence } };
  TpsPythonRequest request = {
    &tps_assign_rows_rpc,           sizeof arguments, &arguments, clear_assign_arguments, NULL,
    TPS_PYTHON_RETRY_UNTIL_DEADLINE
  };

  tps_python_borrow (&arguments.indices, indices);
  tps_python_borrow (&arguments.values, values);
  return tps_python_request_send (client, &request, timeout_ns);
}
