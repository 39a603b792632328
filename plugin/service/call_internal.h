/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What a call is made of; for the dispatcher alone. */

#pragma once

#include "plugin/service/carrier.h"
#include "runtime/base/error.h"

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
  const TpsService *keeper; /* keeps an answer that no frame can hold; NULL = nobody does */
  TpsCounter *cancelled;    /* because their connections closed */
  TpsCounter *failed[TPS_ERROR_INTERNAL - TPS_ERROR_WIRE_BASE
                     + 1]; /* by the wire's code; 0 = TApplicationException */
} TpsCallContext;

/* Takes over `message`; `context` and `rpc` (NULL for a method that has none) are borrowed. The
 * call lives until it is answered. */
TpsCall *tps_call_new (TpsMessage *message, const TpsRpc *rpc, const TpsCarrierOps *ops,
                       gpointer carried, const TpsCallContext *context);

/* Arguments that lie in memory shared with the client are copied when they are read. */
void tps_call_copy_shared (TpsCall *call);

/* Answers with a TApplicationException. */
void tps_call_reply_exception (TpsCall *call, TpsExceptionKind kind, const gchar *text);

G_END_DECLS
