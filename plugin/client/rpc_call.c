/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Calls of methods by their descriptors, with retries: thriftps/client.h. */

#include <string.h>

#include "plugin/client/client.h"
#include "runtime/base/error.h"
#include "runtime/base/outcome.h"

#define NS_PER_MS 1000000
#define FIRST_BACKOFF_MS 10
#define MAX_BACKOFF_MS 1000

/* A call and the state of its attempts. */
typedef struct
{
  TpsClient *client;
  const TpsRpc *rpc;
  gconstpointer arguments;
  TpsRetry retry;
  gint64 deadline_ns;
  guint n_lost; /* consecutive lost connections */
  TpsRpcDone done;
  gpointer user_data;
  gint64 result[]; /* of rpc->n_result_bytes bytes; zero before it is read */
} RetriedCall;

static void send_call (RetriedCall *call);

static void
finish (RetriedCall *call, const GError *error)
{
  gboolean has_result = error == NULL && call->rpc->result != NULL;

  call->done (call->user_data, has_result ? call->result : NULL, error);
  if (call->rpc->clear_result != NULL)
    call->rpc->clear_result (call->result);
  g_free (call);
}

static void
on_retry_time (gpointer user_data, const GError *error)
{
  RetriedCall *call = user_data;

  if (error != NULL)
    finish (call, error);
  else
    send_call (call);
}

/* Returns a random delay after a lost connection: between half of the exponential backoff and the
 * whole. It is random, so that the clients of a failed server do not all reconnect at the same
 * time. */
static gint64
get_backoff_ms (guint n_lost)
{
  gint64 longest_ms = MIN (FIRST_BACKOFF_MS << MIN (n_lost, 10), MAX_BACKOFF_MS);

  return longest_ms / 2 + g_random_int_range (0, (gint32) (longest_ms / 2));
}

/* Returns the delay before the next attempt; -1 = the error is final. */
static gint64
get_delay_ms (RetriedCall *call, const GError *error)
{
  if (error->domain != TPS_ERROR || call->retry == TPS_RETRY_NEVER)
    return -1;
  if (error->code == TPS_ERROR_CONNECTION_LOST)
    {
      call->n_lost++;
      if (call->n_lost == 1)
        return 0;
      return call->retry == TPS_RETRY_ONCE ? -1 : get_backoff_ms (call->n_lost - 2);
    }
  call->n_lost = 0;
  if ((error->code != TPS_ERROR_RESOURCE_EXHAUSTED && error->code != TPS_ERROR_UNAVAILABLE)
      || tps_error_get_retry_after_ms (error) < 0)
    return -1;
  return MAX (tps_error_get_retry_after_ms (error), 1);
}

/* Returns FALSE if the error is final. */
static gboolean
try_again (RetriedCall *call, const GError *error)
{
  gint64 delay_ms = get_delay_ms (call, error);
  gint64 retry_ns = tps_clock_now_ns () + delay_ms * NS_PER_MS;

  if (delay_ms < 0 || retry_ns >= call->deadline_ns)
    return FALSE;
  if (delay_ms == 0)
    send_call (call);
  else
    tps_client_delay (call->client, retry_ns, on_retry_time, call);
  return TRUE;
}

static void
on_answer (gpointer user_data, TpsReader *in, TpsWireType type, const GError *error)
{
  RetriedCall *call = user_data;
  g_autoptr (GError) unclear = NULL;

  if (error == NULL)
    tps_rpc_read_answer (call->rpc, in, type, call->result, &unclear);
  else if (try_again (call, error))
    return;
  finish (call, error != NULL ? error : unclear);
}

static void
send_call (RetriedCall *call)
{
  tps_client_call_rpc (call->client, call->rpc, call->arguments, call->deadline_ns, on_answer,
                       call);
}

void
tps_rpc_call (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments, TpsRetry retry,
              gint64 deadline_ns, TpsRpcDone done, gpointer user_data)
{
  RetriedCall *call = g_malloc0 (sizeof (RetriedCall) + rpc->n_result_bytes);

  g_assert (rpc->result == NULL || rpc->n_result_bytes > 0);
  call->client = client;
  call->rpc = rpc;
  call->arguments = arguments;
  call->retry = retry;
  call->deadline_ns = deadline_ns;
  call->done = done;
  call->user_data = user_data;
  send_call (call);
}

typedef struct
{
  gpointer result;
  gsize n_bytes;
  TpsOutcome outcome;
} Wait;

static void
on_done (gpointer user_data, gpointer result, const GError *error)
{
  Wait *wait = user_data;

  if (result != NULL && wait->result != NULL)
    {
      memcpy (wait->result, result, wait->n_bytes);
      memset (result, 0, wait->n_bytes);
    }
  tps_outcome_set (&wait->outcome, error);
}

gboolean
tps_rpc_call_sync (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments, TpsRetry retry,
                   gint64 deadline_ns, gpointer result, GError **error)
{
  Wait wait = { .result = result, .n_bytes = rpc->n_result_bytes };

  tps_outcome_init (&wait.outcome);
  tps_rpc_call (client, rpc, arguments, retry, deadline_ns, on_done, &wait);
  return tps_outcome_wait (&wait.outcome, error);
}
