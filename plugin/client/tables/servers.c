/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/tables/servers.h"

#include "runtime/base/error.h"
#include "runtime/base/outcome.h"

typedef struct FanOut FanOut;

typedef struct
{
  FanOut *fan_out;
  guint number;
} Part;

/* A group of requests that end together. */
struct FanOut
{
  TpsServers *servers;
  const TpsRpc *rpc;
  guint n_requests;
  TpsServerRequest *requests;
  Part *parts;
  GError **errors;
  GError **kept;      /* receives the errors; NULL = they are not needed */
  atomic_uint n_open; /* requests that have not ended; each client has its own thread */
  TpsServersAnswered done;
  gpointer user_data;
};

gboolean
tps_servers_init (TpsServers *servers, const gchar *const *addresses, guint n_addresses,
                  const TpsClientOptions *common, GError **error)
{
  *servers = (TpsServers) { 0 };
  if (n_addresses == 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "addresses: empty, expected at least one address");
  tps_mutex_init (&servers->lock);
  tps_cond_init (&servers->idle);
  servers->clients = g_new0 (TpsClient *, n_addresses);
  servers->addresses = g_new0 (gchar *, n_addresses + 1);
  for (guint i = 0; i < n_addresses; i++)
    {
      TpsClientOptions options = *common;

      options.address = addresses[i];
      servers->clients[i] = tps_client_new (&options, error);
      if (servers->clients[i] == NULL)
        {
          tps_servers_clear (servers);
          return FALSE;
        }
      servers->addresses[i] = g_strdup (addresses[i]);
      servers->n_servers++;
    }
  return TRUE;
}

void
tps_servers_cancel (TpsServers *servers)
{
  for (guint i = 0; i < servers->n_servers; i++)
    tps_client_cancel (servers->clients[i]);
}

/* No client may be freed before all calls have ended. The end of a call on one client may start a
 * request on a different client. */
void
tps_servers_clear (TpsServers *servers)
{
  tps_servers_cancel (servers);
  tps_mutex_lock (&servers->lock);
  while (servers->n_calls > 0)
    tps_cond_wait (&servers->idle, &servers->lock);
  tps_mutex_unlock (&servers->lock);
  for (guint i = 0; i < servers->n_servers; i++)
    tps_client_free (servers->clients[i]);
  g_clear_pointer (&servers->clients, g_free);
  g_clear_pointer (&servers->addresses, g_strfreev);
  tps_cond_clear (&servers->idle);
  tps_mutex_clear (&servers->lock);
}

static void
begin_call (TpsServers *servers)
{
  TPS_LOCK_SCOPE (&servers->lock);
  servers->n_calls++;
}

static void
end_call (TpsServers *servers)
{
  TPS_LOCK_SCOPE (&servers->lock);
  if (--servers->n_calls == 0)
    tps_cond_broadcast (&servers->idle);
}

/* -- requests -- */

static void
finish (FanOut *fan_out)
{
  TpsServers *servers = fan_out->servers;
  g_autoptr (GError) error = tps_servers_dup_error (servers, fan_out->requests, fan_out->n_requests,
                                                    fan_out->errors, fan_out->rpc->result == NULL);

  for (guint i = 0; i < fan_out->n_requests; i++)
    if (fan_out->kept != NULL)
      fan_out->kept[i] = fan_out->errors[i];
    else
      g_clear_error (&fan_out->errors[i]);
  fan_out->done (fan_out->user_data, error);
  g_free (fan_out->errors);
  g_free (fan_out->requests);
  g_free (fan_out->parts);
  g_free (fan_out);
  end_call (servers);
}

static void
on_answer (gpointer user_data, gpointer result, const GError *error)
{
  Part *part = user_data;
  FanOut *fan_out = part->fan_out;
  const TpsServerRequest *request = &fan_out->requests[part->number];
  GError **failure = &fan_out->errors[part->number];
  g_autoptr (GError) why = NULL;

  if (error != NULL)
    *failure = g_error_copy (error);
  else if (request->take != NULL && !request->take (result, request->user_data, &why))
    *failure = g_error_new (TPS_ERROR, TPS_ERROR_INTERNAL,
                            "the reply to EmbeddingTable:%s cannot be used: %s", fan_out->rpc->name,
                            why->message);
  if (atomic_fetch_sub_explicit (&fan_out->n_open, 1, memory_order_acq_rel) == 1)
    finish (fan_out);
}

static void
on_nothing_to_send (gpointer user_data, const GError *error)
{
  finish (user_data);
}

static FanOut *
fan_out_new (TpsServers *servers, const TpsRpc *rpc, const TpsServerRequest *requests,
             guint n_requests, TpsServersAnswered done, gpointer user_data)
{
  FanOut *fan_out = g_new0 (FanOut, 1);

  fan_out->servers = servers;
  fan_out->rpc = rpc;
  fan_out->n_requests = n_requests;
  fan_out->requests = g_memdup2 (requests, n_requests * sizeof requests[0]);
  fan_out->parts = g_new (Part, n_requests);
  fan_out->errors = g_new0 (GError *, n_requests + 1);
  atomic_init (&fan_out->n_open, n_requests);
  fan_out->done = done;
  fan_out->user_data = user_data;
  for (guint i = 0; i < n_requests; i++)
    fan_out->parts[i] = (Part) { fan_out, i };
  return fan_out;
}

/* `fan_out` may be freed as soon as the last request has been sent. */
static void
fan_out_send (FanOut *fan_out, gint64 deadline_ns)
{
  TpsServers *servers = fan_out->servers;
  guint n_requests = fan_out->n_requests;

  begin_call (servers);
  if (n_requests == 0)
    tps_servers_defer (servers, on_nothing_to_send, fan_out);
  for (guint i = 0; i < n_requests; i++)
    {
      const TpsServerRequest *request = &fan_out->requests[i];

      tps_rpc_call (servers->clients[request->server], fan_out->rpc, request->arguments,
                    TPS_RETRY_UNTIL_DEADLINE, deadline_ns, on_answer, &fan_out->parts[i]);
    }
}

void
tps_servers_call (TpsServers *servers, const TpsRpc *rpc, const TpsServerRequest *requests,
                  guint n_requests, gint64 deadline_ns, TpsServersAnswered done, gpointer user_data)
{
  fan_out_send (fan_out_new (servers, rpc, requests, n_requests, done, user_data), deadline_ns);
}

typedef struct
{
  TpsServers *servers;
  TpsClientDelayed func;
  gpointer user_data;
} Deferred;

static void
on_deferred (gpointer user_data, const GError *error)
{
  Deferred *deferred = user_data;
  TpsServers *servers = deferred->servers;

  /* Only a cancelled client is an error here. If the delay was refused (RESOURCE_EXHAUSTED), `func`
   * is simply called early. */
  deferred->func (deferred->user_data,
                  g_error_matches (error, TPS_ERROR, TPS_ERROR_ABORTED) ? error : NULL);
  g_free (deferred);
  end_call (servers);
}

void
tps_servers_defer (TpsServers *servers, TpsClientDelayed func, gpointer user_data)
{
  Deferred *deferred = g_new (Deferred, 1);

  *deferred = (Deferred) { servers, func, user_data };
  begin_call (servers);
  tps_client_delay (servers->clients[0], tps_clock_now_ns (), on_deferred, deferred);
}

/* -- synchronous requests -- */

static void
on_all_answered (gpointer outcome, const GError *error)
{
  tps_outcome_set (outcome, error);
}

gboolean
tps_servers_call_sync (TpsServers *servers, const TpsRpc *rpc, const TpsServerRequest *requests,
                       guint n_requests, gint64 deadline_ns, GError **errors)
{
  TpsOutcome outcome;
  FanOut *fan_out = fan_out_new (servers, rpc, requests, n_requests, on_all_answered, &outcome);

  tps_outcome_init (&outcome);
  fan_out->kept = errors;
  fan_out_send (fan_out, deadline_ns);
  return tps_outcome_wait (&outcome, NULL);
}

/* -- errors -- */

GError *
tps_servers_dup_error (const TpsServers *servers, const TpsServerRequest *requests,
                       guint n_requests, GError *const *errors, gboolean is_push)
{
  const GError *first = NULL;
  guint n_failed = 0, server = 0;
  GError *named;

  for (guint i = n_requests; i-- > 0;)
    if (errors[i] != NULL)
      {
        first = errors[i];
        server = requests[i].server;
        n_failed++;
      }
  if (first == NULL)
    return NULL;
  named = g_error_new (first->domain, first->code, "server %u (%s): %s", server,
                       servers->addresses[server], first->message);
  if (named->domain == TPS_ERROR && tps_error_get_retry_after_ms (first) >= 0)
    tps_error_set_retry_after_ms (named, tps_error_get_retry_after_ms (first));
  if (is_push && n_failed < n_requests)
    {
      g_autofree gchar *text = named->message;

      named->message = g_strdup_printf ("%s; applied on %u of %u servers", text,
                                        n_requests - n_failed, n_requests);
    }
  return named;
}
