/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The position of a value in its message, for errors such as "gradient.dense.shape is missing".
 * Thread: any. */

#pragma once

#include <thriftps/wire.h>

#include "plugin/frame/reader.h"

G_BEGIN_DECLS

/* A path lies on the stack of the decoders, and each element points to its parent. The path NULL is
 * the arguments struct itself. */
struct TpsFieldPath
{
  const TpsFieldPath *parent; /* NULL: the outermost */
  const gchar *name;          /* NULL: an element of a list */
  guint32 index;
};

/* Returns "gradient.dense", "batches[3].input", or "arguments" for NULL. The caller owns it. */
gchar *tps_field_path_to_string (const TpsFieldPath *path);

/* Sets `error` to INVALID_ARGUMENT with the text "PATH TEXT", and returns FALSE. */
gboolean tps_field_refuse (const TpsFieldPath *path, GError **error, const gchar *format, ...)
    G_GNUC_PRINTF (3, 4);

/* Refuses a value of the wrong type with "PATH is of type i64, expected string". The type STOP is
 * refused with "PATH is missing". Returns TRUE if the type is right. */
gboolean tps_field_check_type (const TpsFieldPath *path, TpsWireType type, TpsWireType expected,
                               GError **error);

/* Refuses a value with "PATH cannot be read" if the reader is bad; otherwise returns TRUE. */
gboolean tps_field_check_reader (const TpsReader *in, const TpsFieldPath *path, GError **error);

/* Begins a list whose elements must be of `type` (an empty list may have any type). Charges memory
 * for structs to the message. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
gboolean tps_field_list_begin (TpsReader *in, const TpsFieldPath *path, TpsWireType type,
                               guint32 *n_elems, GError **error);

G_END_DECLS
