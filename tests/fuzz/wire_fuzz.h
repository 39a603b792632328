/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Common declarations of the parts of wire_fuzz. */

#pragma once

#include "plugin/frame/reader.h"
#include "plugin/frame/writer.h"
#include "plugin/wire/rpc.h"

G_BEGIN_DECLS

/* Aborts where it is not so. */
void tps_fuzz_check (gboolean claim);

/* Every refusal has a reason, and it is the peer's fault. Takes over `error`. */
gboolean tps_fuzz_judge (gboolean ok, GError *error);

/* The first message in the bytes; NULL: there is none. */
TpsMessage *tps_fuzz_scan (const guint8 *bytes, gsize n_bytes);

/* The arguments of a method, as a peer receives them. */
TpsMessage *tps_fuzz_send (const TpsRpc *rpc, gconstpointer arguments, TpsProtocolKind protocol);

/* Stands before the value of the first field, as a client's reader does. */
TpsWireType tps_fuzz_begin_result (TpsReader *in, const TpsMessage *message);

G_END_DECLS
