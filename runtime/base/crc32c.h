/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* CRC32C (Castagnoli polynomial, reflected, inverted before and after, as in iSCSI, RFC 3720 B.4)
 * by ISA-L. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns the CRC of a sequence of bytes that ends with the `n_bytes` at `data`; `crc` is the CRC
 * of all bytes before them, 0 if there are none. Thread: any. */
guint32 tps_crc32c (guint32 crc, gconstpointer data, gsize n_bytes);

/* As tps_crc32c(), but also copies the bytes to `to`, which must not overlap `data`. */
guint32 tps_crc32c_copy (guint32 crc, gpointer to, gconstpointer data, gsize n_bytes);

G_END_DECLS
