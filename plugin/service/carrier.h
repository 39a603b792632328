/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Who carries calls to the services and answers back: our server's connections, or a host's
 * ThriftProcessor.
 *
 * A carrier has a received message and hands it to a dispatcher with the functions below. The
 * dispatcher finds the method, runs its handler, and gives the carrier the finished reply, exactly
 * once, now or later.
 */

#pragma once

#include "plugin/access/access.h"
#include "plugin/service/call.h"
#include "plugin/tracing/tracer.h"
#include "runtime/base/metrics.h"
#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

/* `carried` is what the carrier gave to tps_dispatcher_handle(): one object per call. Every slot:
 * thread any. */
typedef struct
{
  /* Whether the answer may come after tps_dispatcher_handle() has returned because the call waits
   * for other calls. FALSE where waiting would block the calls waited for. Does not block. */
  gboolean (*may_wait) (gpointer carried);

  /* Optional, NULL = yes: whether anybody still wants the answer. Saves encoding it. Does not
   * block. */
  gboolean (*is_wanted) (gpointer carried);

  /* Runs `func (user_data)`: on a worker, in the turn of that lane, or (a carrier without workers)
   * at once on the calling thread. If the connection of the call closes before `func` has begun, a
   * worker calls `cancel (user_data)` instead. NULL `cancel` = `func` always runs. */
  void (*run_on_worker) (gpointer carried, TpsLane lane, TpsJobFunc func, TpsJobFunc cancel,
                         gpointer user_data);

  /* The last use of `carried`, exactly once. `reply` is finished (message_end was called) and
   * becomes the carrier's; it is in the protocol and framing of the message. NULL = there is
   * nothing to send: the message was oneway, or is not wanted. Does not block. */
  void (*finish) (gpointer carried, TpsWriter *reply);

  /* Optional, NULL = not known: who the caller is, for the log; borrowed while the call lives. Does
   * not block. */
  const gchar *(*get_peer) (gpointer carried);

  /* Optional, NULL = anonymous: the principal that calls, borrowed while the call lives. Not asked
   * where there is a grant. Does not block. */
  const TpsPrincipal *(*get_principal) (gpointer carried);

  /* Optional, NULL = everything: what the caller may do, borrowed while the call lives. Does not
   * block. */
  const TpsGrant *(*get_grant) (gpointer carried);

  /* Optional, NULL = none, as is NULL: the tenant whose limits hold for the call; lives as long as
   * the dispatcher's server. Asked for once for each call. Does not block. */
  TpsTenant *(*get_tenant) (gpointer carried);

  /* Optional: the call is refused because its tenant is at a limit, and would be for `wait_ms`
   * more. The carrier may read nothing more from its connection meanwhile. Called before `finish`.
   * Does not block. */
  void (*throttle) (gpointer carried, gint wait_ms);

  /* Optional, NULL = no: whether the call, of a method that logs in, is served without being
   * charged to the tenant. Must be bounded for each connection. Called by tps_dispatcher_handle().
   * Does not block. */
  gboolean (*may_log_in) (gpointer carried);

  /* Optional, NULL = the carrier takes no tokens: tps_call_authenticate(). Does not block. */
  gboolean (*authenticate) (gpointer carried, const gchar *token, GError **error);

  /* Optional, NULL = the carrier keeps none: tps_call_set_context(). Takes a reference of
   * `context`, which nothing changes any more; NULL = none. Does not block. */
  void (*set_context) (gpointer carried, GHashTable *context);

  /* Optional, NULL = none: the memory that the call's connection shares with its client, borrowed.
   * NULL with an error (may be asked for with NULL) that says why there is none: UNAVAILABLE,
   * PERMISSION_DENIED. Does not block. */
  TpsSegmentRegistry *(*get_segments) (gpointer carried, GError **error);

  /* Optional, NULL = no limit: what is charged for the bytes of replies until they are sent;
   * borrowed. Does not block. */
  TpsBudget *(*get_reply_budget) (gpointer carried);

  /* Optional, NULL = yes: whether a reply of `n_bytes`, which has been charged, may join those of
   * the connection that have not been sent. FALSE: the call fails with RESOURCE_EXHAUSTED. Not
   * asked for small replies. Does not block. */
  gboolean (*has_room) (gpointer carried, gsize n_bytes);

  /* Optional, NULL = none: identifies the call's connection among those that are open, for
   * TpsService.connection_closed. */
  gconstpointer (*get_connection) (gpointer carried);
} TpsCarrierOps;

/* Names to methods. Immutable after its creation; thread: any. */
typedef struct TpsDispatcher TpsDispatcher;

/* Copies the `n_services` entries (what they point to is borrowed). Names without "Service:" go to
 * `default_service`; NULL = to the only service where there is one, else such names are unknown. A
 * service without methods (methods NULL) is known, its methods are not. Errors:
 * TPS_ERROR_INVALID_ARGUMENT (a service twice, a method without a right, no such default). */
TpsDispatcher *tps_dispatcher_new (const TpsService *services, guint n_services,
                                   const gchar *default_service, GError **error);
/* Has calls traced by `tracer` (NULL = not, as at first), which is borrowed and must outlive the
 * calls. Before the first message. */
void tps_dispatcher_set_tracer (TpsDispatcher *dispatcher, TpsTracer *tracer);

/* Has requests counted in `metrics` (NULL = nowhere, as at first), of which it takes a reference.
 * Once, before the first message. */
void tps_dispatcher_set_metrics (TpsDispatcher *dispatcher, TpsMetrics *metrics);

/* Has decisions about the methods made when a connection begins. Before the first message. */
void tps_dispatcher_set_access (TpsDispatcher *dispatcher, TpsAccess *access);

TpsDispatcher *tps_dispatcher_ref (TpsDispatcher *dispatcher);
void tps_dispatcher_unref (TpsDispatcher *dispatcher);

/* Takes over `message`, whatever it is, and sees to it that `ops->finish` is called once: by the
 * handler's answer, or at once with
 *   ServiceError RESOURCE_EXHAUSTED             the caller's tenant is at one of its limits; with
 *                                               retry_after_ms
 *   ServiceError PERMISSION_DENIED              the caller may not call it; TApplicationException
 *                                               for
 *                or UNAUTHENTICATED             services of other contracts. The same if there is
 *                                               none
 *   TApplicationException UNKNOWN_METHOD        no such service or method; the message names it
 *   TApplicationException INVALID_MESSAGE_TYPE  neither a call nor oneway
 *   ServiceError RESOURCE_EXHAUSTED             the pool refused a body of the message; with
 *                                               retry_after_ms where the message fits into the pool
 *                                               when that is empty
 * The reply carries the name without its "Service:", as Thrift's own multiplexed processors answer.
 * `refuse` (may be NULL) is answered instead of calling the handler: for carriers that are shutting
 * down. The dispatcher has to live until `finish` is called: the call may wait for a worker. */
void tps_dispatcher_handle (TpsDispatcher *dispatcher, TpsMessage *message, const GError *refuse,
                            const TpsCarrierOps *ops, gpointer carried);

/* Tells the services that a connection has closed: calls connection_closed of every service that
 * has it. */
void tps_dispatcher_connection_closed (TpsDispatcher *dispatcher, gconstpointer connection);

/* Ends what waits in the services and makes them refuse what comes: calls shut_down of every
 * service that has it. */
void tps_dispatcher_shut_down (TpsDispatcher *dispatcher);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDispatcher, tps_dispatcher_unref)

G_END_DECLS
