/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parts of a call; only they include this header. Each part calls those below it only:
 *
 *   call_rights.c   the rights of the caller, and refusals for lack of them
 *   call.c          the way of a call: arguments, work on workers, its reply and its end
 *   call_replies.c  writes replies
 *   call_records.c  records of a call: metrics, span, audit, the log of failures
 *   call_caller.c   the caller and its connection, as the carrier knows them
 */

#pragma once

#include "plugin/service/call_internal.h"

G_BEGIN_DECLS

struct TpsCall
{
  TpsMessage *message;
  const TpsCarrierOps *ops;
  gpointer carried;
  const TpsRpc *rpc;              /* NULL: a method of another contract, or none */
  const TpsCallContext *context;  /* borrowed */
  const TpsGuardedMethod *method; /* of the dispatcher; NULL = not known yet */
  const TpsGrant *grant;          /* borrowed from the carrier; NULL = everything is allowed */
  TpsMethodMetrics *metrics;      /* borrowed; NULL = the call is not counted */
  gint64 arrived_ns;              /* on the monotonic clock */
  gboolean copies_shared;
  gboolean is_admin;      /* the end is logged for the audit, with the next two fields */
  gint code;              /* the wire's code of the failure; -1 = none */
  gchar *object;          /* the table that the call named; NULL = none */
  gboolean is_admitted;   /* the tenant counts the call until it ends */
  TpsTenant *tenant;      /* borrowed; NULL = none */
  gboolean has_arguments; /* they have been read */
  TpsCallSpan *span;      /* NULL: the call is not traced */

  /* The arguments of tps_call_run_on_worker(). */
  void (*work) (TpsCall *call, gpointer user_data);
  gpointer work_data;
  GDestroyNotify release_work; /* may be NULL */

  TpsSharing *place; /* of the reply, with reserved memory; NULL = none is reserved */

  TpsCallSpan own_span; /* the memory of `span` */
};

/* FALSE: a reply would not be sent. */
static inline gboolean
tps_call_wants_reply (TpsCall *call)
{
  return call->message->kind != TPS_MESSAGE_ONEWAY && tps_call_is_connected (call);
}

static inline TpsBudget *
tps_call_get_reply_budget (const TpsCall *call)
{
  return call->ops->get_reply_budget != NULL ? call->ops->get_reply_budget (call->carried) : NULL;
}

/* ---- call_caller.c -------------------------------------------------------------------------- */

/* Charges the bytes of `reply` (NULL = none) to the tenant of an admitted call, which is no longer
 * in flight. `now_ns` 0 = not known. */
void tps_call_leave_tenant (TpsCall *call, TpsWriter *reply, gint64 now_ns);

/* ---- call_records.c ------------------------------------------------------------------------- */

/* Records a failure in the log, the metrics and the span. `code` is the wire's; 0 = a
 * TApplicationException, which has no name. */
void tps_call_record_failure (TpsCall *call, gint code, const gchar *text);

/* The same for an error. */
void tps_call_record_error (TpsCall *call, const GError *error);

/* Counts and logs that the caller lacks a right. `object` is a table; NULL = the method. */
void tps_call_record_refusal (TpsCall *call, const gchar *object, const GError *error);

/* Completes the records when the call ends. `reply` NULL = there is none. Returns the time of the
 * end; 0 = no record needed it. */
gint64 tps_call_end_records (TpsCall *call, TpsWriter *reply);

/* ---- call_replies.c ------------------------------------------------------------------------- */

/* The name without its service, as Thrift's multiplexed processors pass it on and reply with. */
const gchar *tps_call_get_method_name (const TpsCall *call);

/* A reply with the result that `write` writes (NULL = void), or with an error, which is recorded,
 * if there is no room for the result. Owned by the caller. */
TpsWriter *tps_call_write_result (TpsCall *call, TpsWriteResult write, gconstpointer user_data);

/* A TApplicationException; owned by the caller. */
TpsWriter *tps_call_write_exception (TpsCall *call, TpsExceptionKind kind, const gchar *text);

/* A failure: a ServiceError, or a TApplicationException if the method belongs to another contract.
 * Owned by the caller. */
TpsWriter *tps_call_write_failure (TpsCall *call, const GError *failure);

/* The same for a call that its caller may not make. The form depends on the name of the method
 * alone, so it does not tell whether this server has the method. */
TpsWriter *tps_call_write_refusal (TpsCall *call, const GError *failure);

/* Whether the connection has room for the reply `out` among its unread replies. */
gboolean tps_call_has_room (TpsCall *call, TpsWriter *out);

/* Replaces `out`, for which there is no room, by a failure, which is recorded. */
TpsWriter *tps_call_refuse_unread (TpsCall *call, TpsWriter *out);

/* ---- call.c --------------------------------------------------------------------------------- */

/* Ends the call. `reply`, which is taken over, is sent; NULL = there is none. */
void tps_call_end (TpsCall *call, TpsWriter *reply);

G_END_DECLS
