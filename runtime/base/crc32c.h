/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* CRC32C (Castagnoli polynomial, reflected, inverted before and after, as in iSCSI, RFC 3720 B.4)
 * by ISA-L. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The CRC of the bytes before, which is `crc` (0 at the beginning), and of `n_bytes` more. Thread:
 * any. */
guint32 tps_crc32c (guint32 crc, gconstpointer data, gsize n_bytes);

/* The same, while the bytes are copied: the memory of `data` is read once. The two must not
 * overlap. */
guint32 tps_crc32c_copy (guint32 crc, gpointer to, gconstpointer data, gsize n_bytes);

G_END_DECLS
