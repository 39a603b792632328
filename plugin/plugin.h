/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* ThriftPS inside a program of yours. Everything an embedding program needs; link //plugin.
 *
 * 1. What is served. A TpsPlugin owns a parameter server, embedding tables, a rendezvous store, a
 * trainer and a description of this process (or some of them), and the threads that they compute
 * on:
 *
 *   TpsPluginOptions options = { .name = "server0", .parameter_server = { .n_trainers = 8 } };
 *   g_autoptr (TpsPlugin) plugin = tps_plugin_new (&options, &error);
 *
 * Services of your own (plugin/service/call.h; for their tensors plugin/wire/wire_tensor.h) are
 * served with them: tps_plugin_add_service().
 *
 * 2a. Inside a server that you have. Where it uses a ThriftMultiplexedProcessor, ours go next to
 * yours, under their names after a prefix of your choice; "ps." makes them ps.ParameterServer,
 * ps.EmbeddingTable, ps.Rendezvous, ps.Node, …:
 *
 *   tps_plugin_register (plugin, multiplexed, "ps.", TPS_HOST_THREADED, &error);
 *
 * Register yours first: the first one is ThriftMultiplexedProcessor's default, which clients reach
 * that do not multiplex. Where there is one processor for everything, ours is
 *
 *   processor = tps_plugin_new_processor (plugin, "ParameterServer", TPS_HOST_THREADED, &error);
 *
 * Handlers that generated code defines, to be overridden method by method, are in
 * plugin/glib/handler.h.
 *
 * Calls that wait for other trainers keep the thread that serves their connection:
 * TPS_HOST_THREADED says that each connection has one. With ThriftSimpleServer say
 * TPS_HOST_SINGLE_CONNECTION; calls that would have to wait then fail with UNAVAILABLE.
 *
 * 2b. Or a server of ours beside yours, with its own sockets and threads, which is faster and waits
 * without threads (plugin/server/server.h):
 *
 *   g_autoptr (TpsServer) server = tps_plugin_new_server (plugin, NULL);
 *   tps_server_listen (server, "0.0.0.0:7070", &error) && tps_server_start (server, &error);
 *
 * Services that you have already move there with one line each, before the start; their generated
 * processors stay as they are, and so do their clients:
 *
 *   tps_server_add_processor (server, "Echo", processor);
 *
 * 3. Against hostile bytes, where the server is yours. The library's transports and protocols, and
 * the code that it generates, crash, loop or leak on some of them (which, and in what versions:
 * plugin/host/library.h, harden.h, protocol.h). Use these, for your own services too; peers notice
 * nothing, whether they speak framed or unframed, binary or compact protocol:
 *
 *   transports = tps_host_transport_factory_new (NULL);           in place of your factories
 *   protocols = tps_host_protocol_factory_new ();
 *   processor = tps_harden_processor (processor, NULL);           after the last registration
 *   tps_register_types (get_types, G_N_ELEMENTS (get_types));     before the first connection
 *
 * With these transports and protocols tensors are received where they stay and sent from where they
 * lie; with the library's own each is copied several times, and frames above 16,384,000 bytes are
 * refused. Memory is shared with clients by a server of ours alone (2b): under any other, Memory
 * answers UNAVAILABLE and tensors travel through the socket.
 *
 * 4. Classes of your own. Whatever is chosen by name (data, models, servers, trainers, hooks, ...)
 * is in registries of the runtime: see the `_register` functions in runtime/, and register before
 * the first use. tests/plugin/package/own_parts.c has an example of each.
 *
 * 5. The end. tps_plugin_shut_down() ends waiting calls; stop your server, so that nothing of the
 * plugin is served any more; then tps_plugin_free().
 *
 * The log. Warnings and errors (refused connections, expired rounds, ...) go to GLib's structured
 * log, domain "thriftps", from a thread of their own. tps_trace_set_level() and
 * tps_trace_set_sink() of runtime/base/trace.h choose another level or destination; OPERATING.md
 * lists the events.
 *
 * Nothing here changes signal dispositions, locales or log handlers of the process. Making a
 * TpsProcessor or one of the hardened pieces repairs classes of the Thrift library in this process
 * (plugin/host/library.h says which).
 */

#pragma once

#include <thrift/c_glib/processor/thrift_multiplexed_processor.h>

#include "plugin/access/access.h"
#include "plugin/host/harden.h"
#include "plugin/host/library.h"
#include "plugin/host/processor.h"
#include "plugin/host/protocol.h"
#include "plugin/host/transport.h"
#include "plugin/server/server.h"
#include "plugin/wire/wire_tensor.h"
#include "runtime/server/averaging/parameter_server.h"
#include "runtime/server/durable/durable.h"
#include "runtime/server/quota/quotas.h"
#include "runtime/trainer/pass/trainer.h"
#include "runtime/server/tables/table_store.h"
#include "runtime/server/push_window.h"
#include "runtime/server/model/model_server.h"

G_BEGIN_DECLS

typedef struct TpsPlugin TpsPlugin;

/* Copied. */
typedef struct
{
  const gchar *name; /* of this process, as Node.describe says it; NULL = "thriftps" */
  guint n_workers;   /* threads that compute; 0 = one per core */
  /* Names from tps_plugin_list_services(), ended by NULL; NULL = all, but Trainer only with
   * `trainer_links`. Node, Memory and Chunks are always served. */
  const gchar *const *services;
  /* how trainers of the Trainer service reach other servers; copied; NULL = no Trainer */
  const TpsTrainerLinks *trainer_links;
  const gchar *const *
      /* for Node.describe, ended by NULL, borrowed; NULL = the CPU and parameter_server.device */
      devices;
  TpsParameterServerOptions
      parameter_server; /* `workers` and `metrics` may be NULL: the plugin's own */
  TpsModelServerOptions
      model_server; /* the same; `n_trainers` and `round_timeout_ns` 0: those of parameter_server */
  TpsBudgetLimits limits; /* of what peers make the process hold; all zero = the defaults */
  /* The process is the plugin's alone: buffers of the default pool are charged to the budgets
   * too. */
  gboolean has_process;
  TpsTablePlace table_place;   /* of tables that say none; all zero = the CPU */
  gsize max_row_bytes_of_call; /* see TpsTableStoreOptions */
  /* Who may call what on servers of tps_plugin_new_server(); a reference is taken. NULL = everyone
   * may call everything. Hosts that serve the plugin otherwise check their callers themselves. */
  TpsAccess *access;
  TpsPushWindowOptions pushes; /* into embedding tables */
  TpsBounds latency_bounds;    /* of histograms, for exporters; all zero = the default ones */
  /* What makes tables, the model and push ids survive; without a folder nothing does, and of its
   * fields `restore_from` alone is read. The log is applied again while the plugin is served
   * already, whose calls are refused with UNAVAILABLE meanwhile: tps_plugin_wait(). */
  TpsDurableOptions durable;
  /* Optional: called once when that has ended, by a thread of its own, with the error (borrowed) or
   * NULL. */
  void (*recovered) (gpointer user_data, const GError *error);
  gpointer user_data;
} TpsPluginOptions;

/* The services there are to choose from, ended by NULL. */
const gchar *const *tps_plugin_list_services (void);

/* Errors: INVALID_ARGUMENT (an unknown service; Trainer without links); those of
 * tps_parameter_server_new(), tps_model_server_new() and tps_durable_new(), and of the restoration
 * without a data directory. */
TpsPlugin *tps_plugin_new (const TpsPluginOptions *options, GError **error);

/* Waits for work under way. Whoever serves the plugin must have stopped. */
void tps_plugin_free (TpsPlugin *plugin);

/* Ends waiting calls with UNAVAILABLE; refuses later ones with it. Thread: any. */
void tps_plugin_shut_down (TpsPlugin *plugin);

/* Waits until the data directory has been read; TRUE at once without one. FALSE: it cannot be, and
 * all calls of the services that need it are refused; the error names the damage. Thread: any. */
gboolean tps_plugin_wait (TpsPlugin *plugin, GError **error);

/* Borrowed; the first three are NULL where their service is not served. */
TpsParameterServer *tps_plugin_get_parameter_server (TpsPlugin *plugin);
TpsModelServer *tps_plugin_get_model_server (TpsPlugin *plugin);
TpsTableStore *tps_plugin_get_tables (TpsPlugin *plugin);
TpsWorkerPool *tps_plugin_get_workers (TpsPlugin *plugin);
TpsDurable *tps_plugin_get_durable (TpsPlugin *plugin); /* NULL without a data directory */
TpsMetrics *tps_plugin_get_metrics (TpsPlugin *plugin);
const gchar *tps_plugin_get_name (TpsPlugin *plugin);
const gchar *const *tps_plugin_get_device_names (TpsPlugin *plugin); /* ended by NULL */
const TpsBudgets *tps_plugin_get_budgets (TpsPlugin *plugin);

/* The tenants of the plugin's callers and tables, borrowed. Their limits are those of the rules of
 * `access`, and servers of tps_plugin_new_server() hold callers to them. */
TpsQuotas *tps_plugin_get_quotas (TpsPlugin *plugin);

/* One more service for what is made afterwards; the entry is copied, what it points to is borrowed.
 */
void tps_plugin_add_service (TpsPlugin *plugin, const TpsService *service);

/* The Trainer service over `trainer`, which is borrowed and outlives whoever serves it. */
void tps_plugin_add_trainer (TpsPlugin *plugin, TpsTrainer *trainer);

/* The services, borrowed until the next tps_plugin_add_service(). */
const TpsService *tps_plugin_get_services (TpsPlugin *plugin, guint *n_services);

/* Registers a processor for each service as `prefix` and its name (NULL = no prefix). The plugin
 * must outlive `multiplexed`. Errors: ALREADY_EXISTS where there is a processor of that name
 * (nothing is registered then); INVALID_ARGUMENT for a prefix with a colon. Thread: one, before the
 * server starts. */
gboolean tps_plugin_register (TpsPlugin *plugin, ThriftMultiplexedProcessor *multiplexed,
                              const gchar *prefix, TpsHostKind kind, GError **error);

/* One processor for all services, the caller's: "Service:method", or a method of `default_service`
 * (may be NULL). The plugin must outlive it. Errors: INVALID_ARGUMENT (no such default, a service
 * twice). */
ThriftProcessor *tps_plugin_new_processor (TpsPlugin *plugin, const gchar *default_service,
                                           TpsHostKind kind, GError **error);

/* A server of ours with all services, the caller's: listen and start are still to be called.
 * `options` may be NULL; without `workers`, `budgets` and `access` it gets the plugin's, without
 * `device` that of the averaging server. The plugin must outlive it, and so must `tls`. */
TpsServer *tps_plugin_new_server (TpsPlugin *plugin, const TpsServerOptions *options);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPlugin, tps_plugin_free)

G_END_DECLS
