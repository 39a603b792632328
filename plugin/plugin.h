/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The API for programs that embed ThriftPS. This header is all that such a program needs; link
 * //plugin.
 *
 * 1. The services. A TpsPlugin owns a parameter server, embedding tables, a rendezvous store and a
 * description of this process (or some of them), and the worker threads:
 *
 *   TpsPluginOptions options = { .name = "server0", .parameter_server = { .n_trainers = 8 } };
 *   g_autoptr (TpsPlugin) plugin = tps_plugin_new (&options, &error);
 *
 * tps_plugin_add_service() adds a service of your own (plugin/service/call.h;
 * plugin/wire/wire_tensor.h has the functions for its tensors).
 *
 * 2a. Inside a server of yours. If it uses a ThriftMultiplexedProcessor, register our services next
 * to yours, with a prefix of your choice. "ps." makes them ps.ParameterServer, ps.EmbeddingTable,
 * ps.Rendezvous, ps.Node, …:
 *
 *   tps_plugin_register (plugin, multiplexed, "ps.", TPS_HOST_THREADED, &error);
 *
 * Register your own processors first: ThriftMultiplexedProcessor uses the first one as its default,
 * for clients that do not multiplex. If your server has a single processor for all services, let it
 * be ours:
 *
 *   processor = tps_plugin_new_processor (plugin, "ParameterServer", TPS_HOST_THREADED, &error);
 *
 * plugin/glib/handler.h has implementations of the generated handler classes, whose methods you can
 * override.
 *
 * A call that waits for other trainers occupies the thread that serves its connection.
 * TPS_HOST_THREADED states that each connection has its own thread. With ThriftSimpleServer, pass
 * TPS_HOST_SINGLE_CONNECTION; calls that would have to wait then fail with UNAVAILABLE.
 *
 * 2b. Or with our server next to yours, with its own sockets and threads (plugin/server/server.h).
 * It is faster, and pending calls occupy no thread:
 *
 *   g_autoptr (TpsServer) server = tps_plugin_new_server (plugin, NULL);
 *   tps_server_listen (server, "0.0.0.0:7070", &error) && tps_server_start (server, &error);
 *
 * Your existing services can move to our server with one line each, which must come before the
 * start. Their generated processors and their clients need no change:
 *
 *   tps_server_add_processor (server, "Echo", processor);
 *
 * 3. Protection against hostile bytes, in a server of yours. The transports and protocols of the
 * Thrift C GLib library, and the code that its compiler generates, crash, loop or leak on some
 * inputs; plugin/host/library.h, harden.h and protocol.h list the inputs and the versions. Use the
 * following objects instead, for your own services, too. Peers see no difference, whether their
 * connections are framed or unframed, and whether their protocol is binary or compact:
 *
 *   transports = tps_host_transport_factory_new (NULL);           instead of your factories
 *   protocols = tps_host_protocol_factory_new ();
 *   processor = tps_harden_processor (processor, NULL);           after the last registration
 *   tps_register_types (get_types, G_N_ELEMENTS (get_types));     before the first connection
 *
 * `get_types` is an array of the `_get_type` functions of your generated classes.
 *
 * With these transports and protocols, a tensor is received into its final buffer and sent from its
 * own memory. The transports of Thrift C GLib copy each tensor several times and refuse frames
 * above 16,384,000 bytes. Only our server (2b) shares memory with clients. In any other server,
 * calls of the service Memory fail with UNAVAILABLE, and tensors travel through the socket.
 *
 * 4. Kinds of averaging servers of your own are in a registry: see tps_server_kind_register() in
 * runtime/server/averaging/server_kind.h. Register a kind before its first use.
 * tests/plugin/package/own_server.c has an example.
 *
 * 5. Shutdown. Call tps_plugin_shut_down(), which ends pending calls. Then stop every server that
 * uses the plugin. Last, call tps_plugin_close(). If there is no data directory, you may call
 * tps_plugin_free() instead, which has no result.
 *
 * The log. Warnings and errors (refused connections, expired rounds, ...) go to GLib's structured
 * log, domain "thriftps", from a separate thread. tps_trace_set_level() and tps_trace_set_sink() of
 * runtime/base/trace.h set the level and the destination; REFERENCE.md lists the events.
 *
 * The plugin does not change signal dispositions, locales or log handlers of the process. Creating
 * a TpsProcessor or one of the hardened objects repairs classes of the Thrift library in this
 * process (see plugin/host/library.h).
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
#include "runtime/server/tables/table_store.h"
#include "runtime/server/push_window.h"
#include "runtime/server/model/model_server.h"

G_BEGIN_DECLS

typedef struct TpsPlugin TpsPlugin;

/* Options of tps_plugin_new(), which copies them unless a field says otherwise. */
typedef struct
{
  const gchar *name; /* name of this process in Node.describe; NULL = "thriftps" */
  guint n_workers;   /* number of worker threads; 0 = one per core */
  /* Names from tps_plugin_list_services(), ended by NULL. NULL = all. Node, Memory, Session and
   * Chunks are always served, and so is Durability with a data directory. */
  const gchar *const *services;
  /* Devices in Node.describe, ended by NULL; borrowed. NULL = the CPU and
   * parameter_server.device. */
  const gchar *const *devices;
  /* `workers`, `metrics` and `buffers` may be NULL, which selects the plugin's own. */
  TpsParameterServerOptions parameter_server;
  /* As for parameter_server. If `n_trainers` or `round_timeout_ns` is 0, the value of
   * parameter_server applies. */
  TpsModelServerOptions model_server;
  /* limits of the memory and connections that peers can use; all zero = the defaults */
  TpsBudgetLimits limits;
  /* TRUE: the process belongs to the plugin alone. Buffers of the default pool are then charged to
   * the budgets, and the metrics include those of the process. */
  gboolean has_process;
  TpsTablePlace table_place;   /* for tables that specify no place; all zero = the CPU */
  gsize max_row_bytes_of_call; /* see TpsTableStoreOptions */
  /* The rules for callers of servers from tps_plugin_new_server(); the plugin takes a reference.
   * NULL = every caller may do everything, even on an address that other hosts can reach. If the
   * plugin is served by any other server, your program must check the callers. */
  TpsAccess *access;
  TpsPushWindowOptions pushes; /* limits of the windows of push ids of embedding tables */
  /* The data directory, from which tables, the model and push ids are restored after a restart.
   * Without a folder nothing is durable, and only the field `restore_from` is used. The plugin
   * replays the log in the background. Calls of its services fail with UNAVAILABLE until the replay
   * has ended; see tps_plugin_wait(). */
  TpsDurableOptions durable;
  /* Optional: called once, on a separate thread, when the replay has ended. `error` is borrowed;
   * NULL = the replay has succeeded. Not called without a data directory. */
  void (*recovered) (gpointer user_data, const GError *error);
  gpointer user_data;
} TpsPluginOptions;

/* Returns the names of all services that can be selected, ended by NULL; static. */
const gchar *const *tps_plugin_list_services (void);

/* Creates a plugin and starts its threads. The caller owns the result. Errors: INVALID_ARGUMENT (an
 * unknown service); those of tps_parameter_server_new(),
 * tps_model_server_new() and tps_durable_new(); and, without a data directory, those of reading the
 * snapshot `durable.restore_from`. */
TpsPlugin *tps_plugin_new (const TpsPluginOptions *options, GError **error);

/* Waits for running work, writes the rest of the log, and frees the plugin, which may be NULL. All
 * servers that use the plugin must have stopped before. FALSE: changes of durability INTERVAL that
 * were acknowledged may not be on the disk; the error names the LSNs and the reason. */
gboolean tps_plugin_close (TpsPlugin *plugin, GError **error);

/* As tps_plugin_close(), but without a result. */
void tps_plugin_free (TpsPlugin *plugin);

/* Ends pending calls with UNAVAILABLE, and refuses later calls with the same error. Thread: any. */
void tps_plugin_shut_down (TpsPlugin *plugin);

/* Waits until the data directory has been read; without a data directory, returns TRUE at once.
 * FALSE: the directory cannot be read. All calls of services that need the directory are then
 * refused, and the error describes the damage. Thread: any. */
gboolean tps_plugin_wait (TpsPlugin *plugin, GError **error);

/* Return the parts of the plugin; all borrowed. The first three are NULL if their service is not
 * served. Thread: any. */
TpsParameterServer *tps_plugin_get_parameter_server (TpsPlugin *plugin);
TpsModelServer *tps_plugin_get_model_server (TpsPlugin *plugin);
TpsTableStore *tps_plugin_get_tables (TpsPlugin *plugin);
TpsWorkerPool *tps_plugin_get_workers (TpsPlugin *plugin);
TpsDurable *tps_plugin_get_durable (TpsPlugin *plugin); /* NULL without a data directory */
TpsMetrics *tps_plugin_get_metrics (TpsPlugin *plugin);
const gchar *tps_plugin_get_name (TpsPlugin *plugin);
const gchar *const *tps_plugin_get_device_names (TpsPlugin *plugin); /* ended by NULL */
const TpsBudgets *tps_plugin_get_budgets (TpsPlugin *plugin);

/* Returns the tenants of the plugin's callers and tables; borrowed. The rules of `access` set their
 * limits, and servers of tps_plugin_new_server() enforce the limits. Thread: any. */
TpsQuotas *tps_plugin_get_quotas (TpsPlugin *plugin);

/* Adds a service to all processors and servers that are created later. The entry is copied; its
 * pointers are borrowed, but the plugin takes over an object with `destroy`. Must be called on one
 * thread, before the plugin is served. */
void tps_plugin_add_service (TpsPlugin *plugin, const TpsService *service);

/* Returns the services; borrowed until the next tps_plugin_add_service(). */
const TpsService *tps_plugin_get_services (TpsPlugin *plugin, guint *n_services);

/* Registers a processor for each service in `multiplexed`, under `prefix` followed by the name of
 * the service (NULL = no prefix). The plugin must outlive `multiplexed`. Errors: ALREADY_EXISTS if
 * `multiplexed` already has a processor of one of these names (then nothing is registered);
 * INVALID_ARGUMENT if the prefix contains a colon. Must be called on one thread, before the server
 * starts. */
gboolean tps_plugin_register (TpsPlugin *plugin, ThriftMultiplexedProcessor *multiplexed,
                              const gchar *prefix, TpsHostKind kind, GError **error);

/* Creates one processor for all services. It serves calls of "Service:method"; a call without a
 * service name goes to `default_service` (NULL = such calls are refused). The caller owns the
 * result; the plugin must outlive the processor. Errors: INVALID_ARGUMENT (no service has the name
 * `default_service`, or a service was added twice). Thread: any. */
ThriftProcessor *tps_plugin_new_processor (TpsPlugin *plugin, const gchar *default_service,
                                           TpsHostKind kind, GError **error);

/* Creates a server with all services; the caller must still call its listen and start functions.
 * `options` may be NULL. Fields that are NULL get defaults: `workers`, `budgets`, `access` and
 * `metrics` are those of the plugin. `quotas` are those of the plugin if there are rules
 * (`access`); `common_segments` are those of the plugin if there are no rules. `device` is the
 * device of the averaging server. The caller owns the result; the plugin must outlive the server.
 * Thread: any. */
TpsServer *tps_plugin_new_server (TpsPlugin *plugin, const TpsServerOptions *options);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPlugin, tps_plugin_free)

G_END_DECLS
