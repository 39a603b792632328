/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What an answer means: a value, the contract's ServiceError, or a TApplicationException. */

#pragma once

#include "plugin/frame/reader.h"

G_BEGIN_DECLS

/* Whether the answer carries the name of the call: "Service:method" as sent, or the method alone,
 * as multiplexed processors answer. */
gboolean tps_reply_has_name (const TpsMessage *reply, const gchar *sent_name);

/* TRUE for a value: `in` then stands before it, `type` is its wire type, TPS_WIRE_STOP where the
 * result is void. Else the peer's error under its TPS_ERROR code, retry_after_ms included;
 * RESOURCE_EXHAUSTED where there was no memory for the answer. */
gboolean tps_reply_open (const TpsMessage *reply, TpsReader *in, TpsWireType *type, GError **error);

/* The name under which the real answer waits (ServiceError.transfer), the caller's; NULL: this is
 * it. */
gchar *tps_reply_dup_transfer (const TpsMessage *reply);

G_END_DECLS
