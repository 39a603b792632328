/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads structs of a canonical message by a table, and says exactly which value of it is wrong.
 *
 *   static const TpsFieldSpec push_fields[] = {
 *     { .id = 1, .type = TPS_WIRE_BINARY, .name = "client", .required = TRUE,
 *       .offset = G_STRUCT_OFFSET (TpsPushId, client), .read = tps_field_read_name },
 *     { .id = 2, .type = TPS_WIRE_I64, .name = "sequence", .required = TRUE,
 *       .offset = G_STRUCT_OFFSET (TpsPushId, sequence) },
 *     { 0 },
 *   };
 *   ok = tps_fields_read (in, path, push_fields, push, NULL, error);
 *
 * Errors are TPS_ERROR_INVALID_ARGUMENT and begin with the path of the value: "gradient.dense.shape is missing".
 * Unknown fields are skipped: a newer peer may send them. Thread: any.
 */

#pragma once

#include "plugin/frame/reader.h"
#include "plugin/frame/writer.h"

G_BEGIN_DECLS

/* Where a value stands in its message. Lives on the stack of the decoders, each pointing to the one before. */
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

/* Reads a binary of exactly `n_bytes` bytes into `to`; INVALID_ARGUMENT for any other. */
gboolean tps_field_read_exactly (TpsReader *in, const TpsFieldPath *path, gpointer to,
                                 gsize n_bytes, GError **error);

/* Reads one value into `target`, as a row of a table says. `target` is zero or holds a value, which is released. */
typedef gboolean (*TpsFieldRead) (TpsReader *in, const TpsFieldPath *path, gpointer target,
                                  GError **error);

/* One field of a struct; a table ends with a row that has no name. */
typedef struct
{
  const gchar *name;
  gint16 id;
  TpsWireType type;
  gboolean required;
  gsize offset; /* of the value in the struct that is filled */
  TpsFieldRead
      read; /* NULL: gboolean, gint32, gint64, gdouble, or gchar * (UTF-8, newly allocated), by `type` */
} TpsFieldSpec;

/* Reads a struct into `target`. `seen` (may be NULL): bit i is set when specs[i] was there. On failure `target` is filled
 * in part and must be cleared like a whole one. */
gboolean tps_fields_read (TpsReader *in, const TpsFieldPath *path, const TpsFieldSpec *specs,
                          gpointer target, guint64 *seen, GError **error);

/* Begins a list whose elements must be of `type` (an empty one may say anything). */
gboolean tps_field_list_begin (TpsReader *in, const TpsFieldPath *path, TpsWireType type,
                               guint32 *n_elems, GError **error);

/* INVALID_ARGUMENT "PATH is of type i64, expected string" where they differ; STOP means
 * "PATH is missing". */
gboolean tps_field_check_type (const TpsFieldPath *path, TpsWireType type, TpsWireType expected,
                               GError **error);

/* Whether the reader is still good, for decoders that end outside of tps_fields_read(). */
gboolean tps_field_check_reader (const TpsReader *in, const TpsFieldPath *path, GError **error);

/* A TpsFieldRead for text, UTF-8 without NUL, into a gchar *. */
gboolean tps_field_read_string (TpsReader *in, const TpsFieldPath *path, gpointer target,
                                GError **error);

/* A TpsFieldRead for names of tables, parameters, keys and clients: [A-Za-z0-9_.:/-]{1,255}, into a gchar *. */
gboolean tps_field_read_name (TpsReader *in, const TpsFieldPath *path, gpointer target,
                              GError **error);

/* A TpsFieldRead for binaries, into a GBytes *: a reference of the body, or a copy where the value is small. */
gboolean tps_field_read_bytes (TpsReader *in, const TpsFieldPath *path, gpointer target,
                               GError **error);

/* A TpsFieldRead for doubles that are neither infinite nor NaN, into a gdouble. */
gboolean tps_field_read_finite (TpsReader *in, const TpsFieldPath *path, gpointer target,
                                GError **error);

/* A field with its value. */
void tps_field_write_i32 (TpsWriter *out, gint16 id, gint32 value);
void tps_field_write_i64 (TpsWriter *out, gint16 id, gint64 value);
void tps_field_write_double (TpsWriter *out, gint16 id, gdouble value);
void tps_field_write_string (TpsWriter *out, gint16 id, const gchar *value);

/* Whether `n_bytes` at `name` are such a name. */
gboolean tps_name_is_valid (const gchar *name, gsize n_bytes);

/* "i64", "string", …; static. */
const gchar *tps_wire_type_name (TpsWireType type);

G_END_DECLS
