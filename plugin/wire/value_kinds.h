/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Kinds of values of fields that are not public, see thriftps/wire.h. "Of" gives the type of
 * TpsField.of. */

#pragma once

#include <sys/uio.h>

#include "plugin/wire/descriptor.h"

G_BEGIN_DECLS

extern const TpsValueKind tps_kind_number; /* gdouble; NaN = missing */
extern const TpsValueKind tps_kind_finite; /* gdouble, neither infinite nor NaN; NaN = missing */

extern const TpsValueKind
    tps_kind_open_enum; /* as tps_kind_enum, for values that are checked elsewhere */

extern const TpsValueKind tps_kind_name; /* as tps_kind_string: [A-Za-z0-9_.:/-]{1,255} */

/* An array with a fixed number of bytes. Of a gsize, that number. */
extern const TpsValueKind tps_kind_array;

/* Bytes in one of two forms, or none. A writer borrows either form until it releases the bytes. */
typedef struct
{
  GBytes *received;           /* a reference to the body, or a copy if it is small */
  const struct iovec *pieces; /* outgoing bytes in their own memory */
  guint n_pieces;
} TpsChunkData;

void tps_chunk_data_clear (TpsChunkData *data);
extern const TpsValueKind tps_kind_chunk_data; /* TpsChunkData */

/* Returns TRUE if the `n_bytes` at `name` are a valid name of a table, parameter, key or client. */
gboolean tps_name_is_valid (const gchar *name, gsize n_bytes);

/* Converts the value of `field` (tps_field_write()) to JSON: a struct to an object whose members
 * have the names of the IDL, a list to an array. Enums become their names. A field that is not set
 * is left out if its `has` differs from 0, and so are NaN and binaries. Returns a new string, which
 * the caller owns. Thread: any. */
GString *tps_field_to_json (const TpsField *field, gconstpointer value);

G_END_DECLS
