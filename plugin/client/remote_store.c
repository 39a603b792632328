/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/client.h"
#include "plugin/wire/wire_rendezvous.h"
#include "runtime/base/error.h"
#include "runtime/base/sized.h"
#include "runtime/base/sync.h"

#define DEFAULT_TIMEOUT_NS ((gint64) 30 * 1000000000)
#define NS_PER_MS 1000000
#define MAX_WAIT_MS 10000                   /* longest time that one request waits at the server */
#define GRACE_NS ((gint64) 200 * NS_PER_MS) /* for the reply at the deadline */

typedef struct
{
  TpsStore base;
  gchar *address;
  gint64 timeout_ns;
  TpsClient *client;
} RemoteStore;

static gboolean
change (const RemoteStore *store, const TpsRpc *rpc, gconstpointer arguments, GError **error)
{
  return tps_rpc_call_sync (store->client, rpc, arguments, TPS_RETRY_ONCE,
                            tps_clock_now_ns () + store->timeout_ns, NULL, error);
}

static gboolean
remote_store_put (TpsStore *base, const gchar *key, GBytes *value, GError **error)
{
  TpsRendezvousArguments arguments = { .key = (gchar *) (gsize) key, .value = value };

  return change ((RemoteStore *) base, &tps_rendezvous_put_rpc, &arguments, error);
}

static gboolean
remote_store_remove (TpsStore *base, const gchar *prefix, GError **error)
{
  return change ((RemoteStore *) base, &tps_rendezvous_remove_rpc, &prefix, error);
}

/* Returns the time that the server may wait for the key. It is at least 1 ms, because 0 would mean
 * "do not wait". */
static gint32
server_timeout_ms (gint64 deadline_ns)
{
  gint64 left_ms = (deadline_ns - tps_clock_now_ns () + NS_PER_MS - 1) / NS_PER_MS;

  return (gint32) CLAMP (left_ms, 1, MAX_WAIT_MS);
}

static GBytes *
remote_store_get (TpsStore *base, const gchar *key, gint64 deadline_ns, GError **error)
{
  RemoteStore *store = (RemoteStore *) base;
  TpsRendezvousArguments arguments = { .key = (gchar *) (gsize) key };
  gboolean in_time = TRUE;

  while (in_time)
    {
      g_autoptr (GError) local_error = NULL;
      GBytes *value = NULL;

      arguments.timeout_ms = server_timeout_ms (deadline_ns);
      /* At the deadline, the server's error is more precise than the client's, so the client waits
       * a little longer. */
      if (tps_rpc_call_sync (store->client, &tps_rendezvous_get_rpc, &arguments, TPS_RETRY_ONCE,
                             deadline_ns + GRACE_NS, &value, &local_error))
        return value;
      if (!g_error_matches (local_error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED))
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return NULL;
        }
      in_time = tps_clock_now_ns () < deadline_ns;
    }
  return tps_fail_null (error, TPS_ERROR_DEADLINE_EXCEEDED,
                        "store at %s: key \"%s\" was not set before the deadline", store->address,
                        key);
}

static void
remote_store_free (TpsStore *base)
{
  RemoteStore *store = (RemoteStore *) base;

  tps_client_free (store->client);
  g_free (store->address);
  g_free (store);
}

TpsStore *
tps_remote_store_new (const TpsRemoteStoreOptions *given, GError **error)
{
  static const TpsStoreOps ops = {
    .put = remote_store_put,
    .get = remote_store_get,
    .remove = remote_store_remove,
    .free = remote_store_free,
  };
  TpsRemoteStoreOptions options;
  TpsClientOptions connection = { 0 };
  TpsClient *client;
  RemoteStore *store;

  TPS_SIZED_COPY (options, given);
  connection.address = options.address;
  connection.tls = options.tls;
  connection.token = options.token;
  client = tps_client_new (&connection, error);
  if (client == NULL)
    return NULL;
  store = g_new0 (RemoteStore, 1);
  store->base.ops = &ops;
  store->address = g_strdup (options.address);
  store->timeout_ns = options.timeout_ns > 0 ? options.timeout_ns : DEFAULT_TIMEOUT_NS;
  store->client = client;
  return &store->base;
}
