/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Servers: the services in a program of yours, our server, and protection for servers of Thrift
 * C GLib. README.md and OPERATING.md describe what the services do.
 *
 * 1. The services. A TpsPlugin owns a parameter server, embedding tables, a rendezvous store and a
 * description of this process (or some of them), and the worker threads:
 *
 *   TpsPluginOptions options = TPS_INIT (TpsPluginOptions);
 *   options.name = "server0", options.n_trainers = 8;
 *   g_autoptr (TpsPlugin) plugin = tps_plugin_new (&options, &error);
 *
 * 2. Our server, with its own sockets and threads, in which pending calls occupy no thread:
 *
 *   g_autoptr (TpsServer) server = tps_plugin_new_server (plugin, NULL);
 *   tps_server_listen (server, "0.0.0.0:7070", &error) && tps_server_start (server, &error);
 *
 * Before the start, the server can get services of yours: with descriptors
 * (tps_plugin_add_service(), service.h), or with processors that Thrift's compiler has generated,
 * which need no change:
 *
 *   tps_server_add_processor (server, "Echo", processor);
 *
 * 3. Or a server of yours. If it uses a ThriftMultiplexedProcessor, register our services next to
 * yours, with a prefix of your choice. "ps." makes them ps.ParameterServer, ps.EmbeddingTable, …:
 *
 *   tps_plugin_register (plugin, multiplexed, "ps.", TPS_HOST_THREADED, &error);
 *
 * Register your own processors first: ThriftMultiplexedProcessor uses the first one as its default,
 * for clients that do not multiplex. If your server has a single processor for all services, let it
 * be tps_plugin_new_processor(). Only our server (2) shares memory with clients and checks the
 * rights of callers.
 *
 * 4. Protection against hostile bytes, in a server of yours. The transports and protocols of the
 * Thrift C GLib library, and the code that its compiler generates, crash, loop or leak on some
 * inputs. Use the following objects instead, for your own services, too. Peers see no difference,
 * whether their connections are framed or unframed, and whether their protocol is binary or
 * compact:
 *
 *   transports = tps_host_transport_factory_new (NULL);           instead of your factories
 *   protocols = tps_host_protocol_factory_new ();
 *   processor = tps_harden_processor (processor, NULL);           after the last registration
 *   tps_register_types (get_types, G_N_ELEMENTS (get_types));     before the first connection
 *
 * `get_types` is an array of the `_get_type` functions of your generated classes. With these
 * transports and protocols, a tensor is received into its final buffer and sent from its own
 * memory. Those of Thrift C GLib copy each tensor several times and refuse frames above 16,384,000
 * bytes.
 *
 * 5. Shutdown. Call tps_plugin_shut_down(), which ends pending calls. Then stop every server that
 * uses the plugin. Last, call tps_plugin_close(). If there is no data directory, you may call
 * tps_plugin_free() instead, which has no result.
 *
 * The log. Warnings and errors (refused connections, expired rounds, ...) go to GLib's structured
 * log, domain "thriftps", from a separate thread; REFERENCE.md lists the events, and
 * tps_trace_set_levels() selects them.
 *
 * The plugin does not change signal dispositions, locales or log handlers of the process. Creating
 * a processor or one of the hardened objects repairs classes of the Thrift library in this process.
 */

#pragma once

#include <thrift/c_glib/processor/thrift_multiplexed_processor.h>
#include <thrift/c_glib/protocol/thrift_protocol_factory.h>
#include <thrift/c_glib/server/thrift_server.h>
#include <thrift/c_glib/transport/thrift_transport_factory.h>
#include <thriftps/service.h>

G_BEGIN_DECLS

/* ---- the services ---------------------------------------------------------------------------- */

typedef struct TpsPlugin TpsPlugin;
typedef struct TpsPluginParts TpsPluginParts;

/* Options of tps_plugin_new(), which copies them unless a field says otherwise. */
typedef struct
{
  gsize size;        /* see TPS_INIT() */
  const gchar *name; /* name of this process in Node.describe; NULL = "thriftps" */
  guint n_workers;   /* number of worker threads; 0 = one per core */
  /* Names from tps_plugin_list_services(), ended by NULL. NULL = all. Node, Memory, Session and
   * Chunks are always served, and so is Durability with a data directory. */
  const gchar *const *services;
  /* TRUE: the process belongs to the plugin alone. Buffers of the default pool are then charged to
   * the budgets, and the metrics include those of the process. */
  gboolean has_process;
  /* The rules for callers of servers from tps_plugin_new_server(); the plugin takes a reference.
   * NULL = every caller may do everything, even on an address that other hosts can reach. If the
   * plugin is served by any other server, your program must check the callers. */
  TpsAccess *access;

  /* -- limits in bytes; 0 = the default -- */

  gsize max_memory_bytes;      /* of the process: the memory less a tenth */
  gsize max_pending_bytes;     /* of requests in flight, and of averages: a quarter of the memory */
  gsize max_table_bytes;       /* of embedding tables: 0.8 of the memory */
  gsize max_row_bytes_of_call; /* of the rows that the bags of one call name: 4 GiB */

  /* -- the parameter server -- */

  const gchar *server_kind; /* a TpsServerKind; NULL = "AverageParameterServer" */
  guint n_trainers;         /* 1 to 1,048,576; required with the service ParameterServer */
  TpsReduce reduce;
  gint64 round_timeout_ns; /* from a round's first arrival; 0 = 30 s */
  const gchar *device;     /* adds up dense gradients: "cuda:0"; NULL = the CPU */
  /* Of the model: the number of trainers that suffices for an update at the deadline, or when all
   * other trainers are lost (0 = all), and the largest number of versions by which a gradient may
   * be older than the newest model. */
  guint min_trainers;
  guint max_staleness;

  /* -- embedding tables -- */

  /* The place of tables that specify none: "cpu", "cuda:1", or "cuda:1/host" for a device that
   * works on rows in host memory. NULL = "cpu". */
  const gchar *table_device;
  guint push_window;      /* push ids that are remembered for each client; 0 = the default */
  guint max_push_clients; /* clients whose push ids are remembered; 0 = the default */

  /* -- durability -- */

  /* The data directory, from which tables, the model and push ids are restored after a restart.
   * NULL = nothing is durable. The plugin replays the log in the background. Calls of its services
   * fail with UNAVAILABLE until the replay has ended; see tps_plugin_wait(). */
  const gchar *data_folder;
  /* Of the model, and of tables that specify none: "none", "interval", "interval:MS" or "commit".
   * NULL = "commit". */
  const gchar *durability;
  gsize log_segment_bytes; /* of a file of the log; 0 = 256 MiB */
  /* Automatic snapshots, while the state changes: one is due when this time has passed since the
   * start of the last one (0 = not by time), or when the log has grown by this number of bytes
   * since then (0 = 4 GiB, G_MAXSIZE = not by size). */
  gint64 snapshot_interval_ns;
  gsize snapshot_log_bytes;
  guint snapshot_increments; /* consecutive snapshots of changed rows only; 0 = all are whole */
  guint keep_snapshots;      /* newest snapshots that are kept; 0 = 2 */
  /* A snapshot, or a data directory with one, from which the plugin starts if `data_folder` is NULL
   * or has no state yet. NULL = none. */
  const gchar *restore_from;
  /* Durability.restore and imports read only below this folder; NULL = they are refused. */
  const gchar *import_folder;
  /* Optional: called once, on a separate thread, when the replay has ended. `error` is borrowed;
   * NULL = the replay has succeeded. Not called without a data directory. */
  void (*recovered) (gpointer user_data, const GError *error);
  gpointer user_data;

  const TpsPluginParts *parts; /* of programs of this project; NULL in yours */
} TpsPluginOptions;

/* Returns the names of all services that can be selected, ended by NULL; static. */
const gchar *const *tps_plugin_list_services (void);

/* Creates a plugin and starts its threads. The caller owns the result. Errors: INVALID_ARGUMENT (an
 * unknown service, a value that is not valid); NOT_FOUND (an unknown kind of server or device);
 * those of opening the data directory; and, without a data directory, those of reading the snapshot
 * `restore_from`. */
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

/* Returns all metrics in Prometheus' text format 0.0.4. The caller owns the text. Thread: any. */
gchar *tps_plugin_dup_metrics (TpsPlugin *plugin);

/* Adds a service to all processors and servers that are created later. The entry is copied; its
 * pointers are borrowed, but the plugin takes over an object with `destroy`. Must be called on one
 * thread, before the plugin is served. */
void tps_plugin_add_service (TpsPlugin *plugin, const TpsService *service);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPlugin, tps_plugin_free)

/* ---- our server ------------------------------------------------------------------------------ */

/* A ThriftServer that serves many connections on a few threads: TCP and Unix sockets, framed and
 * unframed, binary and compact protocol, multiplexed and plain. The first bytes of a connection
 * select the protocol. Every server also serves Memory, Session and Chunks.
 *
 * thrift_server_serve() starts the server, and returns once another thread has stopped the server.
 * The processor, transports and factories of a ThriftServer are not used: the server serves
 * TpsServices and the processors that are added. */
typedef struct TpsServer TpsServer;
typedef struct TpsServerClass TpsServerClass;
typedef struct TpsServerParts TpsServerParts;

#define TPS_TYPE_SERVER (tps_server_get_type ())
#define TPS_SERVER(object) (G_TYPE_CHECK_INSTANCE_CAST ((object), TPS_TYPE_SERVER, TpsServer))
#define TPS_IS_SERVER(object) (G_TYPE_CHECK_INSTANCE_TYPE ((object), TPS_TYPE_SERVER))

/* All fields zero = the defaults. */
typedef struct
{
  gsize size;            /* see TPS_INIT() */
  guint n_io_threads;    /* 0 = one per core, 8 to 64; 2 on one core */
  guint n_workers;       /* 0 = one per core; those of the plugin if there is one */
  gsize max_frame_bytes; /* 0 = 256 MiB */
  /* The limit on the memory of requests in flight, in bytes, of a server without a plugin; 0 = a
   * quarter of the memory. */
  gsize max_pending_bytes;
  guint max_in_flight;   /* calls of one connection; 0 = 64 */
  guint max_connections; /* 0 = 1024 */
  /* The limit of the memory shared with one client; 0 = 1 GiB. Shared memory counts towards the
   * limit of pending requests; the memory shared with all clients together is limited to half of
   * that limit. */
  gsize max_shared_bytes;
  gboolean no_shared_memory;
  /* The timeout for a peer that stalls in the middle of a message, or stops reading; 0 = 60 s. */
  gint64 patience_ns;
  /* The timeout of a connection with pending calls whose peer has shut down its sending side, or
   * has vanished without a reset: the connection is closed if nothing has been sent to the peer for
   * this time; 0 = 30 s. */
  gint64 half_closed_ns;
  /* Encrypts TCP connections whose peers begin a TLS handshake; must have a certificate. A
   * reference is taken. NULL = no connection is encrypted. Unix sockets are never encrypted. */
  TpsTls *tls;
  gboolean tls_required; /* TCP connections without encryption are closed */
  gint64 handshake_ns;   /* the timeout of a TLS handshake; 0 = 10 s */
  /* The rights of callers; a reference is taken. NULL = those of the plugin; without a plugin,
   * every peer may call every method. Calls of a processor that was added require the right
   * PUSH. */
  TpsAccess *access;
  const gchar *default_service; /* NULL = the only service if exactly one was added, else none */
  const TpsServerParts *parts;  /* of programs of this project; NULL in yours */
} TpsServerOptions;

/* Creates a server with all services of the plugin; the caller must still call its listen and start
 * functions. `options` may be NULL. The caller owns the result, a GObject: the last
 * g_object_unref() stops and frees it. The plugin must outlive the server. Thread: any. */
TpsServer *tps_plugin_new_server (TpsPlugin *plugin, const TpsServerOptions *options);

/* Creates a server without a plugin, for services of your own. As above. Clients of client.h share
 * memory only with servers of a plugin, because they ask the service Node for it. */
TpsServer *tps_server_new (const TpsServerOptions *options);

/* The GType of TpsServer. Thread: any. */
GType tps_server_get_type (void);

/* Adds a service. The entry is copied; the objects that it refers to are borrowed and must outlive
 * the server. Must be called before the start. */
void tps_server_add_service (TpsServer *server, const TpsService *service);

/* Serves a Thrift processor of the application, generated or not, as the service `name`. In the
 * multiplexed protocol its methods are "Name:method". If `name` is the default service, clients may
 * also omit the service. The processor is hardened (below). Its calls run on workers, several at a
 * time, even calls of one connection. Some threads stay reserved for short calls of other services.
 * Calls larger than a frame reach the processor in chunks (thrift/chunks.thrift). The bytes and
 * objects that generated code creates from a call are charged to the budgets. Failures outside the
 * processor's contract are answered with TApplicationException.
 *
 * Takes a reference to `processor`. Must be called before the start, on the thread that owns the
 * server, and after tps_register_types() for the types of the processor's contract. */
void tps_server_add_processor (TpsServer *server, const gchar *name, ThriftProcessor *processor);

/* Opens one more socket to listen on: "HOST:PORT" (port 0 = any free port), "[IPV6]:PORT" or
 * "unix:PATH". Must be called before the start. Errors: INVALID_ARGUMENT (not an address, or not
 * one of this host), UNAVAILABLE (the address is in use, or too many files are open). */
gboolean tps_server_listen (TpsServer *server, const gchar *address, GError **error);

/* As tps_server_listen(), for a listening socket that another process, such as systemd, has opened.
 * Takes over `fd`; after an error, `fd` still belongs to the caller. Errors:
 * INVALID_ARGUMENT. Must be called before the start. */
gboolean tps_server_take_socket (TpsServer *server, gint fd, GError **error);

/* Returns the addresses for clients as a NULL-terminated array, which is borrowed. They have the
 * order in which the sockets were added, and the ports that the system has chosen. */
const gchar *const *tps_server_get_addresses (TpsServer *server);

/* Starts to serve, on threads of its own. Must be called only once. Errors: INVALID_ARGUMENT (a
 * service twice, no such default service, started before), RESOURCE_EXHAUSTED. */
gboolean tps_server_start (TpsServer *server, GError **error);

/* Stops serving. No more connections are accepted, pending calls fail with UNAVAILABLE, and running
 * calls have 3 s to end. Connections close after their last replies. Returns within 5 s: TRUE if
 * every call was answered; FALSE if some calls are still running, so that the release of the last
 * reference will wait for them. May be called again. Must not be called by a handler or a callback.
 * Thread: any. */
gboolean tps_server_stop (TpsServer *server);

/* Detects stuck threads, for watchdogs and health checks, which must call this function every few
 * seconds. Each call sends a probe through each I/O thread, and one through the timers and the
 * queue of the workers. While an earlier probe is outstanding, no new probe is sent. Returns FALSE
 * if a probe has been outstanding for `patience_ns`; `missing` (g_free) then names its thread.
 * Returns TRUE otherwise, even before the start. Never blocks. Thread: any. */
gboolean tps_server_check_threads (TpsServer *server, gint64 patience_ns, gchar **missing);

/* Return the current numbers of open connections, and of calls without a reply. Thread: any. */
guint tps_server_get_n_connections (TpsServer *server);
guint tps_server_get_n_calls (TpsServer *server);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsServer, g_object_unref)

/* ---- servers of yours ------------------------------------------------------------------------ */

/* The connections that a host's server serves at a time. A call that waits for other calls
 * (average_gradient) blocks the thread that called process(). In a server that serves one
 * connection at a time, such as ThriftSimpleServer, it would block the clients whose calls are
 * awaited, so such calls fail at once with UNAVAILABLE. */
typedef enum
{
  TPS_HOST_THREADED,          /* one thread for each connection: calls may wait */
  TPS_HOST_SINGLE_CONNECTION, /* one connection at a time: calls cannot wait */
} TpsHostKind;

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
 * `default_service`, or a service was added twice). Thread: any, for process() as well. */
ThriftProcessor *tps_plugin_new_processor (TpsPlugin *plugin, const gchar *default_service,
                                           TpsHostKind kind, GError **error);

/* ---- protection for servers of yours --------------------------------------------------------- */

/* A field that is 0 has its default, which is given in brackets. */
typedef struct
{
  gsize size; /* see TPS_INIT() */
  /* Limits of a received message: its size [256 MiB]; its size without large binaries [16 MiB]; its
   * number of strings, structs and containers inside containers [1,048,576], for each of which
   * generated code creates an object of a few hundred bytes. */
  gsize max_message_bytes;
  gsize max_head_bytes;
  guint max_elements;

  /* Timeouts: for the next byte inside a message, in both directions [30,000]; for a whole message
   * [300,000]; for the next message [G_MAXUINT: none]. */
  guint stall_timeout_ms;
  guint message_timeout_ms;
  guint idle_timeout_ms;

  /* The form of messages written before the first one was read, as by a client [binary, framed]. */
  TpsProtocolKind protocol;
  gboolean unframed;
} TpsHostOptions;

/* Returns a factory of transports that accept peers with and without framing, and transfer whole,
 * checked messages only. They must be used with the protocols below, on plain ThriftSockets or any
 * other transport. The caller owns the factory. `options` (NULL = defaults) is copied. */
ThriftTransportFactory *tps_host_transport_factory_new (const TpsHostOptions *options);

/* Returns a factory of protocols that protect generated and other readers from malformed bytes: a
 * message was received and checked as a whole, so every length, count and type is correct, nesting
 * is bounded, and no field occurs twice. The caller owns it. */
ThriftProtocolFactory *tps_host_protocol_factory_new (void);

/* Creates a processor that runs `processor` behind the same checks, over any transport and
 * protocol, and repairs its class and the library. The caller owns it; it takes a reference to
 * `processor`, which may be any processor; a ThriftMultiplexedProcessor must have all its services
 * registered. Malformed calls close the connection; calls of unknown services and methods get the
 * reply UNKNOWN_METHOD. Only the limits of `options` (NULL = defaults) apply, and only to messages
 * that come through the library's own transports. Thread: one, before the server starts; process()
 * may run on every thread that `processor` allows. */
ThriftProcessor *tps_harden_processor (ThriftProcessor *processor, const TpsHostOptions *options);

/* A generated function `<namespace>_<struct>_get_type`. */
typedef GType (*TpsGetType) (void);

/* Registers the types, initialises their classes and repairs them, because xxx_get_type() of
 * generated structs is not thread-safe. `get_types` [n_get_types] should contain the functions of
 * all structs, exceptions, `<service>_<method>_args` and `_result` of your services. A type that is
 * missing is registered by the first call that needs it, which is unsafe. Thread: one, before the
 * server starts. */
void tps_register_types (const TpsGetType *get_types, guint n_get_types);

G_END_DECLS
