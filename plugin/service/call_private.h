/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parts of a call; no other file may include this header. Each part calls only parts below it:
 *
 *   call_rights.c   the rights of the caller, and refusals for lack of them
 *   call.c          the course of a call: arguments, work on workers, its reply and its end
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
  const TpsRpc *rpc;              /* NULL: a method of a different contract, or none */
  const TpsCallContext *context;  /* borrowed */
  const TpsGuardedMethod *method; /* of the dispatcher; NULL = not known yet */
  const TpsGrant *grant;          /* borrowed from the carrier; NULL = everything is allowed */
  TpsMethodMetrics *metrics;      /* borrowed; NULL = the call is not counted */
  gint64 arrived_ns;              /* on the monotonic clock */
  gboolean copies_shared;
  gboolean is_admin;      /* the end is logged for the audit, with the next two fields */
  gint code;              /* of the failure, on the wire; -1 = none */
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

/* Returns FALSE if a reply would not be sent: the call is oneway, or its connection has closed. */
static inline gboolean
tps_call_wants_reply (TpsCall *call)
{
  return call->message->kind != TPS_MESSAGE_ONEWAY && tps_call_is_connected (call);
}

/* Returns the budget for replies, borrowed; NULL = no limit. */
static inline TpsBudget *
tps_call_get_reply_budget (const TpsCall *call)
{
  return call->ops->get_reply_budget != NULL ? call->ops->get_reply_budget (call->carried) : NULL;
}

/* ---- call_caller.c -------------------------------------------------------------------------- */

/* Charges the bytes of `reply` (NULL = none) to the tenant of an admitted call, and tells the
 * tenant that the call has ended. `now_ns` 0 = unknown. */
void tps_call_leave_tenant (TpsCall *call, TpsWriter *reply, gint64 now_ns);

/* ---- call_records.c ------------------------------------------------------------------------- */

/* Records a failure in the log, the metrics and the span. `code` is the code on the wire; 0 = a
 * TApplicationException, which has no code. */
void tps_call_record_failure (TpsCall *call, gint code, const gchar *text);

/* As tps_call_record_failure(), with the code and the text of `error`. */
void tps_call_record_error (TpsCall *call, const GError *error);

/* Counts and logs that the caller lacks a right. `object` is the table; NULL = the method. */
void tps_call_record_refusal (TpsCall *call, const gchar *object, const GError *error);

/* Completes the records when the call ends. `reply` NULL = there is no reply. Returns the time of
 * the end; 0 = no record needed the time. */
gint64 tps_call_end_records (TpsCall *call, TpsWriter *reply);

/* ---- call_replies.c ------------------------------------------------------------------------- */

/* Returns the name of the method without its service, as Thrift's multiplexed processors pass it on
 * and use it in replies. Borrowed. */
const gchar *tps_call_get_method_name (const TpsCall *call);

/* Creates a reply with the result that `write` writes (NULL = void). If the result is too long, or
 * there is no room for it, the reply is a failure, which is recorded, or refers to a transfer. The
 * caller owns the reply. */
TpsWriter *tps_call_write_result (TpsCall *call, TpsWriteResult write, gconstpointer user_data);

/* Creates a TApplicationException, owned by the caller. */
TpsWriter *tps_call_write_exception (TpsCall *call, TpsExceptionKind kind, const gchar *text);

/* Creates the reply to a failed call: a ServiceError, or a TApplicationException if the method
 * belongs to a different contract. The caller owns the reply. */
TpsWriter *tps_call_write_failure (TpsCall *call, const GError *failure);

/* As tps_call_write_failure(), for a call that its caller may not make. The form depends on the
 * name of the method only, so it does not reveal whether this server has the method. */
TpsWriter *tps_call_write_refusal (TpsCall *call, const GError *failure);

/* Returns TRUE if the connection has room for the reply `out` in addition to its unread replies. */
gboolean tps_call_has_room (TpsCall *call, TpsWriter *out);

/* Replaces `out`, for which there is no room, by a failure, which is recorded. Takes over `out`;
 * the caller owns the result. */
TpsWriter *tps_call_refuse_unread (TpsCall *call, TpsWriter *out);

/* ---- call.c --------------------------------------------------------------------------------- */

/* Ends and frees the call. Takes over and sends `reply`; NULL = there is no reply. */
void tps_call_end (TpsCall *call, TpsWriter *reply);

G_END_DECLS
