/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The outcome that a reply carries: a value, the contract's ServiceError, or a
 * TApplicationException. */

#pragma once

#include "plugin/frame/reader.h"

G_BEGIN_DECLS

/* Returns TRUE if the reply carries the name of the call: "Service:method" as sent, or the method
 * alone, as in replies of multiplexed processors. */
gboolean tps_reply_has_name (const TpsMessage *reply, const gchar *sent_name);

/* Opens a reply. Returns TRUE for a value: `in` is then positioned before the value, and `type` is
 * its wire type, TPS_WIRE_STOP if the result is void. Otherwise sets the error: the peer's error
 * with its TPS_ERROR code, including retry_after_ms; RESOURCE_EXHAUSTED if there was no memory for
 * the reply; INTERNAL if the result has an unknown field. */
gboolean tps_reply_open (const TpsMessage *reply, TpsReader *in, TpsWireType *type, GError **error);

/* Returns the name of the transfer from which the reply must be fetched (ServiceError.transfer);
 * the caller owns it. NULL: `reply` is the reply itself. */
gchar *tps_reply_dup_transfer (const TpsMessage *reply);

G_END_DECLS
