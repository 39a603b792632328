/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/stub_call.h"

#include <string.h>

#include "plugin/client/retry.h"
#include "runtime/base/error.h"
#include "runtime/base/outcome.h"

typedef struct
{
  const TpsRpc *rpc;
  gpointer result;
  TpsOutcome outcome;
} Answer;

static void
on_answer (gpointer user_data, TpsReader *in, TpsWireType type, const GError *error)
{
  Answer *answer = user_data;
  g_autoptr (GError) unreadable = NULL;

  if (error == NULL)
    tps_rpc_read_answer (answer->rpc, in, type, answer->result, &unreadable);
  tps_outcome_set (&answer->outcome, error != NULL ? error : unreadable);
}

gboolean
tps_stub_call (TpsClient *client, const TpsRpcValue *call, gboolean repeats, gint64 deadline_ns,
               gpointer result, GError **error)
{
  const TpsRpc *rpc = call->rpc;
  g_autofree gpointer answered = g_malloc0 (rpc->n_result_bytes);
  Answer answer = { .rpc = rpc, .result = answered };
  gboolean ok;

  tps_outcome_init (&answer.outcome);
  if (repeats)
    tps_client_call_with_retries (client, rpc, call->value, TPS_RETRY_UNTIL_DEADLINE, deadline_ns,
                                  on_answer, &answer);
  else
    tps_client_call_rpc (client, rpc, call->value, deadline_ns, on_answer, &answer);
  ok = tps_outcome_wait (&answer.outcome, error);
  if (ok && result != NULL)
    memcpy (result, answered, rpc->n_result_bytes);
  else if (rpc->clear_result != NULL)
    rpc->clear_result (answered);
  return ok;
}
