/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* TpsServer, a ThriftServer that serves many connections on a few threads: TCP and Unix sockets,
 * framed and unframed, binary and compact protocol, multiplexed and plain. The first bytes of a
 * connection select the protocol.
 *
 *   server = tps_server_new (&options);
 *   service = tps_parameter_server_service (…);
 *   tps_server_add_service (server, &service);
 *   tps_server_listen (server, "127.0.0.1:0", &error);
 *   tps_server_start (server, &error);
 *   …
 *   tps_server_stop (server);
 *   g_object_unref (server);
 *
 * Every server also serves Memory (thrift/memory.thrift), Session and Chunks.
 *
 * thrift_server_serve() starts the server, and returns once another thread has stopped the server.
 * The processor, transports and factories of a ThriftServer are not used: the server serves
 * TpsServices and the processors that are added.
 */

#pragma once

#include <thrift/c_glib/server/thrift_server.h>
#include <thriftps/access.h>

#include "plugin/access/access.h"
#include "plugin/server/connection_info.h"
#include "plugin/service/call.h"
#include "plugin/tracing/tracer.h"
#include "runtime/base/fault.h"
#include "runtime/device/backend.h"
#include "runtime/base/metrics.h"
#include "runtime/base/worker_pool.h"
#include "runtime/server/budgets.h"
#include "runtime/server/quota/quotas.h"

G_BEGIN_DECLS

#define TPS_TYPE_SERVER (tps_server_get_type ())
#define TPS_SERVER(object) (G_TYPE_CHECK_INSTANCE_CAST ((object), TPS_TYPE_SERVER, TpsServer))
#define TPS_IS_SERVER(object) (G_TYPE_CHECK_INSTANCE_TYPE ((object), TPS_TYPE_SERVER))

typedef struct TpsServer TpsServer;
typedef struct TpsCommonSegments TpsCommonSegments; /* plugin/memory/common_segments.h */
typedef struct TpsServerClass TpsServerClass;

/* All fields zero = the defaults. */
typedef struct
{
  guint n_io_threads;     /* 0 = one per core, 8 to 64; 2 on one core */
  guint n_workers;        /* 0 = one per core; not used with `workers` */
  TpsWorkerPool *workers; /* borrowed, must outlive the server; NULL = a pool of its own */
  gsize max_frame_bytes;  /* 0 = 256 MiB */
  /* The budgets charged for memory that peers make the server use: borrowed, must outlive the
   * server. NULL = the server creates its own, with `max_pending_bytes` and the default limits. */
  const TpsBudgets *budgets;
  /* The limit on the memory of requests in flight, in bytes, if `budgets` is NULL; 0 = a quarter of
   * the memory. */
  gsize max_pending_bytes;
  /* The device to which bodies are copied; NULL = none. Bodies of 64 KiB and more are received into
   * page-locked memory, which the device reads directly. The server keeps page-locked memory for
   * reuse, up to half of the limit of pending requests. It also shares memory of the device with
   * clients if possible. Shared memory of the device has limits of its own, as large as those of
   * shared host memory. */
  TpsDevice *device;
  /* TRUE: the shared memory of the device holds results of lookups only, because gradients are
   * averaged in host memory or on a different device. */
  gboolean device_for_lookups_only;
  guint max_in_flight;   /* calls of one connection; 0 = 64 */
  guint max_connections; /* 0 = 1024 */
  /* The limit of the memory shared with one client; 0 = 1 GiB. Shared memory counts towards the
   * limit of pending requests; the memory shared with all clients together is limited to half of
   * that limit. */
  gsize max_shared_bytes;
  gboolean no_shared_memory;
  /* Segments that several clients may map; a reference is taken. NULL = none. Must be NULL if
   * clients have different rights. */
  TpsCommonSegments *common_segments;
  /* Receives the counts of requests and connections; a reference is taken; NULL = nothing is
   * counted. */
  TpsMetrics *metrics;
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
  /* The rights of callers; a reference is taken. NULL = every peer may call every method.
   * Calls of a processor that was added require the right "push". */
  TpsAccess *access;
  /* The tenants of principals and their limits; a reference is taken. NULL = there are no
   * limits. */
  TpsQuotas *quotas;
  const gchar *default_service; /* NULL = the only service if exactly one was added, else none */
  TpsTracer *tracer;            /* times calls; borrowed, must outlive the server; NULL = none */
  TpsFaultPlan *faults; /* injected into messages; borrowed, must outlive the server; NULL = none */
} TpsServerOptions;

/* The GType of TpsServer. Thread: any. */
GType tps_server_get_type (void);

/* Creates a server. `options` are copied; NULL = the defaults. The server is a GObject: the last
 * g_object_unref() stops and frees it. */
TpsServer *tps_server_new (const TpsServerOptions *options);

/* Returns the pool for the long work of handlers; borrowed, and valid as long as the server. NULL =
 * the system has refused its threads; the start then fails. */
TpsWorkerPool *tps_server_get_workers (TpsServer *server);

/* Returns the pool of received bodies, borrowed; it is charged to the budget `pending`. */
TpsBufferPool *tps_server_get_bodies (TpsServer *server);

/* Returns the limit of a frame, as given in the options or by default. */
gsize tps_server_get_max_frame_bytes (TpsServer *server);

/* Adds a service. The entry is copied; the objects that it refers to are borrowed and must outlive
 * the server. Must be called before the start. */
void tps_server_add_service (TpsServer *server, const TpsService *service);

/* Serves a Thrift processor of the application, generated or not, as the service `name`. In the
 * multiplexed protocol its methods are "Name:method". If `name` is the default service, clients may
 * also omit the service. Calls of the processor run on workers, several at a time, even calls of
 * one connection. Some threads stay reserved for short calls of other services. Calls larger than a
 * frame reach the processor in chunks (thrift/chunks.thrift). For limits and failures, see
 * plugin/host/host_service.h; for the defects of generated code that the server prevents, see
 * plugin/host/harden.h.
 *
 * Takes a reference to `processor`. Must be called before the start, on the thread that owns the
 * server, and after tps_register_types() for the types of the processor's contract. */
void tps_server_add_processor (TpsServer *server, const gchar *name, ThriftProcessor *processor);

/* Opens one more socket to listen on. See tps_address_listen() for the address and the errors. Must
 * be called before the start. */
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

/* The state of a server at one moment. */
typedef struct
{
  guint n_io_threads;
  guint n_connections, max_connections;
  guint n_calls;        /* without a reply */
  gboolean is_running;  /* a start succeeded; stays TRUE after the stop, see is_draining */
  gboolean is_draining; /* during and after the stop */
} TpsServerStatus;

/* Sets `status`. Thread: any. */
void tps_server_get_status (TpsServer *server, TpsServerStatus *status);

/* Lists at most `n_max` connections with ids above `after` (0 = all ids), in ascending order. If
 * the list has fewer than `n_max` elements, it is complete. Returns an array of TpsConnectionInfo
 * that clears its elements, owned by the caller. Requests never wait for this function. A
 * connection that begins or ends may wait while the function takes references to 256 connections.
 * Thread: any. */
GArray *tps_server_list_connections (TpsServer *server, guint64 after, guint n_max);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsServer, g_object_unref)

G_END_DECLS
