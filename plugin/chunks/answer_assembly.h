/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Assembles a reply from its chunks, which may come in any order within a window. The counterpart
 * of transfer.h on the client; without clock, lock or thread. */

#pragma once

#include "plugin/frame/message.h"
#include "plugin/wire/wire_chunks.h"

#define TPS_ASSEMBLY_WINDOW 4

typedef struct TpsAssembly TpsAssembly;

/* Begins a reply of `n_bytes` in `n_chunks`. If both are 0, they are unknown until the first chunk.
 * The bodies of the reply come from `bodies` (a reference is taken; NULL = the default pool). The
 * caller owns the result. Errors: INTERNAL (impossible numbers). */
TpsAssembly *tps_assembly_new (gint64 n_bytes, gint32 n_chunks, TpsBufferPool *bodies,
                               GError **error);
void tps_assembly_free (TpsAssembly *assembly);

/* Returns the number of the next chunk to request, and counts the chunk as requested; -1 = none
 * now. */
gint32 tps_assembly_ask (TpsAssembly *assembly);

/* Marks all requested chunks that have not come as not requested. */
void tps_assembly_ask_again (TpsAssembly *assembly);

/* Adds a chunk, and takes a reference to its data if necessary. Errors: INTERNAL; `may_help` is
 * TRUE if the chunk may be requested again (a wrong CRC), FALSE if the reply cannot be completed. A
 * chunk that is here already, or was not requested, changes nothing: the caller must limit the time
 * for a peer that sends only such chunks. */
gboolean tps_assembly_put (TpsAssembly *assembly, const TpsChunk *chunk, gboolean *may_help,
                           GError **error);

/* Sets the whole reply, for a peer that does not send it in chunks. Must be called instead of
 * tps_assembly_put(). Errors: INTERNAL. */
gboolean tps_assembly_put_whole (TpsAssembly *assembly, GBytes *message, GError **error);

/* Returns the number of chunks that have been assembled, in order from 0. */
gint32 tps_assembly_get_n_received (const TpsAssembly *assembly);

/* Returns the complete reply, which the caller owns; NULL if chunks are missing. */
TpsMessage *tps_assembly_take (TpsAssembly *assembly);
