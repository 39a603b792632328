/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A thriftps_trainer whose services are generated processors. This file replaces
 * tps_plugin_new_server() at link time (ld --wrap). The services Memory and Chunks remain the
 * server's own. */

#include "plugin/glib/handler.h"
#include "plugin/plugin.h"

/* A call that waits for other trainers blocks a thread of its generated processor. */
#define N_THREADS 64

TpsServer *__wrap_tps_plugin_new_server (TpsPlugin *plugin, const TpsServerOptions *options);

static TpsWorkerPool *threads; /* of the only server; it lives as long as the process */

static void
add_service (TpsServer *server, TpsPlugin *plugin, const gchar *name, GType type)
{
  g_autoptr (GError) error = NULL;
  gpointer handler = tps_handler_new (type, plugin, TPS_HOST_THREADED, &error);
  ThriftProcessor *processor;

  if (handler == NULL) /* not served by this plugin */
    return;
  processor = tps_handler_new_processor (handler);
  tps_server_add_processor (server, name, processor);
  g_object_unref (processor);
  g_object_unref (handler);
}

static void
shut_down (gpointer plugin)
{
  tps_plugin_shut_down (plugin);
}

TpsServer *
__wrap_tps_plugin_new_server (TpsPlugin *plugin, const TpsServerOptions *options)
{
  /* The server does not know that the processors use the plugin, so this service shuts it down. */
  TpsService end = { .name = "End", .object = plugin, .shut_down = shut_down };
  TpsServerOptions filled = *options;
  TpsServerParts parts = { 0 };
  TpsServer *server;

  threads = tps_worker_pool_new ("generated", N_THREADS);
  if (options->parts != NULL)
    parts = *options->parts;
  parts.workers = threads;
  parts.budgets = plugin->budgets;
  filled.parts = &parts;
  server = tps_server_new (&filled);
  tps_server_add_service (server, &end);
  add_service (server, plugin, "ParameterServer", TPS_TYPE_PARAMETER_SERVER_HANDLER);
  add_service (server, plugin, "EmbeddingTable", TPS_TYPE_EMBEDDING_TABLE_HANDLER);
  add_service (server, plugin, "Rendezvous", TPS_TYPE_RENDEZVOUS_HANDLER);
  add_service (server, plugin, "Trainer", TPS_TYPE_TRAINER_HANDLER);
  add_service (server, plugin, "Durability", TPS_TYPE_DURABILITY_HANDLER);
  add_service (server, plugin, "Node", TPS_TYPE_NODE_HANDLER);
  return server;
}
