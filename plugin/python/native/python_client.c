/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The client of one server; flat_functions.py generates the methods. */

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

static void
take_log_batch (TpsPythonCall *call, TpsWireLogBatch *batch)
{
  if (batch->records != NULL)
    tps_python_call_take_bytes (call, g_steal_pointer (&batch->records));
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
      if (field->of == &tps_log_batch_struct)
        take_log_batch (call, result);
    }
}

/* ---- calls ---------------------------------------------------------------------------------- */

typedef struct
{
  const TpsRpc *rpc;
  gpointer arguments; /* owned */
  TpsPythonCall *call;
} Sent;

static void
sent_free (Sent *sent)
{
  if (sent->rpc->clear_arguments != NULL)
    sent->rpc->clear_arguments (sent->arguments);
  g_free (sent->arguments);
  g_free (sent);
}

/* The arguments must be freed before the call ends: they borrow memory that Python releases after
 * the end of the call. */
static void
on_answer (gpointer user_data, gpointer result, const GError *error)
{
  Sent *sent = user_data;
  TpsPythonCall *call = sent->call;

  if (result != NULL)
    take_result (call, sent->rpc->result, result);
  sent_free (sent);
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
