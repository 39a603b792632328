/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/retry.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define NS_PER_MS 1000000

/* One call, over all its tries. */
typedef struct
{
  TpsClient *client;
  const TpsRpc *rpc;
  gconstpointer arguments;
  gint64 deadline_ns;
  gboolean tried_anew;
  TpsClientDone done;
  gpointer user_data;
} RetriedCall;

static void send_call (RetriedCall *call);

static void
finish (RetriedCall *call, TpsReader *result, TpsWireType type, const GError *error)
{
  call->done (call->user_data, result, type, error);
  g_free (call);
}

static void
on_retry_time (gpointer user_data, const GError *error)
{
  RetriedCall *call = user_data;

  if (error != NULL)
    finish (call, NULL, TPS_WIRE_STOP, error);
  else
    send_call (call);
}

/* FALSE when the error is final. */
static gboolean
try_again (RetriedCall *call, const GError *error)
{
  gint64 now_ns = tps_clock_now_ns ();
  gint64 retry_ns;

  if (error->domain != TPS_ERROR || now_ns >= call->deadline_ns)
    return FALSE;
  if (error->code == TPS_ERROR_CONNECTION_LOST && !call->tried_anew)
    {
      call->tried_anew = TRUE;
      send_call (call);
      return TRUE;
    }
  if (error->code != TPS_ERROR_RESOURCE_EXHAUSTED || tps_error_get_retry_after_ms (error) < 0)
    return FALSE;
  retry_ns = now_ns + (gint64) MAX (tps_error_get_retry_after_ms (error), 1) * NS_PER_MS;
  if (retry_ns >= call->deadline_ns)
    return FALSE;
  tps_client_delay (call->client, retry_ns, on_retry_time, call);
  return TRUE;
}

static void
on_answer (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  RetriedCall *call = user_data;

  if (error == NULL || !try_again (call, error))
    finish (call, result, type, error);
}

static void
send_call (RetriedCall *call)
{
  tps_client_call_rpc (call->client, call->rpc, call->arguments, call->deadline_ns, on_answer,
                       call);
}

void
tps_client_call_with_retries (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                              gint64 deadline_ns, TpsClientDone done, gpointer user_data)
{
  RetriedCall *call = g_new0 (RetriedCall, 1);

  call->client = client;
  call->rpc = rpc;
  call->arguments = arguments;
  call->deadline_ns = deadline_ns;
  call->done = done;
  call->user_data = user_data;
  send_call (call);
}
