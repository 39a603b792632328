/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The checksums of chunks. */

#pragma once

#include <sys/uio.h>

#include "plugin/wire/wire_chunks.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/error.h"

G_BEGIN_DECLS

/* Returns the CRC32C of the bytes of `pieces`, in order. */
guint32 tps_crc32c_of_pieces (const struct iovec *pieces, guint n_pieces);

/* Returns TRUE if the CRC of a chunk matches its data. Errors: `code`. */
gboolean tps_crc32c_check_chunk (const TpsChunk *chunk, TpsErrorCode code, GError **error);

G_END_DECLS
