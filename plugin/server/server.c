/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Creates the parts of a server, and stops and frees them in order. The parts are loops, listening
 * sockets, sessions (through the core), services and workers. Connections are accepted on the first
 * event loop and assigned to all loops in turn.
 *
 * Order of the stop: first the listening sockets; then services, which end their pending calls;
 * then running calls; then connections, after their last replies; then the rest.
 *
 * Order of freeing: first the workers, because their jobs answer calls and open connections; then
 * the loops; then the core. Calls may still have references to the core. */

#include "plugin/server/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/net/address.h"
#include "plugin/net/descriptors.h"
#include "plugin/server/core.h"
#include "plugin/server/pulse.h"
#include "plugin/server/session.h"
#include "plugin/service/memory_service.h"
#include "plugin/service/session_service.h"
#include "runtime/machine/machine.h"
#include "runtime/base/sized.h"
#include "runtime/base/descriptor_table.h"
#include "runtime/base/error.h"
#include "runtime/base/trace.h"
#include "runtime/machine/tuning.h"

static TpsTraceEvent connection_accepted = TPS_TRACE_EVENT ("connection_accepted", TPS_TRACE_DEBUG);
static TpsTraceEvent connection_refused = TPS_TRACE_EVENT ("connection_refused", TPS_TRACE_WARNING);
static TpsTraceEvent accept_failed = TPS_TRACE_EVENT ("accept_failed", TPS_TRACE_ERROR);
static TpsTraceEvent server_listening = TPS_TRACE_EVENT ("server_listening", TPS_TRACE_INFO);
static TpsTraceEvent threads_stuck = TPS_TRACE_EVENT ("threads_stuck", TPS_TRACE_ERROR);
static TpsTraceEvent server_started = TPS_TRACE_EVENT ("server_started", TPS_TRACE_INFO);
static TpsTraceEvent server_draining = TPS_TRACE_EVENT ("server_draining", TPS_TRACE_INFO);
static TpsTraceEvent server_stopped = TPS_TRACE_EVENT ("server_stopped", TPS_TRACE_INFO);

#define NS_PER_S ((gint64) 1000000000)
#define RUNNING_CALLS_NS (3 * NS_PER_S)  /* a stop waits so long for running calls */
#define UNSENT_ANSWERS_NS (1 * NS_PER_S) /* a stop waits so long for unsent replies */
#define MIN_HALF_CLOSED 8
#define N_OTHER_DESCRIPTORS 256 /* an estimate, for files and threads */
#define N_LATER_DESCRIPTORS 4   /* files that the log keeps open from the recovery on */
#define MAX_HEAD_BYTES ((gsize) 16 << 20)
#define MAX_QUEUED_BYTES ((gsize) 64 << 20)
#define DEFAULT_SHARED_BYTES ((gsize) 1 << 30)
#define MAX_ACCEPTS_PER_TURN 64
/* The pause after accept() has failed for lack of descriptors or memory. */
#define PAUSE_NS ((gint64) 100 * 1000000)

typedef struct
{
  TpsServer *server;
  gint fd;
  TpsWatch *watch;
  /* The file of a Unix socket that must be removed; NULL = none. Its identity is stored, because
   * another server may have replaced the file. */
  gchar *path;
  dev_t device;
  ino_t inode;
} Listener;

typedef enum
{
  STATE_NEW = 0,
  STATE_RUNNING = 1,
  STATE_STOPPING = 2,
  STATE_STOPPED = 3,
} State;

struct TpsServer
{
  ThriftServer parent;

  gchar *default_service;
  GArray *services;     /* of TpsService */
  TpsServerParts parts; /* during the creation */
  const TpsBudgets *budgets;
  TpsBudgets *own_budgets; /* NULL if budgets were given */
  TpsServerCore *core;
  TpsWorkerPool *own_workers;
  TpsWorkerPool *handshakes; /* NULL = connections are not encrypted */
  GError *no_threads;        /* of tps_server_new(), for tps_server_start(); NULL = none */
  GPtrArray *listeners;      /* of Listener */
  GPtrArray *addresses;      /* of gchar *, ended by NULL */
  TpsIoThread *io;
  guint n_io;

  /* Used only on the thread of the first loop. */
  guint next_io; /* the loops get connections in turn */
  guint64 resume_timer;

  TpsMutex lock; /* guards all fields below */
  TpsCond changed;
  State state;
  gboolean was_started; /* a start succeeded */
  gboolean all_answered;
  TpsPulse *pulse; /* NULL until the first check of the threads */
};

struct TpsServerClass
{
  ThriftServerClass parent;
};

G_DEFINE_TYPE (TpsServer, tps_server, THRIFT_TYPE_SERVER)

/* ---- accepting ------------------------------------------------------------------------------ */

static void
describe_peer (const struct sockaddr_storage *peer, gchar *text, gsize size)
{
  const struct sockaddr_in *v4 = (const struct sockaddr_in *) peer;
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) peer;
  gchar host[INET6_ADDRSTRLEN] = "?";

  if (peer->ss_family == AF_INET)
    g_snprintf (text, size, "%s:%u", inet_ntop (AF_INET, &v4->sin_addr, host, sizeof host),
                (guint) ntohs (v4->sin_port));
  else if (peer->ss_family == AF_INET6)
    g_snprintf (text, size, "[%s]:%u", inet_ntop (AF_INET6, &v6->sin6_addr, host, sizeof host),
                (guint) ntohs (v6->sin6_port));
  else
    g_strlcpy (text, "unix peer", size);
}

static void
take_connection (TpsServer *server, gint fd, const struct sockaddr_storage *peer)
{
  TpsServerCore *core = server->core;
  gchar text[INET6_ADDRSTRLEN + 16];
  gboolean has_descriptors;

  describe_peer (peer, text, sizeof text);
  has_descriptors = tps_descriptor_table_may_keep (fd, TPS_DESCRIPTOR_OF_PEER);
  if (!has_descriptors || tps_server_core_is_full (core))
    {
      tps_trace (&connection_refused, tps_field_text ("peer", text),
                 tps_field_uint ("max_connections", core->limits.max_connections),
                 tps_field_text ("reason", has_descriptors ? NULL : TPS_DESCRIPTORS_LACK));
      tps_counter_add (core->counts.refused, 1);
      tps_descriptors_close_socket (fd);
      return;
    }
  atomic_fetch_add (&core->n_connections, 1);
  tps_trace (&connection_accepted, tps_field_text ("peer", text));
  tps_counter_add (core->counts.accepted, 1);
  tps_gauge_add (core->counts.open, 1);
  tps_socket_tune (fd);
  tps_session_begin (&server->io[server->next_io++ % server->n_io], fd, text,
                     core->tls != NULL && peer->ss_family != AF_UNIX
                         ? tps_tls_acceptor_get_channel (core->tls)
                         : &tps_plain_channel);
}

/* Sets the events of all listeners. Returns FALSE if at least one could not be changed. */
static gboolean
set_interest (TpsServer *server, guint32 epoll_events)
{
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < server->listeners->len; i++)
    {
      Listener *listener = g_ptr_array_index (server->listeners, i);

      if (!tps_loop_modify_watch (server->io[0].loop, listener->watch, epoll_events,
                                  error == NULL ? &error : NULL)
          && error != NULL)
        tps_trace (&accept_failed, tps_field_text ("reason", error->message));
    }
  return error == NULL;
}

static void resume_accepting (gpointer data);

static void
resume_later (TpsServer *server)
{
  server->resume_timer = tps_loop_add_timer (server->io[0].loop, tps_clock_now_ns () + PAUSE_NS,
                                             resume_accepting, server);
}

static void
resume_accepting (gpointer data)
{
  TpsServer *server = data;

  server->resume_timer = 0;
  if (!set_interest (server, EPOLLIN))
    resume_later (server);
}

static void
on_connections (guint32 epoll_events, gpointer data)
{
  Listener *listener = data;

  for (guint i = 0; i < MAX_ACCEPTS_PER_TURN; i++)
    {
      struct sockaddr_storage peer = { 0 };
      socklen_t n_bytes = sizeof peer;
      gint fd = accept4 (listener->fd, (struct sockaddr *) &peer, &n_bytes,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
      gint code = errno;

      if (fd >= 0)
        {
          take_connection (listener->server, fd, &peer);
          continue;
        }
      if (code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM)
        {
          /* The connection stays in the backlog, so the socket stays readable. Without a pause, the
           * loop would retry accept() without end. */
          tps_trace (&accept_failed, tps_field_text ("reason", g_strerror (code)));
          if (listener->server->resume_timer == 0)
            {
              set_interest (listener->server, 0);
              resume_later (listener->server);
            }
        }
      if (code != EINTR && code != ECONNABORTED)
        return;
    }
}

static void
remember_file (Listener *listener, const gchar *path)
{
  struct stat status;

  if (path == NULL || lstat (path, &status) < 0)
    return;
  listener->path = g_strdup (path);
  listener->device = status.st_dev;
  listener->inode = status.st_ino;
}

/* Adds a listener. Takes ownership of `fd` and `bound`. `path` is the file of a Unix socket, which
 * is removed when the listener closes; NULL = no file is removed. */
static void
add_listener (TpsServer *server, gint fd, gchar *bound, const gchar *path)
{
  Listener *listener = g_new0 (Listener, 1);

  listener->server = server;
  listener->fd = fd;
  remember_file (listener, path);
  g_ptr_array_add (server->listeners, listener);
  g_ptr_array_insert (server->addresses, (gint) server->addresses->len - 1, bound);
}

static void
remove_watches (TpsServer *server)
{
  for (guint i = 0; i < server->listeners->len; i++)
    {
      Listener *listener = g_ptr_array_index (server->listeners, i);

      if (listener->watch != NULL)
        tps_loop_remove_watch (server->io[0].loop, listener->watch);
      listener->watch = NULL;
    }
}

typedef struct
{
  TpsServer *server;
  GError *error;
} Start;

static void
start_on_loop (gpointer data)
{
  Start *start = data;
  TpsServer *server = start->server;

  for (guint i = 0; start->error == NULL && i < server->listeners->len; i++)
    {
      Listener *listener = g_ptr_array_index (server->listeners, i);

      listener->watch = tps_loop_add_watch (server->io[0].loop, listener->fd, EPOLLIN,
                                            on_connections, listener, &start->error);
    }
  if (start->error != NULL)
    remove_watches (server);
}

static gboolean
start_accepting (TpsServer *server, GError **error)
{
  Start start = { .server = server };

  tps_loop_call (server->io[0].loop, start_on_loop, &start);
  if (start.error != NULL)
    g_propagate_error (error, start.error);
  return start.error == NULL;
}

static void
close_listener (Listener *listener)
{
  struct stat status;

  if (listener->path != NULL && lstat (listener->path, &status) == 0
      && status.st_dev == listener->device && status.st_ino == listener->inode)
    unlink (listener->path);
  close (listener->fd);
  g_free (listener->path);
  g_free (listener);
}

static void
close_listeners (TpsServer *server)
{
  for (guint i = 0; i < server->listeners->len; i++)
    close_listener (g_ptr_array_index (server->listeners, i));
  g_ptr_array_set_size (server->listeners, 0);
}

/* Closes all sockets: no session begins afterwards. */
static void
stop_accepting (gpointer data)
{
  TpsServer *server = data;
  TpsLoop *loop = server->io[0].loop;

  if (server->resume_timer != 0)
    tps_loop_cancel_timer (loop, server->resume_timer);
  remove_watches (server);
  close_listeners (server);
}

/* ---- creation ------------------------------------------------------------------------------- */

static void
set_limits (TpsServer *server, const TpsServerOptions *options)
{
  TpsBudgetLimits own = { .max_pending_bytes = options->max_pending_bytes };
  TpsServerLimits limits = {
    .max_frame_bytes = options->max_frame_bytes > 0 ? options->max_frame_bytes : (gsize) 256 << 20,
    .max_in_flight = options->max_in_flight > 0 ? options->max_in_flight : 64,
    .max_connections = options->max_connections > 0 ? options->max_connections : 1024,
    .max_queued_bytes = MAX_QUEUED_BYTES,
    .max_shared_bytes = options->max_shared_bytes > 0 ? options->max_shared_bytes
                                                      : DEFAULT_SHARED_BYTES,
    .shared_device = server->parts.device,
    .device_for_lookups_only = server->parts.device_for_lookups_only,
    .patience.moving_ns = options->patience_ns > 0 ? options->patience_ns : 60 * NS_PER_S,
    .patience.half_closed_ns = options->half_closed_ns > 0 ? options->half_closed_ns
                                                           : 30 * NS_PER_S,
    .patience.opening_ns = options->handshake_ns > 0 ? options->handshake_ns : 10 * NS_PER_S,
  };

  limits.check_ns = MIN (limits.patience.moving_ns, limits.patience.half_closed_ns) / 4;
  if (options->tls != NULL)
    limits.check_ns = MIN (limits.check_ns, limits.patience.opening_ns / 4);
  limits.max_half_closed = MAX (limits.max_connections / 8, MIN_HALF_CLOSED);

  if (options->no_shared_memory)
    limits.max_shared_bytes = 0;
  limits.max_head_bytes = MIN (limits.max_frame_bytes, MAX_HEAD_BYTES);
  if (server->parts.budgets == NULL)
    server->own_budgets = tps_budgets_new (&own);
  server->budgets = server->parts.budgets != NULL ? server->parts.budgets : server->own_budgets;
  server->core = tps_server_core_new (&limits, server->budgets, server->parts.device,
                                      server->parts.metrics);
  if (server->parts.quotas != NULL)
    server->core->quotas = tps_quotas_ref (server->parts.quotas);
  if (server->parts.common_segments != NULL)
    server->core->common_segments = tps_common_segments_ref (server->parts.common_segments);
  server->core->faults = server->parts.faults;
  server->core->tracer = server->parts.tracer;
}

/* Handshakes have separate threads, so that other connections and calls do not wait for the
 * computations of many handshakes. */
static void
set_tls (TpsServer *server, const TpsServerOptions *options)
{
  TpsTlsAcceptorOptions tls = { .tls = options->tls,
                                .is_required = options->tls_required,
                                .budget = server->budgets->handshakes };

  if (options->tls == NULL || server->no_threads != NULL)
    return;
  server->handshakes = tps_worker_pool_try_new ("tps-tls", (guint) tps_tuning_get ()->tls_threads,
                                                &server->no_threads);
  tls.workers = server->handshakes;
  tls.counters = server->parts.metrics != NULL ? tps_metrics_get_counters (server->parts.metrics)
                                               : NULL;
  server->core->tls = tps_tls_acceptor_new (&tls);
}

TpsServer *
tps_server_new (const TpsServerOptions *given)
{
  TpsServerOptions options = { 0 };
  TpsServer *server = g_object_new (TPS_TYPE_SERVER, NULL);
  guint n_cores = tps_cores_count ();

  if (given != NULL)
    TPS_SIZED_COPY (options, given);
  if (options.parts != NULL)
    server->parts = *options.parts;
  server->default_service = g_strdup (options.default_service);
  set_limits (server, &options);
  server->n_io = (guint) tps_tuning_count_io_threads (n_cores);
  if (options.n_io_threads > 0)
    server->n_io = options.n_io_threads;
  server->io = g_new0 (TpsIoThread, server->n_io);
  if (server->parts.workers == NULL)
    server->own_workers = tps_worker_pool_try_new (
        "tps-worker", options.n_workers > 0 ? options.n_workers : n_cores, &server->no_threads);
  server->core->workers = server->parts.workers != NULL ? server->parts.workers
                                                        : server->own_workers;
  set_tls (server, &options);
  if (options.access != NULL)
    server->core->access = tps_access_ref (options.access);
  if (options.access != NULL && server->parts.metrics != NULL)
    tps_access_set_counters (options.access, tps_metrics_get_counters (server->parts.metrics));
  return server;
}

static void
tps_server_init (TpsServer *server)
{
  server->services = g_array_new (FALSE, FALSE, sizeof (TpsService));
  server->listeners = g_ptr_array_new ();
  server->addresses = g_ptr_array_new_with_free_func (g_free);
  g_ptr_array_add (server->addresses, NULL);
  tps_mutex_init (&server->lock);
  tps_cond_init (&server->changed);
  server->all_answered = TRUE;
}

TpsWorkerPool *
tps_server_get_workers (TpsServer *server)
{
  return server->core->workers;
}

TpsBufferPool *
tps_server_get_bodies (TpsServer *server)
{
  return server->core->bodies;
}

gsize
tps_server_get_max_frame_bytes (TpsServer *server)
{
  return server->core->limits.max_frame_bytes;
}

void
tps_server_add_service (TpsServer *server, const TpsService *service)
{
  TpsService known;

  TPS_SIZED_COPY (known, service);
  g_array_append_val (server->services, known);
}

void
tps_server_add_processor (TpsServer *server, const gchar *name, ThriftProcessor *processor)
{
  TpsHostService *host = tps_host_service_new (name, processor);
  TpsService service = tps_host_service_get (host);

  g_ptr_array_add (server->core->host_services, host);
  tps_server_add_service (server, &service);
}

gboolean
tps_server_listen (TpsServer *server, const gchar *text, GError **error)
{
  g_auto (TpsAddress) address = { NULL };
  gchar *bound = NULL;
  gint fd;

  if (!tps_address_parse (text, &address, error))
    return FALSE;
  fd = tps_address_listen (&address, &bound, error);
  if (fd < 0)
    return FALSE;
  add_listener (server, fd, bound, address.path);
  return TRUE;
}

/* The file of a Unix socket belongs to the process that created it, so it is not removed here. */
gboolean
tps_server_take_socket (TpsServer *server, gint fd, GError **error)
{
  gchar *address = NULL;

  if (!tps_passed_socket_prepare (fd, &address, error))
    return FALSE;
  add_listener (server, fd, address, NULL);
  return TRUE;
}

const gchar *const *
tps_server_get_addresses (TpsServer *server)
{
  return (const gchar *const *) server->addresses->pdata;
}

guint
tps_server_get_n_connections (TpsServer *server)
{
  return atomic_load (&server->core->n_connections);
}

guint
tps_server_get_n_calls (TpsServer *server)
{
  return atomic_load (&server->core->n_calls);
}

void
tps_server_get_status (TpsServer *server, TpsServerStatus *status)
{
  const TpsServerCore *core = server->core;

  *status = (TpsServerStatus) {
    .n_io_threads = server->n_io,
    .n_connections = tps_server_get_n_connections (server),
    .max_connections = core->limits.max_connections,
    .n_calls = tps_server_get_n_calls (server),
    .is_draining = atomic_load (&core->stopping),
  };
  TPS_LOCK_SCOPE (&server->lock);
  status->is_running = server->was_started;
}

/* ---- connections ---------------------------------------------------------------------------- */

/* The number of sessions that are referenced under one lock of the list. Connections cannot begin
 * or end while the list is locked, so the number is limited. */
#define TURN_SESSIONS 256

static void
clear_info (gpointer data)
{
  TpsConnectionInfo *info = data;

  g_free (info->peer);
  tps_principal_unref (info->principal);
}

static void
ref_session (gpointer session)
{
  tps_session_ref (session);
}

GArray *
tps_server_list_connections (TpsServer *server, guint64 after, guint n_max)
{
  GArray *infos = g_array_new (FALSE, FALSE, sizeof (TpsConnectionInfo));
  gint64 now_ns = tps_clock_now_ns ();
  gpointer sessions[TURN_SESSIONS];
  guint n_asked = 1, n = 1;

  g_array_set_clear_func (infos, clear_info);
  while (infos->len < n_max && n == n_asked)
    {
      n_asked = MIN (n_max - infos->len, TURN_SESSIONS);
      n = tps_session_list_ref_next (&server->core->sessions, after, sessions, n_asked,
                                     ref_session);
      for (guint i = 0; i < n; i++)
        {
          TpsConnectionInfo info;

          tps_session_describe (sessions[i], now_ns, &info);
          after = info.id;
          g_array_append_val (infos, info);
          tps_session_unref (sessions[i]);
        }
    }
  return infos;
}

/* ---- stalled sessions and stuck threads ------------------------------------------------------ */

static void
check_progress (gpointer data)
{
  TpsIoThread *io = data;
  gint64 now_ns = tps_clock_now_ns ();

  for (GList *item = io->sessions.head; item != NULL; item = item->next)
    tps_connection_check_progress (tps_session_get_connection (item->data), now_ns,
                                   &io->core->limits.patience);
  tps_loop_add_timer (io->loop, now_ns + io->core->limits.check_ns, check_progress, io);
}

/* Returns the pulse, which is created when it is first needed; NULL = the server has no threads. */
static TpsPulse *
provide_pulse (TpsServer *server)
{
  TPS_LOCK_SCOPE (&server->lock);
  if (server->pulse == NULL && server->state == STATE_RUNNING)
    {
      g_autofree TpsLoop **loops = g_new (TpsLoop *, server->n_io);

      for (guint i = 0; i < server->n_io; i++)
        loops[i] = server->io[i].loop;
      server->pulse = tps_pulse_new (loops, server->n_io, server->core->workers);
    }
  return server->pulse;
}

/* Each standstill is logged once. */
gboolean
tps_server_check_threads (TpsServer *server, gint64 patience_ns, gchar **missing)
{
  TpsPulse *pulse = provide_pulse (server);
  gboolean turns = pulse == NULL
                   || tps_pulse_check (pulse, tps_clock_now_ns (), patience_ns, missing);

  if (!turns && tps_pulse_begin_report (pulse))
    tps_trace (&threads_stuck, tps_field_text ("missing", *missing));
  return turns;
}

/* ---- start ---------------------------------------------------------------------------------- */

static gboolean
start_loops (TpsServer *server, GError **error)
{
  for (guint i = 0; i < server->n_io; i++)
    {
      TpsIoThread *io = &server->io[i];
      gchar name[16];

      g_snprintf (name, sizeof name, "tps-io-%u", i);
      io->core = server->core;
      g_queue_init (&io->sessions);
      io->loop = tps_loop_new (name, error);
      if (io->loop == NULL)
        return FALSE;
      tps_loop_post (io->loop, check_progress, io);
    }
  return TRUE;
}

/* `io->loop` must be set to NULL after tps_loop_free(): functions on the loop may use it until
 * then. */
static void
free_loops (TpsServer *server)
{
  for (guint i = 0; i < server->n_io; i++)
    {
      if (server->io[i].loop != NULL)
        tps_loop_free (server->io[i].loop);
      server->io[i].loop = NULL;
    }
}

static gboolean
has_service (const TpsServer *server, const gchar *name)
{
  for (guint i = 0; i < server->services->len; i++)
    if (strcmp (g_array_index (server->services, TpsService, i).name, name) == 0)
      return TRUE;
  return FALSE;
}

/* Every server has the Chunks service, for requests and replies that are larger than a frame. */
static void
add_chunk_service (TpsServer *server)
{
  TpsChunksOptions options = { .workers = server->core->workers,
                               .budgets = server->budgets,
                               .metrics = server->core->metrics,
                               .access = server->core->access };
  TpsService service;

  if (has_service (server, TPS_CHUNKS_SERVICE_NAME))
    return;
  server->core->chunks = tps_chunks_new (&options);
  service = tps_chunk_service (server->core->chunks);
  tps_server_add_service (server, &service);
}

static void
set_up_dispatcher (TpsServer *server, TpsDispatcher *dispatcher)
{
  tps_dispatcher_set_metrics (dispatcher, server->core->metrics);
  if (server->core->access != NULL)
    tps_dispatcher_set_access (dispatcher, server->core->access);
}

/* Creates the dispatchers for calls in frames and for calls in chunks. Both have all services of
 * this server. The Chunks service may belong to a plugin, which does not know services that were
 * added only to this server. */
static gboolean
make_dispatchers (TpsServer *server, GError **error)
{
  const TpsService *services = (const TpsService *) (gpointer) server->services->data;
  guint n_services = server->services->len;
  TpsDispatcher *dispatcher = tps_dispatcher_new (services, n_services, server->default_service,
                                                  error);
  g_autoptr (TpsDispatcher) transferred = NULL;

  server->core->dispatcher = dispatcher;
  if (dispatcher == NULL)
    return FALSE;
  transferred = tps_chunks_dispatcher_new (services, n_services, server->default_service, error);
  if (transferred == NULL)
    return FALSE;
  set_up_dispatcher (server, transferred);
  set_up_dispatcher (server, dispatcher);
  tps_dispatcher_set_tracer (dispatcher, server->core->tracer);
  tps_dispatcher_set_transferred (dispatcher, transferred);
  return TRUE;
}

/* Returns FALSE if no connection could be taken. */
static gboolean
check_descriptors (GError **error)
{
  gint fd = eventfd (0, EFD_CLOEXEC);
  gboolean has_room = fd >= 0
                      && tps_descriptor_table_may_keep (fd + N_LATER_DESCRIPTORS,
                                                        TPS_DESCRIPTOR_OF_PEER);

  if (!has_room)
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                         "no descriptor is left for a connection: " TPS_DESCRIPTORS_LACK);
  if (fd >= 0)
    close (fd);
  return has_room;
}

static gboolean
start (TpsServer *server, GError **error)
{
  const TpsService of_connections[] = { tps_memory_service (), tps_session_service () };
  const gchar *const *addresses;

  /* Services that are added here must not change the default service. */
  if (server->default_service == NULL && server->services->len == 1)
    server->default_service = g_strdup (g_array_index (server->services, TpsService, 0).name);
  /* Every server has the services for the connection itself: Memory, which Node.describe offers,
   * and Session. */
  for (guint i = 0; i < G_N_ELEMENTS (of_connections); i++)
    if (!has_service (server, of_connections[i].name))
      tps_server_add_service (server, &of_connections[i]);
  add_chunk_service (server);
  if (server->no_threads != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&server->no_threads));
      return FALSE;
    }
  if (!make_dispatchers (server, error))
    return FALSE;
  /* Each connection may have two descriptors: its socket, and one from its peer for a segment. */
  tps_descriptor_table_enlarge (
      2 * ((gsize) server->core->limits.max_connections + server->core->limits.max_half_closed)
      + N_OTHER_DESCRIPTORS);
  if (start_loops (server, error) && check_descriptors (error) && start_accepting (server, error))
    {
      addresses = tps_server_get_addresses (server);
      for (; *addresses != NULL; addresses++)
        tps_trace (&server_listening, tps_field_text ("address", *addresses));
      tps_trace (&server_started, tps_field_uint ("services", server->services->len),
                 tps_field_uint ("io_threads", server->n_io),
                 tps_field_uint ("max_connections", server->core->limits.max_connections));
      return TRUE;
    }
  free_loops (server);
  return FALSE;
}

gboolean
tps_server_start (TpsServer *server, GError **error)
{
  gboolean started = FALSE;

  TPS_LOCK_SCOPE (&server->lock);
  if (server->state == STATE_NEW)
    {
      server->was_started = started = start (server, error);
      server->state = started ? STATE_RUNNING : STATE_STOPPED;
    }
  else
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                         "the server was started before, and a server can be started only once");
  return started;
}

/* ---- stop ----------------------------------------------------------------------------------- */

static void
for_each_session (TpsIoThread *io, void (*func) (TpsConnection *connection))
{
  for (GList *item = io->sessions.head; item != NULL; item = item->next)
    func (tps_session_get_connection (item->data));
}

static void
close_sent_sessions (gpointer data)
{
  for_each_session (data, tps_connection_close_when_sent);
}

static void
close_sessions (gpointer data)
{
  for_each_session (data, tps_connection_close);
}

static void
run_on_loops (TpsServer *server, TpsLoopFunc func)
{
  for (guint i = 0; i < server->n_io; i++)
    tps_loop_post (server->io[i].loop, func, &server->io[i]);
}

static gboolean
wait_for_none (TpsServer *server, atomic_uint *count, gint64 patience_ns)
{
  return tps_server_core_wait_for_none (server->core, count, tps_clock_now_ns () + patience_ns);
}

static gboolean
drain (TpsServer *server)
{
  TpsServerCore *core = server->core;
  gboolean all_answered;

  tps_trace (&server_draining, tps_field_uint ("calls", atomic_load (&core->n_calls)),
             tps_field_uint ("connections", atomic_load (&core->n_connections)));
  tps_loop_call (server->io[0].loop, stop_accepting, server);
  atomic_store (&core->stopping, TRUE);
  tps_dispatcher_shut_down (core->dispatcher);
  all_answered = wait_for_none (server, &core->n_calls, RUNNING_CALLS_NS);
  run_on_loops (server, close_sent_sessions);
  if (!wait_for_none (server, &core->n_connections, UNSENT_ANSWERS_NS))
    {
      run_on_loops (server, close_sessions);
      wait_for_none (server, &core->n_connections, UNSENT_ANSWERS_NS);
    }
  tps_trace (&server_stopped, tps_field_bool ("all_answered", all_answered));
  return all_answered;
}

gboolean
tps_server_stop (TpsServer *server)
{
  gboolean mine;

  tps_mutex_lock (&server->lock);
  while (server->state == STATE_STOPPING)
    tps_cond_wait (&server->changed, &server->lock);
  mine = server->state == STATE_RUNNING;
  server->state = mine ? STATE_STOPPING : STATE_STOPPED;
  tps_mutex_unlock (&server->lock);

  if (mine)
    {
      gboolean all_answered = drain (server);

      tps_mutex_lock (&server->lock);
      server->all_answered = all_answered;
      server->state = STATE_STOPPED;
      tps_cond_broadcast (&server->changed);
      tps_mutex_unlock (&server->lock);
    }
  return server->all_answered;
}

/* ---- ThriftServer --------------------------------------------------------------------------- */

static gboolean
serve (ThriftServer *base, GError **error)
{
  TpsServer *server = TPS_SERVER (base);

  if (!tps_server_start (server, error))
    return FALSE;
  TPS_LOCK_SCOPE (&server->lock);
  while (server->state != STATE_STOPPED)
    tps_cond_wait (&server->changed, &server->lock);
  return TRUE;
}

static void
stop (ThriftServer *base)
{
  tps_server_stop (TPS_SERVER (base));
}

static void
finalize (GObject *object)
{
  TpsServer *server = TPS_SERVER (object);

  tps_server_stop (server);
  g_clear_pointer (&server->pulse, tps_pulse_free);
  g_clear_pointer (&server->own_workers, tps_worker_pool_free);
  g_clear_pointer (&server->handshakes, tps_worker_pool_free);
  free_loops (server);
  close_listeners (server);
  g_ptr_array_unref (server->listeners);
  g_ptr_array_unref (server->addresses);
  tps_server_core_unref (server->core);
  tps_budgets_free (server->own_budgets);
  g_free (server->io);
  g_array_unref (server->services);
  g_free (server->default_service);
  g_clear_error (&server->no_threads);
  tps_cond_clear (&server->changed);
  tps_mutex_clear (&server->lock);
  G_OBJECT_CLASS (tps_server_parent_class)->finalize (object);
}

static void
tps_server_class_init (TpsServerClass *class)
{
  G_OBJECT_CLASS (class)->finalize = finalize;
  THRIFT_SERVER_CLASS (class)->serve = serve;
  THRIFT_SERVER_CLASS (class)->stop = stop;
}
