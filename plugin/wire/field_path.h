/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Where a value stands in its message, for errors that name it: "gradient.dense.shape is missing".
 * Thread: any. */

#pragma once

#include "plugin/frame/reader.h"

G_BEGIN_DECLS

/* Lives on the stack of the decoders, each pointing to the one before. NULL is the arguments struct
 * itself. */
typedef struct TpsFieldPath TpsFieldPath;
struct TpsFieldPath
{
  const TpsFieldPath *parent; /* NULL: the outermost */
  const gchar *name;          /* NULL: an element of a list */
  guint32 index;
};

/* "gradient.dense", "batches[3].input"; "arguments" for NULL. Owned by the caller. */
gchar *tps_field_path_to_string (const TpsFieldPath *path);

/* Sets INVALID_ARGUMENT "PATH TEXT" and returns FALSE. */
gboolean tps_field_refuse (const TpsFieldPath *path, GError **error, const gchar *format, ...)
    G_GNUC_PRINTF (3, 4);

/* Refuses "PATH is of type i64, expected string" where they differ; STOP means "PATH is
 * missing". */
gboolean tps_field_check_type (const TpsFieldPath *path, TpsWireType type, TpsWireType expected,
                               GError **error);

/* Refuses "PATH cannot be read" if the reader has gone bad. */
gboolean tps_field_check_reader (const TpsReader *in, const TpsFieldPath *path, GError **error);

/* Begins a list whose elements must be of `type` (an empty list may say anything). */
gboolean tps_field_list_begin (TpsReader *in, const TpsFieldPath *path, TpsWireType type,
                               guint32 *n_elems, GError **error);

G_END_DECLS
