/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Puts an answer together from its chunks, which may come in any order within a window. The
 * client's counterpart of transfer.h; without clock, lock or thread.
 */

#pragma once

#include "plugin/frame/message.h"
#include "plugin/wire/wire_chunks.h"

G_BEGIN_DECLS

#define TPS_ASSEMBLY_WINDOW 4

typedef struct TpsAssembly TpsAssembly;

/* An answer of `n_bytes` in `n_chunks`; both 0: not known before its first chunk. Errors: INTERNAL
 * (numbers that fit no message). */
TpsAssembly *tps_assembly_new (gint64 n_bytes, gint32 n_chunks, TpsBufferPool *bodies,
                               GError **error);
void tps_assembly_free (TpsAssembly *assembly);

/* The next chunk to ask for, which is then asked for; -1 = none at the moment. */
gint32 tps_assembly_ask (TpsAssembly *assembly);

/* Chunks that were asked for and have not come are to be asked for again. */
void tps_assembly_ask_again (TpsAssembly *assembly);

/* Takes what it needs of a chunk. Errors: INTERNAL; `may_help` says whether asking again may help
 * (a wrong CRC), or the answer is broken for good. A chunk that is there already, or that nobody
 * asked for, changes nothing; whoever asks sees to it that a peer which sends nothing else is not
 * waited for. */
gboolean tps_assembly_put (TpsAssembly *assembly, const TpsChunk *chunk, gboolean *may_help,
                           GError **error);

/* An answer that comes whole. */
gboolean tps_assembly_put_whole (TpsAssembly *assembly, GBytes *message, GError **error);

gint32 tps_assembly_get_n_received (const TpsAssembly *assembly);

/* The answer when all of it is there, the caller's; NULL = chunks are missing. */
TpsMessage *tps_assembly_take (TpsAssembly *assembly);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsAssembly, tps_assembly_free)

G_END_DECLS
