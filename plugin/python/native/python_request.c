/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/python/native/python_request.h"

#include <string.h>

typedef struct
{
  TpsPythonRequest request;
  gpointer arguments; /* a copy of `request.arguments`, owned */
  TpsPythonCall *call;
} Sent;

static void
sent_free (Sent *sent)
{
  if (sent->request.clear_arguments != NULL)
    sent->request.clear_arguments (sent->arguments);
  g_free (sent->arguments);
  g_free (sent);
}

static void
read_answer (Sent *sent, TpsReader *in, TpsWireType type, GError **error)
{
  const TpsPythonAnswer *answer = sent->request.answer;
  g_autofree gpointer result = answer != NULL ? g_malloc0 (answer->n_bytes) : NULL;

  if (tps_rpc_read_answer (sent->request.rpc, in, type, result, error) && answer != NULL)
    answer->take (sent->call, result);
  if (answer != NULL && answer->clear != NULL)
    answer->clear (result);
}

/* The arguments must be freed before the call ends: they borrow memory that Python releases after
 * the end of the call. */
static void
on_answer (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  Sent *sent = user_data;
  TpsPythonCall *call = sent->call;
  g_autoptr (GError) unclear = NULL;

  if (error == NULL)
    read_answer (sent, result, type, &unclear);
  sent_free (sent);
  tps_python_call_end (call, error != NULL ? error : unclear);
}

TpsPythonCall *
tps_python_request_send (TpsClient *client, const TpsPythonRequest *request, gint64 timeout_ns)
{
  TpsPythonCall *call = tps_python_call_new ();
  gint64 deadline_ns = tps_python_deadline (timeout_ns);
  Sent *sent = g_new0 (Sent, 1);

  sent->request = *request;
  sent->arguments = g_memdup2 (request->arguments, request->n_argument_bytes);
  sent->call = call;
  if (request->retry == TPS_PYTHON_RETRY_NEVER)
    tps_client_call_rpc (client, request->rpc, sent->arguments, deadline_ns, on_answer, sent);
  else
    tps_client_call_with_retries (
        client, request->rpc, sent->arguments,
        request->retry == TPS_PYTHON_RETRY_ONCE ? TPS_RETRY_ONCE : TPS_RETRY_UNTIL_DEADLINE,
        deadline_ns, on_answer, sent);
  return call;
}

static void
take_number (TpsPythonCall *call, gpointer result)
{
  const gint64 *number = result;

  call->reply.number = *number;
}

const TpsPythonAnswer tps_python_number_answer = { sizeof (gint64), take_number, NULL };
