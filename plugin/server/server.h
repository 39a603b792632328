/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* TpsServer, a ThriftServer that serves many connections on a few threads: TCP and Unix sockets,
 * framed and unframed, binary and compact protocol, multiplexed and plain, told apart by the first
 * bytes.
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
 * The Memory service (thrift/memory.thrift) is served besides.
 *
 * thrift_server_serve() starts and returns when another thread stops it. The processor, transports
 * and factories that a ThriftServer has are not used: what is served are TpsServices, and
 * processors that are added.
 */

#pragma once

#include <thrift/c_glib/server/thrift_server.h>

#include "plugin/access/access.h"
#include "plugin/net/tls/tls.h"
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
typedef struct TpsServerClass TpsServerClass;

/* All zero = the defaults. */
typedef struct
{
  guint n_io_threads;     /* 0 = 8, or 2 on one core */
  guint n_workers;        /* 0 = one per core; not used where `workers` is given */
  TpsWorkerPool *workers; /* borrowed, outlives the server; NULL = a pool of its own */
  gsize max_frame_bytes;  /* 0 = 256 MiB */
  /* What is charged for what peers make the server hold: borrowed, must outlive the server. NULL =
   * budgets of its own, with the default limits. */
  const TpsBudgets *budgets;
  /* of budgets of its own: requests under way; 0 = a quarter of the memory */
  gsize max_pending_bytes;
  /* Whose copies bodies are the source of: those of 64 KiB and more are received into memory that
   * it need not stage, of which up to half of what may be pending is kept for reuse. Its memory is
   * shared too, where it can be, within limits of its own of the same size. NULL = none. */
  TpsDevice *device;
  guint max_in_flight;   /* calls of one connection; 0 = 64 */
  guint max_connections; /* 0 = 1024 */
  /* Of memory shared with one client; 0 = 1 GiB. It counts as pending; that of all clients up to
   * half of what may be. */
  gsize max_shared_bytes;
  gboolean no_shared_memory;
  /* where requests and connections are counted; a reference is taken; NULL = nowhere */
  TpsMetrics *metrics;
  gint64 patience_ns; /* for a peer that stops in mid-message, or does not read; 0 = 60 s */
  /* For a peer that has shut down its sending side, or is gone without a reset, while calls are
   * pending: how long nothing may be sent to it before the connection closes; 0 = 30 s. */
  gint64 half_closed_ns;
  /* Encrypts TCP connections whose peers begin a TLS handshake; must have a certificate. A
   * reference is taken. NULL = none can. Unix sockets are never encrypted. */
  TpsTls *tls;
  gboolean tls_required; /* TCP connections that are not encrypted are closed */
  gint64 handshake_ns;   /* for a TLS handshake; 0 = 10 s */
  /* Who may call what; a reference is taken. NULL = each peer that can connect may call
   * everything. Processors that are added need the right "push". */
  TpsAccess *access;
  /* The tenants of callers, by their principals, and their limits; a reference is taken. NULL =
   * there are no limits. */
  TpsQuotas *quotas;
  const gchar *default_service; /* NULL = the only one where there is one */
  TpsTracer *tracer;            /* times calls; borrowed, must outlive the server; NULL = none */
  TpsFaultPlan *faults; /* of messages, on purpose; borrowed, outlives the server; NULL = none */
} TpsServerOptions;

GType tps_server_get_type (void);

/* `options` NULL = the defaults; copied. A GObject: g_object_unref() stops it and frees it. */
TpsServer *tps_server_new (const TpsServerOptions *options);

/* The pool that handlers' long work runs on, borrowed. Lives as long as the server. */
TpsWorkerPool *tps_server_get_workers (TpsServer *server);

/* The pool of received bodies, borrowed: charged to `pending`. */
TpsBufferPool *tps_server_get_bodies (TpsServer *server);

gsize tps_server_get_max_frame_bytes (TpsServer *server);

/* Before start. The entry is copied; what it points to is borrowed and must live until the server
 * is freed. */
void tps_server_add_service (TpsServer *server, const TpsService *service);

/* Serves a processor of the program's own, generated or any other, as `name`: "Name:method" in the
 * multiplexed protocol, and names without a service where `name` is the server's default service.
 * Its calls run on workers, several at a time, of one connection too; while they run, threads are
 * left for short calls of other services. Calls larger than a frame (thrift/chunks.thrift) do not
 * reach it where a TpsPlugin's services are served. Bounds, failures and the repairs that the
 * processor gets: plugin/host/host_service.h. Takes a reference of `processor`. Before start, on
 * the thread that owns the server, after tps_register_types() for the types of the processor's
 * contract. */
void tps_server_add_processor (TpsServer *server, const gchar *name, ThriftProcessor *processor);

/* Opens one more socket to listen on, see tps_address_listen() for the address and the errors.
 * Before start. */
gboolean tps_server_listen (TpsServer *server, const gchar *address, GError **error);

/* The same with a socket that another process has opened and that listens already, as systemd
 * passes it. Takes over `fd`, which stays the caller's after an error. Errors: INVALID_ARGUMENT.
 * Before start. */
gboolean tps_server_take_socket (TpsServer *server, gint fd, GError **error);

/* Where clients reach it, in the order of listen, with the ports that were picked; ended by NULL,
 * borrowed. */
const gchar *const *tps_server_get_addresses (TpsServer *server);

/* Serves from now on, on threads of its own. Once only. Errors: INVALID_ARGUMENT (a service twice,
 * no such default service, started before), RESOURCE_EXHAUSTED. */
gboolean tps_server_start (TpsServer *server, GError **error);

/* Stops: no more connections are accepted, waiting calls get UNAVAILABLE, running calls get 3 s to
 * end, connections are closed when their answers have left. Returns within 5 s: TRUE when every
 * call was answered, FALSE when some still run (freeing the server then waits for them). May be
 * called again. Not from a handler or a callback. Thread: any. */
gboolean tps_server_stop (TpsServer *server);

/* Whether the threads of the server still run, for watchdogs and health checks, which must call it
 * again and again. Each call sends a beat through each I/O thread, the timers and the queue of the
 * workers, unless some are still under way. FALSE: a beat has been under way for `patience_ns`, and
 * `missing` (g_free) names its thread. TRUE otherwise, also before the start. Never waits. Thread:
 * any. */
gboolean tps_server_check_threads (TpsServer *server, gint64 patience_ns, gchar **missing);

/* Connections that are open, and calls not yet answered. Thread: any; a snapshot. */
guint tps_server_get_n_connections (TpsServer *server);
guint tps_server_get_n_calls (TpsServer *server);

/* What a server is about, as it is at one moment. */
typedef struct
{
  guint n_io_threads;
  guint n_connections, max_connections;
  guint n_calls;        /* not yet answered */
  gboolean is_running;  /* it was started */
  gboolean is_draining; /* it stops, or has stopped */
} TpsServerStatus;

/* Thread: any. */
void tps_server_get_status (TpsServer *server, TpsServerStatus *status);

/* An array of TpsConnectionInfo that clears its elements: the `n_max` connections of the next
 * greater ids than `after` (0 = from the first one on), in the order of ids. If there are fewer,
 * they are the last ones. No request waits for it; connections that begin or end wait while
 * references of 256 connections are taken. Owned by the caller. Thread: any. */
GArray *tps_server_list_connections (TpsServer *server, guint64 after, guint n_max);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsServer, g_object_unref)

G_END_DECLS
