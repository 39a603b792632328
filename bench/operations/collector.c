/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/operations/collector.h"

#include <libsoup/soup.h>
#include <stdatomic.h>

#include "runtime/base/sync.h"

struct TpsCollector
{
  GMainContext *context;
  GMainLoop *loop;
  SoupServer *server;
  gchar *url;
  TpsThread thread;
  gboolean runs;
  atomic_uint n_requests;
};

static void
answer (SoupServer *server, SoupServerMessage *message, const gchar *path, GHashTable *query,
        gpointer user_data)
{
  TpsCollector *collector = user_data;

  atomic_fetch_add (&collector->n_requests, 1);
  soup_server_message_set_status (message, SOUP_STATUS_OK, NULL);
  soup_server_message_set_response (message, "application/json", SOUP_MEMORY_STATIC, "{}", 2);
}

static gpointer
run (gpointer data)
{
  TpsCollector *collector = data;

  g_main_context_push_thread_default (collector->context);
  g_main_loop_run (collector->loop);
  g_main_context_pop_thread_default (collector->context);
  return NULL;
}

/* A server belongs to the context that is the thread's default when it begins to listen. */
static gboolean
start_listening (TpsCollector *collector, GError **error)
{
  GSList *uris;
  gboolean ok;

  g_main_context_push_thread_default (collector->context);
  ok = soup_server_listen_local (collector->server, 0, SOUP_SERVER_LISTEN_IPV4_ONLY, error);
  g_main_context_pop_thread_default (collector->context);
  if (!ok)
    return FALSE;
  uris = soup_server_get_uris (collector->server);
  collector->url = g_strdup_printf ("http://127.0.0.1:%d", g_uri_get_port (uris->data));
  g_slist_free_full (uris, (GDestroyNotify) g_uri_unref);
  return TRUE;
}

TpsCollector *
tps_collector_new (GError **error)
{
  g_autoptr (TpsCollector) collector = g_new0 (TpsCollector, 1);

  collector->context = g_main_context_new ();
  collector->loop = g_main_loop_new (collector->context, FALSE);
  collector->server = soup_server_new (NULL, NULL);
  soup_server_add_handler (collector->server, NULL, answer, collector, NULL);
  if (!start_listening (collector, error))
    return NULL;
  tps_sync_check (pthread_create (&collector->thread, NULL, run, collector));
  collector->runs = TRUE;
  return g_steal_pointer (&collector);
}

void
tps_collector_free (TpsCollector *collector)
{
  if (collector->runs)
    {
      g_main_loop_quit (collector->loop);
      tps_sync_check (pthread_join (collector->thread, NULL));
    }
  g_object_unref (collector->server);
  g_main_loop_unref (collector->loop);
  g_main_context_unref (collector->context);
  g_free (collector->url);
  g_free (collector);
}

const gchar *
tps_collector_get_url (const TpsCollector *collector)
{
  return collector->url;
}

guint
tps_collector_count (const TpsCollector *collector)
{
  return atomic_load (&collector->n_requests);
}
