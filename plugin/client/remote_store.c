/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/remote_store.h"

#include "plugin/client/stubs.h"
#include "runtime/base/error.h"
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

/* Returns TRUE if the error is the first lost connection, after which one retry is due. Counts the
 * lost connections. */
static gboolean
may_try_again (const GError *error, guint *n_lost)
{
  return g_error_matches (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST) && (*n_lost)++ == 0;
}

/* Puts the value under `key`. If the value is NULL, removes all keys that begin with `key`. */
static gboolean
change (TpsStore *base, const gchar *key, GBytes *value, GError **error)
{
  RemoteStore *store = (RemoteStore *) base;
  gint64 deadline_ns = tps_clock_now_ns () + store->timeout_ns;
  g_autoptr (GError) local_error = NULL;
  guint n_lost = 0;

  do
    {
      g_clear_error (&local_error);
      if (value != NULL)
        tps_remote_put (store->client, key, value, deadline_ns, &local_error);
      else
        tps_remote_remove (store->client, key, deadline_ns, &local_error);
    }
  while (may_try_again (local_error, &n_lost));
  if (local_error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local_error));
  return FALSE;
}

static gboolean
remote_store_put (TpsStore *base, const gchar *key, GBytes *value, GError **error)
{
  return change (base, key, value, error);
}

static gboolean
remote_store_remove (TpsStore *base, const gchar *prefix, GError **error)
{
  return change (base, prefix, NULL, error);
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
  guint n_lost = 0;

  for (;;)
    {
      g_autoptr (GError) local_error = NULL;
      /* At the deadline, the server's error is more precise than the client's, so the client waits
       * a little longer. */
      GBytes *value = tps_remote_get (store->client, key, server_timeout_ms (deadline_ns),
                                      deadline_ns + GRACE_NS, &local_error);
      gboolean in_time = tps_clock_now_ns () < deadline_ns;

      if (value != NULL)
        return value;
      if (in_time
          && (g_error_matches (local_error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED)
              || may_try_again (local_error, &n_lost)))
        continue;
      if (g_error_matches (local_error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED))
        g_set_error (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED,
                     "store at %s: key \"%s\" was not set before the deadline", store->address,
                     key);
      else
        g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
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
tps_remote_store_new (const gchar *address, gint64 timeout_ns, GError **error)
{
  return tps_remote_store_new_secure (address, NULL, NULL, timeout_ns, error);
}

TpsStore *
tps_remote_store_new_secure (const gchar *address, TpsTls *tls, const gchar *token,
                             gint64 timeout_ns, GError **error)
{
  static const TpsStoreOps ops = {
    .put = remote_store_put,
    .get = remote_store_get,
    .remove = remote_store_remove,
    .free = remote_store_free,
  };
  TpsClientOptions options = { .address = address, .tls = tls, .token = token };
  TpsClient *client = tps_client_new (&options, error);
  RemoteStore *store;

  if (client == NULL)
    return NULL;
  store = g_new0 (RemoteStore, 1);
  store->base.ops = &ops;
  store->address = g_strdup (address);
  store->timeout_ns = timeout_ns > 0 ? timeout_ns : DEFAULT_TIMEOUT_NS;
  store->client = client;
  return &store->base;
}
