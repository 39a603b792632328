/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* CRC32C (Castagnoli polynomial, reflected, inverted before and after, as in iSCSI, RFC 3720 B.4) by ISA-L. */

#pragma once

#include <sys/uio.h>

#include "plugin/wire/wire_chunks.h"
#include "runtime/base/error.h"

G_BEGIN_DECLS

/* Of what came before, whose CRC is `crc` (0 at the beginning), and of `n_bytes` more. Thread: any. */
guint32 tps_crc32c (guint32 crc, gconstpointer data, gsize n_bytes);

guint32 tps_crc32c_of_pieces (const struct iovec *pieces, guint n_pieces);

/* Whether the data of a chunk have the CRC that it says. Errors: `code`. */
gboolean tps_crc32c_check_chunk (const TpsChunk *chunk, TpsErrorCode code, GError **error);

G_END_DECLS
