/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Assembles a reply from its chunks, which may come in any order within a window. The client's
 * counterpart of transfer.h; without clock, lock or thread.
 */

#pragma once

#include "plugin/frame/message.h"
#include "plugin/wire/wire_chunks.h"

G_BEGIN_DECLS

#define TPS_ASSEMBLY_WINDOW 4

typedef struct TpsAssembly TpsAssembly;

/* Begins a reply of `n_bytes` in `n_chunks`; both 0: not known before its first chunk. Errors:
 * INTERNAL (impossible numbers). */
TpsAssembly *tps_assembly_new (gint64 n_bytes, gint32 n_chunks, TpsBufferPool *bodies,
                               GError **error);
void tps_assembly_free (TpsAssembly *assembly);

/* Returns the next chunk to request, and counts it as requested; -1 = none now. */
gint32 tps_assembly_ask (TpsAssembly *assembly);

/* Makes chunks that were requested and have not come be requested again. */
void tps_assembly_ask_again (TpsAssembly *assembly);

/* Adds a chunk, and takes over the parts of it that it needs. Errors: INTERNAL; `may_help` tells
 * whether another request may help (after a wrong CRC), or the reply is broken for good. A chunk
 * that is already here, or that was not requested, changes nothing. So the caller must limit the
 * time for a peer that sends only such chunks. */
gboolean tps_assembly_put (TpsAssembly *assembly, const TpsChunk *chunk, gboolean *may_help,
                           GError **error);

/* Sets the reply of a peer that sends it whole. */
gboolean tps_assembly_put_whole (TpsAssembly *assembly, GBytes *message, GError **error);

/* Returns the number of chunks that have been taken over, in order from 0. */
gint32 tps_assembly_get_n_received (const TpsAssembly *assembly);

/* Returns the complete reply, owned by the caller; NULL = chunks are missing. */
TpsMessage *tps_assembly_take (TpsAssembly *assembly);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsAssembly, tps_assembly_free)

G_END_DECLS
