/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The client of one server, whose methods flat_functions.py generates, and tables on any number of
 * servers. */

#include "plugin/python/native/python_client.h"

#include <unistd.h>

#include "plugin/python/native/python_values.h"
#include "plugin/wire/wire_durability.h"
#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_parameter_server.h"

/* ---- results -------------------------------------------------------------------------------- */

static void
take_average (TpsPythonCall *call, TpsGradient *average)
{
  TpsTensor sparse[2] = { average->indices, average->values };

  if (average->kind == TPS_GRADIENT_DENSE)
    tps_python_call_take_tensors (call, &average->dense, 1);
  else if (average->kind == TPS_GRADIENT_SPARSE)
    {
      average->indices = average->values = (TpsTensor) { 0 };
      call->reply.number = average->rows;
      tps_python_call_take_tensors (call, sparse, G_N_ELEMENTS (sparse));
    }
}

static void
take_rows (TpsPythonCall *call, TpsRowsWithLsns *rows)
{
  TpsTensor tensors[2] = { rows->rows, rows->lsns };

  *rows = (TpsRowsWithLsns) { 0 };
  tps_python_call_take_tensors (call, tensors, G_N_ELEMENTS (tensors));
}

/* Moves a result into the call. Structs without a form of their own become JSON. */
static void
take_result (TpsPythonCall *call, const TpsField *field, gpointer result)
{
  if (field->kind == &tps_kind_i64)
    call->reply.number = *(const gint64 *) result;
  else if (field->kind == &tps_kind_string)
    tps_python_call_take_text (call, g_string_new (*(gchar *const *) result));
  else if (field->kind == &tps_kind_bytes)
    tps_python_call_take_bytes (call, g_steal_pointer ((GBytes **) result));
  else if (field->of == &tps_gradient_struct)
    take_average (call, result);
  else if (field->of == &tps_model_struct)
    tps_python_call_set_model (call, *(TpsModelVersion *const *) result);
  else if (field->of == &tps_rows_with_lsns_struct)
    take_rows (call, result);
  else
    {
      tps_python_call_take_text (call, tps_field_to_json (field, result));
      if (field->of == &tps_log_batch_struct && ((TpsWireLogBatch *) result)->records != NULL)
        tps_python_call_take_bytes (call, g_steal_pointer (&((TpsWireLogBatch *) result)->records));
    }
}

/* ---- calls ---------------------------------------------------------------------------------- */

typedef struct
{
  const TpsRpc *rpc;
  gpointer arguments; /* owned */
  TpsPythonCall *call;
} Sent;

/* The arguments must be freed before the call ends: they borrow memory that Python releases after
 * the end of the call. */
static void
on_answer (gpointer user_data, gpointer result, const GError *error)
{
  Sent *sent = user_data;
  TpsPythonCall *call = sent->call;

  if (result != NULL)
    take_result (call, sent->rpc->result, result);
  if (sent->rpc->clear_arguments != NULL)
    sent->rpc->clear_arguments (sent->arguments);
  g_free (sent->arguments);
  g_free (sent);
  tps_python_call_end (call, error);
}

TpsPythonCall *
tps_python_request_send (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                         TpsRetry retry, gint64 timeout_ns)
{
  TpsPythonCall *call = tps_python_call_new ();
  Sent *sent = g_new0 (Sent, 1);

  sent->rpc = rpc;
  sent->arguments = g_memdup2 (arguments, rpc->n_argument_bytes);
  sent->call = call;
  tps_rpc_call (client, rpc, sent->arguments, retry, tps_python_deadline (timeout_ns), on_answer,
                sent);
  return call;
}

TpsPythonCall *
tps_python_refuse (const TpsRpc *rpc, gpointer arguments, GError *error_taken)
{
  if (rpc->clear_arguments != NULL)
    rpc->clear_arguments (arguments);
  return tps_python_call_new_ended (error_taken);
}

/* ---- the client ----------------------------------------------------------------------------- */

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

/* ---- tables on any number of servers --------------------------------------------------------- */

TpsRemoteTables *
tps_python_tables_new (const gchar *const *addresses, guint n_addresses, const gchar *client,
                       gboolean exact, const TpsPythonTls *tls, TpsPythonCall **failed)
{
  TpsRemoteTablesOptions options = {
    .addresses = addresses, .n_addresses = n_addresses, .client = client, .exact = exact
  };
  g_autoptr (TpsTls) files = NULL;
  GError *error = NULL;
  TpsRemoteTables *tables = NULL;

  if (tps_python_read_tls (tls, &files, &error))
    {
      options.tls = files;
      options.token = g_getenv ("THRIFTPS_TOKEN");
      tables = tps_remote_tables_new (&options, &error);
    }
  if (tables == NULL)
    *failed = tps_python_call_new_ended (error);
  return tables;
}

void
tps_python_tables_cancel (TpsRemoteTables *tables)
{
  tps_remote_tables_cancel (tables);
}

void
tps_python_tables_free (TpsRemoteTables *tables, gint32 owner)
{
  if (owner == getpid ())
    tps_remote_tables_free (tables);
}

TpsPythonCall *
tps_python_tables_create (TpsRemoteTables *tables, const TpsRemoteTable *table, gint64 timeout_ns)
{
  GError *error = NULL;

  tps_remote_tables_create (tables, table, tps_python_deadline (timeout_ns), &error);
  return tps_python_call_new_ended (error);
}

TpsPythonCall *
tps_python_tables_drop (TpsRemoteTables *tables, const gchar *name, gint64 timeout_ns)
{
  GError *error = NULL;

  tps_remote_tables_drop (tables, name, tps_python_deadline (timeout_ns), &error);
  return tps_python_call_new_ended (error);
}

TpsPythonCall *
tps_python_tables_discover (TpsRemoteTables *tables, gint64 timeout_ns)
{
  GError *error = NULL;

  tps_remote_tables_discover (tables, tps_python_deadline (timeout_ns), &error);
  return tps_python_call_new_ended (error);
}

/* A table as an object of JSON. */
static const TpsField table_fields[] = {
  TPS_FIELD_WITH (TpsRemoteTable, name, 1, TPS_FIELD_REQUIRED, tps_kind_string, NULL),
  TPS_FIELD_WITH (TpsRemoteTable, rows, 2, TPS_FIELD_REQUIRED, tps_kind_i64, NULL),
  TPS_FIELD_WITH (TpsRemoteTable, dim, 3, TPS_FIELD_REQUIRED, tps_kind_i32, NULL),
  TPS_FIELD_WITH (TpsRemoteTable, dtype, 4, TPS_FIELD_REQUIRED, tps_kind_i32, NULL),
  TPS_FIELD_WITH (TpsRemoteTable, rounding, 5, TPS_FIELD_REQUIRED, tps_kind_i32, NULL),
  TPS_FIELD_WITH (TpsRemoteTable, bytes, 6, TPS_FIELD_REQUIRED, tps_kind_i64, NULL),
  { "device", 7, TPS_FIELD_REQUIRED, &tps_kind_string, NULL,
    G_STRUCT_OFFSET (TpsRemoteTable, place), 0 },
  TPS_FIELD_WITH (TpsRemoteTable, durability, 8, TPS_FIELD_REQUIRED, tps_kind_i32, NULL),
  TPS_FIELD_WITH (TpsRemoteTable, optimizer, 9, TPS_FIELD_REQUIRED, tps_kind_struct,
                  &tps_optimizer_struct),
  TPS_FIELD_END
};
static const TpsStruct table_struct = TPS_STRUCT ("Table", table_fields);
static const TpsList table_list = { TPS_RESULT (tps_kind_struct, &table_struct),
                                    TPS_LIST_PTR_ARRAY };
static const TpsField tables_field = TPS_RESULT (tps_kind_list, &table_list);

TpsPythonCall *
tps_python_tables_list (TpsRemoteTables *tables, gint64 timeout_ns)
{
  TpsPythonCall *call = tps_python_call_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray)
      list = tps_remote_tables_list (tables, tps_python_deadline (timeout_ns), &error);

  if (list != NULL)
    tps_python_call_take_text (call, tps_field_to_json (&tables_field, &list));
  tps_python_call_end (call, error);
  return call;
}

typedef struct
{
  TpsPythonCall *call;
  guint n_outputs;
} Lookup;

static void
on_looked_up (gpointer user_data, TpsTensor *outputs, const GError *error)
{
  Lookup *lookup = user_data;

  if (error == NULL)
    tps_python_call_take_tensors (lookup->call, outputs, lookup->n_outputs);
  tps_python_call_end (lookup->call, error);
  g_free (lookup);
}

static void
on_applied (gpointer user_data, const GError *error)
{
  tps_python_call_end (user_data, error);
}

static Lookup *
lookup_new (TpsPythonCall *call, guint n_outputs)
{
  Lookup *lookup = g_new (Lookup, 1);

  *lookup = (Lookup) { call, n_outputs };
  return lookup;
}

TpsPythonCall *
tps_python_tables_lookup_bags (TpsRemoteTables *tables, const TpsBagQuery *queries, guint n_queries,
                               gint64 timeout_ns)
{
  TpsPythonCall *call = tps_python_call_new ();

  tps_remote_tables_lookup_bags (tables, queries, n_queries, tps_python_deadline (timeout_ns),
                                 on_looked_up, lookup_new (call, 2 * n_queries));
  return call;
}

TpsPythonCall *
tps_python_tables_apply_bags (TpsRemoteTables *tables, const TpsBagGradient *gradients,
                              guint n_gradients, gint64 timeout_ns)
{
  TpsPythonCall *call = tps_python_call_new ();

  tps_remote_tables_apply_bags (tables, gradients, n_gradients, tps_python_deadline (timeout_ns),
                                on_applied, call);
  return call;
}

TpsPythonCall *
tps_python_tables_lookup_rows (TpsRemoteTables *tables, const gchar *name,
                               const TpsTensorView *indices, gint64 timeout_ns)
{
  TpsPythonCall *call = tps_python_call_new ();

  tps_remote_tables_lookup_rows (tables, name, *indices, tps_python_deadline (timeout_ns),
                                 on_looked_up, lookup_new (call, 1));
  return call;
}

TpsPythonCall *
tps_python_tables_apply_rows (TpsRemoteTables *tables, const gchar *name,
                              const TpsTensorView *indices, const TpsTensorView *values,
                              gint64 timeout_ns)
{
  TpsPythonCall *call = tps_python_call_new ();

  tps_remote_tables_apply_rows (tables, name, *indices, *values, tps_python_deadline (timeout_ns),
                                on_applied, call);
  return call;
}
