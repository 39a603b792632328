/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The functions of a call that only the dispatcher may use. */

#pragma once

#include "plugin/service/call_metrics.h"
#include "plugin/service/carrier.h"

G_BEGIN_DECLS

/* Numbers of Thrift's TApplicationException. */
typedef enum
{
  TPS_EXCEPTION_UNKNOWN_METHOD = 1,
  TPS_EXCEPTION_INVALID_MESSAGE_TYPE = 2,
  TPS_EXCEPTION_INTERNAL_ERROR = 6,
  TPS_EXCEPTION_PROTOCOL_ERROR = 7,
} TpsExceptionKind;

/* The state shared by all calls of a dispatcher. */
typedef struct
{
  const TpsService *keeper; /* keeps replies that no frame can hold; NULL = there is none */
  TpsCounter *admin;        /* counts calls that need the right ADMIN */
  TpsTracer *tracer;        /* borrowed; NULL = calls are not traced */
  /* of calls that arrive in transfers; NULL = the dispatcher of tps_chunks_set_services() */
  TpsDispatcher *transferred;
} TpsCallContext;

/* Creates a call, which lives until it is answered. Takes over `message`. `context` and `rpc` are
 * borrowed; NULL `rpc` = the method has no descriptor. */
TpsCall *tps_call_new (TpsMessage *message, const TpsRpc *rpc, const TpsCarrierOps *ops,
                       gpointer carried, const TpsCallContext *context);

/* Counts the call from its arrival on; must be called right after its creation. `metrics` are
 * borrowed until the call is answered; NULL = the call is not counted. */
void tps_call_set_metrics (TpsCall *call, TpsMethodMetrics *metrics);

/* Charges the call to its tenant, until the call is answered. A login (TpsMethod.is_login) is
 * charged only if it is long, or if the carrier refuses to serve it free of charge. A call that
 * came in a transfer is not charged. FALSE: the call must be refused, and nothing is charged;
 * `error` must not be NULL. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_call_admit (TpsCall *call, gboolean is_login, GError **error);

/* Begins the span of the call. Must be called before the handler. */
void tps_call_begin_span (TpsCall *call);

/* Makes tps_call_read_arguments() copy arguments in memory shared with the client. */
void tps_call_copy_shared (TpsCall *call);

/* Sets the method of the call, borrowed until the call is answered. */
void tps_call_set_method (TpsCall *call, const TpsGuardedMethod *method);

/* Answers a call that its caller may not make. The form of the reply depends on the name of the
 * method only, so it does not reveal the existence of the method. */
void tps_call_refuse (TpsCall *call, const GError *error);

/* Answers with a TApplicationException. */
void tps_call_reply_exception (TpsCall *call, TpsExceptionKind kind, const gchar *text);

G_END_DECLS
