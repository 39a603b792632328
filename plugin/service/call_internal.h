/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What a call is made of; for the dispatcher alone. */

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

/* What all calls of a dispatcher have in common. */
typedef struct
{
  const TpsService *keeper; /* keeps an answer that no frame can hold; NULL = there is none */
  TpsCounter *admin;        /* that need the right ADMIN */
  TpsTracer *tracer;        /* borrowed; NULL = calls are not traced */
} TpsCallContext;

/* Takes over `message`; `context` and `rpc` (NULL for a method that has none) are borrowed. The
 * call lives until it is answered. */
TpsCall *tps_call_new (TpsMessage *message, const TpsRpc *rpc, const TpsCarrierOps *ops,
                       gpointer carried, const TpsCallContext *context);

/* Has the call counted, from its arrival on: right after its creation. `metrics` are borrowed until
 * it is answered; NULL = it is not counted. */
void tps_call_set_metrics (TpsCall *call, TpsMethodMetrics *metrics);

/* Charges the call to its carrier's tenant, until it is answered; with `is_login`
 * (TpsMethod.is_login) only if the carrier does not let it pass. FALSE: it is refused, and charged
 * for nothing; `error` must not be NULL. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_call_admit (TpsCall *call, gboolean is_login, GError **error);

/* Has the call traced from now on. Before it is handled. */
void tps_call_begin_span (TpsCall *call);

/* Arguments that lie in memory shared with the client are copied when they are read. */
void tps_call_copy_shared (TpsCall *call);

/* The method that the call has, borrowed until it is answered. */
void tps_call_set_method (TpsCall *call, const TpsGuardedMethod *method);

/* Answers a call that its caller may not make. The form depends on its name alone: it does not tell
 * what there is. */
void tps_call_refuse (TpsCall *call, const GError *error);

/* Answers with a TApplicationException. */
void tps_call_reply_exception (TpsCall *call, TpsExceptionKind kind, const gchar *text);

G_END_DECLS
