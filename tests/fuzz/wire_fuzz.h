/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Common declarations of the parts of wire_fuzz. */

#pragma once

#include "plugin/frame/message.h"
#include "plugin/frame/writer.h"
#include "plugin/wire/descriptor.h"

G_BEGIN_DECLS

/* Aborts if `claim` is FALSE. */
void tps_fuzz_check (gboolean claim);

/* Checks that a refusal has a reason and blames the peer. Takes ownership of `error`. Returns
 * `ok`. */
gboolean tps_fuzz_judge (gboolean ok, GError *error);

/* Returns the first message in the bytes, or NULL if there is none. */
TpsMessage *tps_fuzz_scan (const guint8 *bytes, gsize n_bytes);

/* Returns the arguments of a method as a peer receives them. */
TpsMessage *tps_fuzz_send (const TpsRpc *rpc, gconstpointer arguments, TpsProtocolKind protocol);

/* Places the reader before the value of the first field, as for the result in a client. Returns the
 * type of the value, or STOP if there is no field. */
TpsWireType tps_fuzz_begin_result (TpsReader *in, const TpsMessage *message);

G_END_DECLS
