/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The dispatcher of messages to the services, and the carrier of calls and of their replies: a
 * connection of TpsServer, or a ThriftProcessor of a host.
 *
 * A carrier passes each received message to a dispatcher, with the functions below. The dispatcher
 * finds the method, runs its handler, and passes the finished reply to the carrier, exactly once,
 * now or later.
 */

#pragma once

#include "plugin/access/access.h"
#include "plugin/service/call.h"
#include "runtime/base/metrics.h"
#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

/* What a carrier knows of the caller of one call. */
typedef struct
{
  const TpsGrant *grant; /* borrowed until the call ends; NULL = all rights */
  TpsTenant *tenant;     /* limits the call; lives as long as the server; NULL = no limits */
} TpsCaller;

/* The functions of a carrier. `carried` is the argument of tps_dispatcher_handle(): one object for
 * each call. No function may block, except `run_on_worker` of a carrier without workers. Thread:
 * any. */
struct TpsCarrierOps
{
  /* Returns TRUE if a call may wait for other calls, so that its reply comes after
   * tps_dispatcher_handle() has returned. Returns FALSE if waiting would block those calls. */
  gboolean (*may_wait) (gpointer carried);

  /* Optional: returns FALSE if the reply can no longer be sent; it is then not encoded. NULL = all
   * replies can be sent. */
  gboolean (*is_wanted) (gpointer carried);

  /* Runs `func (user_data)` on a worker, in the order of the lane. A carrier without workers runs
   * it at once on the calling thread. If the connection of the call closes before `func` has begun,
   * a worker calls `cancel (user_data)` instead. NULL `cancel` = `func` always runs. */
  void (*run_on_worker) (gpointer carried, TpsLane lane, TpsJobFunc func, TpsJobFunc cancel,
                         gpointer user_data);

  /* Sends the reply. Called exactly once, as the last use of `carried`. `reply` is finished
   * (message_end was called), has the protocol and framing of the request, and is taken over. NULL
   * `reply` = nothing is sent, because the message was oneway or the reply is not wanted. */
  void (*finish) (gpointer carried, TpsWriter *reply);

  /* Optional: returns TRUE if, as far as known, no other connection waits for the calling thread.
   * NULL = always FALSE. */
  gboolean (*is_alone) (gpointer carried);

  /* Optional: returns the peer, for the log, borrowed until the call ends. NULL = unknown. */
  const gchar *(*get_peer) (gpointer carried);

  /* Optional: returns the principal of the caller, borrowed until the call ends. Not called if
   * there is a grant. NULL = anonymous. */
  const TpsPrincipal *(*get_principal) (gpointer carried);

  /* Optional: called before `finish` of a call that is refused because its tenant is at a limit; a
   * repeat would be refused for `wait_ms`. The carrier may stop reading from its connection until
   * then. Must not block. */
  void (*throttle) (gpointer carried, gint wait_ms);

  /* Optional: returns TRUE if a call of a method that logs in is served without being charged to
   * the tenant. The carrier must limit the number of such calls of each connection. Called by
   * tps_dispatcher_handle(). Must not block. NULL = such calls are charged. */
  gboolean (*may_log_in) (gpointer carried);

  /* Optional: implements tps_call_authenticate(). NULL = the carrier accepts no tokens. */
  gboolean (*authenticate) (gpointer carried, const gchar *token, GError **error);

  /* Optional: implements tps_call_set_context(). Takes a reference to `context`, which must not
   * change any more; NULL `context` = none. Without this function, the carrier keeps no context. */
  void (*set_context) (gpointer carried, GHashTable *context);

  /* Optional: returns the memory that the call's connection shares with its client, borrowed.
   * Errors (NULL): UNAVAILABLE, PERMISSION_DENIED; `error` may be NULL. Without this function, no
   * memory is shared. */
  TpsSegmentRegistry *(*get_segments) (gpointer carried, GError **error);

  /* Optional: returns the budget that is charged for replies until they are sent, borrowed. NULL =
   * no limit. */
  TpsBudget *(*get_reply_budget) (gpointer carried);

  /* Optional: returns TRUE if the connection has room for a reply of `n_bytes`, which has been
   * charged, in addition to its unsent replies. FALSE: the call fails with RESOURCE_EXHAUSTED. Not
   * called for small replies. NULL = there is always room. */
  gboolean (*has_room) (gpointer carried, gsize n_bytes);

  /* Optional: returns a pointer that identifies the call's connection among the open ones, for
   * TpsService.connection_closed. NULL = none. */
  gconstpointer (*get_connection) (gpointer carried);
};

/* Creates a dispatcher, which finds methods by name and does not change any more. Thread: any. The
 * dispatcher is owned by the caller. Copies the `n_services` entries; the objects that they
 * refer to are borrowed. Names without "Service:" belong to `default_service`. If `default_service`
 * is NULL, these names belong to the only service; if there are several services, they are unknown.
 * If the `methods` of a service are NULL, its calls go to its hook `handle_other`. If that is NULL
 * too, its calls are answered like calls of unknown methods. Errors: TPS_ERROR_INVALID_ARGUMENT (a
 * service twice, a method without a right, no such default). */
TpsDispatcher *tps_dispatcher_new (const TpsService *services, guint n_services,
                                   const gchar *default_service, GError **error);
/* The functions below must be called before the first message.
 *
 * Traces calls with `tracer`, which is borrowed and must outlive the calls; NULL = none. */
void tps_dispatcher_set_tracer (TpsDispatcher *dispatcher, TpsTracer *tracer);

/* Counts requests in `metrics` (a reference is taken; NULL = none). May be called once. */
void tps_dispatcher_set_metrics (TpsDispatcher *dispatcher, TpsMetrics *metrics);

/* Registers the listed methods of all services with `access`, which then decides about each method
 * once for each grant instead of at each call. */
void tps_dispatcher_set_access (TpsDispatcher *dispatcher, TpsAccess *access);

/* Sets the dispatcher of calls that reach the Chunks service in transfers (a reference is taken).
 * The default is the dispatcher of tps_chunks_set_services(). */
void tps_dispatcher_set_transferred (TpsDispatcher *dispatcher, TpsDispatcher *transferred);
TpsDispatcher *tps_dispatcher_ref (TpsDispatcher *dispatcher);
void tps_dispatcher_unref (TpsDispatcher *dispatcher);

/* Takes over `message`, valid or not, and makes sure that `ops->finish` is called exactly once:
 * with the handler's reply, or immediately with one of these errors:
 *   ServiceError RESOURCE_EXHAUSTED             the caller's tenant is at one of its limits; with
 *                                               retry_after_ms
 *   ServiceError PERMISSION_DENIED              the caller may not call the method, or may not
 *                or UNAUTHENTICATED             know that it does not exist; services of other
 *                                               contracts answer with TApplicationException
 *   TApplicationException UNKNOWN_METHOD        no such service or method; the message names it
 *   TApplicationException INVALID_MESSAGE_TYPE  neither a call nor oneway
 *   ServiceError RESOURCE_EXHAUSTED             the scanner's buffer pool had no room for a body of
 *                                               the message; with retry_after_ms if the message
 *                                               fits into an empty pool
 * The reply carries the name without its "Service:", as Thrift's own multiplexed processors do. A
 * carrier that refuses the call, for example because it shuts down, sets `refuse`, which is then
 * the reply instead of the handler's; NULL = the call is not refused. `caller` NULL = has all
 * rights and no limits. The dispatcher must live until `finish` is called, because the call may
 * wait for a worker. */
void tps_dispatcher_handle (TpsDispatcher *dispatcher, TpsMessage *message, const TpsCaller *caller,
                            const GError *refuse, const TpsCarrierOps *ops, gpointer carried);

void tps_dispatcher_connection_closed (TpsDispatcher *dispatcher, gconstpointer connection);

/* Calls shut_down of every service that has it: pending calls end, and later ones are refused. */
void tps_dispatcher_shut_down (TpsDispatcher *dispatcher);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDispatcher, tps_dispatcher_unref)

G_END_DECLS
