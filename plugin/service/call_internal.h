/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What a call is made of; for the dispatcher alone. */

#pragma once

#include "plugin/service/carrier.h"

G_BEGIN_DECLS

/* Numbers of Thrift's TApplicationException. */
typedef enum
{
  TPS_EXCEPTION_UNKNOWN_METHOD = 1,
  TPS_EXCEPTION_INVALID_MESSAGE_TYPE = 2,
} TpsExceptionKind;

/* Takes over `message`. The call lives until it is answered. `keeper` (borrowed, may be NULL) keeps an answer that no frame can
 * hold. */
TpsCall *tps_call_new (TpsMessage *message, const TpsCarrierOps *ops, gpointer carried,
                       const TpsService *keeper);

/* Answers with a TApplicationException. */
void tps_call_reply_exception (TpsCall *call, TpsExceptionKind kind, const gchar *text);

G_END_DECLS
