/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the parts of wire_fuzz have in common. */

#pragma once

#include "plugin/frame/reader.h"
#include "plugin/frame/writer.h"

G_BEGIN_DECLS

/* Aborts where it is not so. */
void tps_fuzz_check (gboolean claim);

typedef void (*TpsFuzzWrite) (TpsWriter *out, gconstpointer data);

/* Every refusal has a reason, and it is the peer's fault. Takes over `error`. */
gboolean tps_fuzz_judge (gboolean ok, GError *error);

/* The first message in the bytes; NULL: there is none. */
TpsMessage *tps_fuzz_scan (const guint8 *bytes, gsize n_bytes);

/* What a peer receives of what `write` wrote. */
TpsMessage *tps_fuzz_send (TpsFuzzWrite write, gconstpointer data, TpsProtocolKind protocol);

/* Stands before the value of the first field, as a client's reader does. */
TpsWireType tps_fuzz_begin_result (TpsReader *in, const TpsMessage *message);

/* The messages that carry no values themselves: Memory and Chunks. */
void tps_fuzz_decode_transport (const TpsMessage *message);

G_END_DECLS
